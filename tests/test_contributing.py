"""The three edits of CONTRIBUTING.md, made as it prints them in a copy of the checkout, and the shared tests there."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from checkout_copies import environment

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
#: File -> (language, text) of each block whose first line names one.
EDITS = {
    path: (language, text)
    for language, path, text in re.findall(r"^```(python|diff)\n(?:#|\+\+\+) (\S+\.py)\n(.*?)^```", PAGE, re.S | re.M)
}
NEW = {"mixture", "poly1", "spherical_loss"}
#: Tests of one registered method each are left to the new ones: this is loaded by pytest in the copy.
PLUGIN = f"""
from calibkit.calibrators import CALIBRATORS
from calibkit.losses import LOSSES
from calibkit.metrics import METRICS

def pytest_collection_modifyitems(items):
    entries = CALIBRATORS | LOSSES | METRICS
    old = {{name for key, entry in entries.items() if key not in {NEW} for name in (key, entry.__name__)}}
    values = [item.callspec.params.values() if hasattr(item, "callspec") else () for item in items]
    names = [{{value if isinstance(value, str) else getattr(value, "__name__", "") for value in of}} for of in values]
    items[:] = [item for item, given in zip(items, names, strict=True) if given.isdisjoint(old)]
"""
SHARED = """
    calibrators/test_contract.py calibrators/test_state.py losses/test_contract.py losses/test_defaults.py
    losses/test_keys.py metrics/test_contract.py metrics/test_defaults.py metrics/test_resampling.py
    plots/test_style.py reporting/test_needs.py results/test_advice.py test_deploy.py test_deploy_export.py
    test_booktables.py::test_a_registry_documents_each_entry test_keys.py test_layers.py
""".split()


def added(text: str, lines: list[str]) -> str:
    """A module with lines more: an import before the others, an entry at the end of the registry or of ``__all__``."""
    for line in lines:
        if line.startswith("from "):
            text = re.sub(r"^from calibkit", f"{line}\nfrom calibkit", text, count=1, flags=re.M)
        else:
            end = "}" if ":" in line else "]"
            text = re.sub(rf"^{re.escape(end)}$", f"{line}\n{end}", text, count=1, flags=re.M)
        assert line in text
    return text


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """The checkout with the edits; what they do not touch is linked."""
    root = tmp_path_factory.mktemp("checkout")
    for path in ROOT.iterdir():
        if path.name in ("calibkit", "tests"):
            shutil.copytree(path, root / path.name, ignore=shutil.ignore_patterns("__pycache__"))
        elif path.suffix != ".egg-info" and path.name not in (".git", ".venv", "_build", "runs", ".pytest_cache"):
            (root / path.name).symlink_to(path)
    for path, (language, text) in EDITS.items():
        if language == "diff":
            text = added((root / path).read_text(), [line.removeprefix("+") for line in text.splitlines()])
        else:
            assert not (root / path).exists()
        (root / path).write_text(text)
    (root / "only_new.py").write_text(PLUGIN)
    return root


def test_each_kind_takes_three_edits():
    kinds = [(re.search("calibrators|losses|metrics", path)[0], path.partition("/")[0]) for path in EDITS]
    assert sorted(kinds) == sorted([(k, where) for k in ("calibrators", "losses", "metrics") for where in
                                    ("calibkit", "calibkit", "tests")])  # fmt: skip


def test_the_shared_tests_pass(copy):
    tests = [f"tests/{path}" for path in SHARED] + [path for path in EDITS if path.startswith("tests/")]
    command = [sys.executable, "-m", "pytest", "-p", "only_new", "-p", "no:cacheprovider", "-m", "not data", "-rf"]
    done = subprocess.run(
        [*command, *dict.fromkeys(tests)], cwd=copy, env=environment(copy), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
