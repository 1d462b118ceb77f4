"""Which tests ``make quick`` runs."""

from pathlib import Path

import pytest
import quick
from quick import ROOT, chosen


def test_a_module_has_the_tests_that_are_called_after_it_and_its_doctests():
    conformal = {"tests/test_conformal.py", "calibkit/conformal.py"}
    assert {*chosen([ROOT / "calibkit" / "conformal.py"])} == conformal
    assert "tests/test_leaderboard.py" in chosen([ROOT / "book" / "kit" / "results" / "leaderboard.py"])


@pytest.mark.parametrize(
    ("module", "folder"),
    [("fitting/base.py", "fitting"), ("losses/_base.py", "losses"), ("losses/__init__.py", "losses"),
     ("cli/calibrate.py", "reporting")],
)  # fmt: skip
def test_a_module_without_a_test_of_its_name_has_those_of_its_folder(module, folder):
    """Not those of its name in another folder, such as tests/objectives/test_base.py."""
    found = [name for name in chosen([ROOT / "calibkit" / module]) if name != f"calibkit/{module}"]
    assert {str(Path(name).parent) for name in found} == {f"tests/{folder}"} and len(found) <= quick.MOST
    assert folder != "losses" or found[0] == "tests/losses/test_contract.py"


def test_what_changed_comes_before_what_is_of_a_folder():
    largest = max((ROOT / "tests" / "losses").glob("test_*.py"), key=quick._size)
    ours = [largest, ROOT / "calibkit" / "losses" / "acls.py"]
    found = chosen([ROOT / "calibkit" / "losses" / "_base.py", *ours, ROOT / "README.md"])
    assert {str(largest.relative_to(ROOT)), "tests/losses/test_acls.py"} < {*found[:4]}
    assert chosen([ROOT / "tests" / "test_checks.py", ROOT / "README.md"]) == ["tests/test_checks.py"]


def test_where_nothing_changed_each_folder_gives_a_file(monkeypatch):
    monkeypatch.setattr(quick, "_git", lambda *_: [])
    of_each = [Path(name).parent for name in chosen(quick.changed())]
    assert len(of_each) == len(set(of_each)) > 8
