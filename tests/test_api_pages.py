"""The API pages of the book have all that ``calibkit`` offers, once, and nothing that does not exist."""

import inspect
import re
from collections import Counter
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name

import calibkit
from book.kit.sphinx.summaries import entries_of

PAGES = sorted((Path(__file__).resolve().parents[1] / "book" / "api").glob("*.md"))
REGISTRIES = {"CALIBRATORS", "DATASETS", "LOSSES", "METRICS", "MODELS", "OBJECTIVES", "RECIPES"}
#: Types that signatures are written with, and what one part of the package calls of another.
INNER = {
    "calibrators": set(),
    "data": set(),
    "losses": set(),
    "metrics": {"REPORTED"},
    "models": {"takes"},
    "objectives": {"ObjectiveName", "SmoothName", "cross_entropy", "cross_entropy_grad", "get", "losses"},
    "reading": {"Columns", "Kind", "Source"},
    "reporting": set(),
    "training": {"LOSS_OPTIONS", "MODEL_SETTINGS", "VARIANTS", "as_stored", "named_for", "owner_of", "recipe_of"},
}


def documented() -> list[object]:
    """What the directives of the pages name, imported."""
    found = []
    for text in (page.read_text() for page in PAGES):
        for path in re.findall(r"^```\{registry\} (\S+)", text, re.M):
            found += entries_of(path).values()
        for kind, name, options in re.findall(r"^\.\. auto(\w+):: (\S+)\n((?:   .*\n)*)", text, re.M):
            home = import_module(name) if kind == "module" else resolve_name(name)
            listed = re.search(r":members:(.*)", options)
            names = re.findall(r"\w+", listed[1]) if listed else []
            if kind == "module" and listed and not names:
                names = home.__all__
            members = [inspect.getattr_static(home, each) for each in names]
            found += members if kind == "module" else [home]
    return found


def test_nothing_is_documented_twice():
    times = Counter(map(id, documented()))
    twice = {getattr(each, "__qualname__", each) for each in documented() if times[id(each)] > 1}
    assert not twice and len(times) > 200


def test_every_name_of_the_package_has_its_place():
    """A registry in a sentence, where it is not documented entry by entry."""
    there, text = set(map(id, documented())), "\n".join(page.read_text() for page in PAGES)
    for name in dir(calibkit):
        value = getattr(calibkit, name)
        if name in REGISTRIES:
            assert re.search(rf"`{name}\b", text), name
        elif name != "__version__" and not inspect.ismodule(value):
            assert id(value) in there, name


def test_every_public_name_of_a_module_has_its_place():
    there = set(map(id, documented()))
    for module, inner in INNER.items():
        home = import_module(f"calibkit.{module}")
        assert inner < set(home.__all__)
        missing = {name for name in home.__all__ if id(getattr(home, name)) not in there} - REGISTRIES
        assert missing == inner, module
