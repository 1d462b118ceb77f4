"""The lowest versions that pyproject.toml allows, as a pip constraints file: ``python tools/lowest.py > lowest.txt``.

Each lower bound ``>=1.26`` becomes ``==1.26.*``, so that its last patch is taken. torch and torchvision have the upper
bounds of requirements.lock instead: which of their builds fits depends on the machine.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def lowest(requirements: list[str]) -> list[str]:
    """``name==lower.*`` of each requirement that has a lower bound.

    Example:
        >>> lowest(["numpy>=1.26", "torch>=2.4", "sphinx-proof", "jupyter-book>=1.0.4,<2"])
        ['jupyter-book==1.0.4.*', 'numpy==1.26.*']
    """
    found = set()
    for requirement in requirements:
        match = re.match(r"([\w-]+)(?:\[.*\])?>=([0-9.]+)", requirement)
        if match and match[1] not in ("torch", "torchvision"):
            found.add(f"{match[1]}=={match[2]}.*")
    return sorted(found)


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {name: texts for name, texts in project["optional-dependencies"].items() if name != "peers"}
    texts = project["dependencies"] + [text for texts in extras.values() for text in texts]
    bounds = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if re.match(r"[\w-]+<", line)]
    print("\n".join(lowest(texts) + bounds))
