"""Which tests ``make quick`` runs."""

from pathlib import Path

import quick
from quick import ROOT, chosen


def test_a_module_has_the_tests_that_are_called_after_it_and_its_doctests():
    assert chosen([ROOT / "calibkit" / "conformal.py"]) == [
        "tests/test_conformal.py",
        "tests/test_conformal_saved.py",
        "calibkit/conformal.py",
    ]
    of_folder = chosen([ROOT / "calibkit" / "cli" / "apply.py"])  # none is called after it
    assert {str(Path(name).parent) for name in of_folder} == {"tests/reporting"} and len(of_folder) <= quick.MOST
    assert chosen([ROOT / "calibkit" / "losses" / "__init__.py"])[0] == "tests/losses/test_contract.py"
    assert chosen([ROOT / "tests" / "test_checks.py", ROOT / "README.md"]) == ["tests/test_checks.py"]


def test_where_nothing_changed_each_folder_gives_a_file(monkeypatch):
    monkeypatch.setattr(quick, "_git", lambda *_: [])
    of_each = [Path(name).parent for name in chosen(quick.changed())]
    assert len(of_each) == len(set(of_each)) > 8
