"""The tests that `make quick` runs: of what differs from main, else the smallest file of each folder of tests.

    python tools/quick.py

A file of tests is its own; a module has the files that are called after it, in the folder of tests that its own folder
has or beside those folders, and its doctests. What has none has that whole folder. Of many files what changed and what
is called after it, then what all of a kind share and the smallest, so that it stays a minute.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
MOST = 12  # files
SHARED = {"test_contract.py", "test_state.py", "test_masks.py"}  # what all of a registry must hold
FOLDERS = {"data": "datasets", "cli": "reporting", "reading": "reporting"}  # others are called as their folder of tests


def changed() -> list[Path]:
    """What differs from where this branch left main, and what is not committed; nothing where git says nothing."""
    base = _git("merge-base", "HEAD", "main") or ["HEAD"]
    names = _git("diff", "--name-only", base[0]) + _git("ls-files", "--others", "--exclude-standard")
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []


def tests_of(path: Path) -> list[tuple[int, Path]]:
    """The tests of one file, and itself where it has doctests, ranked: 0 itself, 1 by its name, 2 by its folder."""
    parts = path.relative_to(ROOT).parts
    if path.suffix != ".py" or parts[0] not in ("calibkit", "book", "tools", "tests") or "browser" in parts:
        return []
    if parts[0] == "tests":
        return [(0, path)] if path.name.startswith("test_") else []
    stem = path.parent.name if path.stem.startswith("__") else path.stem.removeprefix("_")
    folders = [folder for part in parts[:-1] if (folder := TESTS / FOLDERS.get(part, part)).is_dir()]
    near = [test for folder in folders or [TESTS] for test in sorted(folder.rglob("test_*.py"))]
    named = [test for test in {*near, *TESTS.glob("test_*.py")} if f"{test.stem}_".startswith(f"test_{stem}_")]
    found = [(1, test) for test in named] or [(2, test) for test in near if folders]
    return found + ([(0, path)] if parts[0] != "tools" and ">>> " in path.read_text() else [])


def of_each_kind() -> list[Path]:
    """The smallest file of each folder of tests."""
    folders = [TESTS, *(folder for folder in sorted(TESTS.iterdir()) if folder.is_dir() and folder.name != "browser")]
    files = (sorted(folder.glob("test_*.py"), key=_size) for folder in folders)
    return [found[0] for found in files if found]


def chosen(paths: Iterable[Path]) -> list[str]:
    """The tests of these files, each once, by their paths below the checkout."""
    found = [pair for path in paths for pair in tests_of(path)] or [(0, test) for test in of_each_kind()]
    found.sort(key=lambda pair: (pair[0], pair[1].name not in SHARED, _size(pair[1])))
    return list(dict.fromkeys(str(path.relative_to(ROOT)) for _, path in found))[:MOST]


def _size(path: Path) -> int:
    return path.stat().st_size


if __name__ == "__main__":
    print("\n".join(chosen(changed())))
