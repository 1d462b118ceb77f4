"""The three edits of CONTRIBUTING.md, made as it prints them in a copy of the checkout, and the shared tests there."""

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
from checkout_copies import run

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
#: File -> (language, text) of each block whose first line names one.
EDITS = {
    path: (language, text)
    for language, path, text in re.findall(
        r"^```(python|diff)\n(?:#|\+\+\+) ((?:calibkit|tests)/\S+\.py)\n(.*?)^```", PAGE, re.S | re.M
    )
}
NEW = {"mixture", "poly1", "spherical_loss"}
#: Files whose other tests, of the registries as a whole, are run too.
WHOLE = """
    calibrators/test_contract.py calibrators/test_state.py losses/test_contract.py
    losses/test_oracle.py::test_defaults_are_the_published_numbers
    metrics/test_contract.py metrics/test_resampling.py
    plots/test_style.py reporting/test_catalogue.py results/test_advice.py test_deploy.py test_deploy_export.py
    test_booktables.py::test_a_registry_documents_each_entry test_keys.py test_tree.py
""".split()
#: Loaded by pytest in the copy: every test that is given one of the new methods, and of WHOLE all that is given none.
PLUGIN = f"""
from calibkit.calibrators import CALIBRATORS
from calibkit.losses import LOSSES
from calibkit.metrics import METRICS

entries = CALIBRATORS | LOSSES | {{name: metric.function for name, metric in METRICS.items()}}
new = {{name for key in {NEW} for name in (key, entries[key].__name__)}}
known = {{name for key, entry in entries.items() for name in (key, entry.__name__)}}
whole = {[f"tests/{path}" for path in WHOLE]}

def is_shared(item):
    values = item.callspec.params.values() if hasattr(item, "callspec") else ()
    given = {{value if isinstance(value, str) else getattr(value, "__name__", "") for value in values}} & known
    return bool(given & new) or not given and item.nodeid.startswith((*whole, *{[p for p in EDITS if "tests/" in p]}))

def pytest_collection_modifyitems(items):
    items[:] = filter(is_shared, items)
"""


def added(text: str, lines: list[str]) -> str:
    """A module with lines more: before and after lines that are there, or else an import before the others, an entry
    at the end of the registry or of ``__all__``.
    """
    there, new = None, ""
    for line in lines if any(line.startswith(" ") for line in lines) else ():
        if line.startswith(" "):
            there = f"\n{line[1:]}\n"
            assert text.count(there) == 1
            text, new = text.replace(there, f"\n{new}{there[1:]}"), ""
        else:
            new += f"{line[1:]}\n"
    if there:
        return text.replace(there, there + new)
    for line in [line[1:] for line in lines]:
        if line.startswith("from "):
            text = re.sub(r"^from calibkit", f"{line}\nfrom calibkit", text, count=1, flags=re.M)
        else:
            end = "}" if ":" in line else "]"
            text = re.sub(rf"^{re.escape(end)}(?=$|  # fmt)", f"{line}\n{end}", text, count=1, flags=re.M)
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
            text = added((root / path).read_text(), text.splitlines())
        else:
            assert not (root / path).exists()
        (root / path).write_text(text)
    (root / "only_new.py").write_text(PLUGIN)
    return root


def test_each_kind_takes_three_edits_and_a_metric_two():
    kinds = Counter((re.search("calibrators|losses|metrics", path)[0], path.partition("/")[0]) for path in EDITS)
    ours = {("calibrators", "calibkit"): 2, ("losses", "calibkit"): 2, ("metrics", "calibkit"): 1}
    assert kinds == ours | {(kind, "tests"): 1 for kind in ("calibrators", "losses", "metrics")}


def test_the_shared_tests_are_there():
    assert all((ROOT / "tests" / path.partition("::")[0]).exists() for path in WHOLE)


@pytest.mark.slow
def test_the_examples_are_typed(copy):
    run(copy, "mypy")


@pytest.mark.slow
def test_the_shared_tests_pass(copy):
    options = ("-p", "only_new", "-p", "no:cacheprovider", "-m", "not data and not browser", "-rf", "tests")
    run(copy, "pytest", *options)
