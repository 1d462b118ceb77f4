"""Sphinx extension of the list of references: labels as in the text, titles as printed, links to paper and code.

``bibtex_default_style: author_year`` names the style. A field ``code`` is the address of its authors' code. Entries of
the same authors and year carry a letter in ``year``, as in "2022a", which the text then shows too.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from pybtex.database import Entry
from pybtex.plugin import register_plugin
from pybtex.style.formatting.unsrt import Style
from pybtex.style.labels import BaseLabelStyle
from pybtex.style.sorting import BaseSortingStyle
from pybtex.style.template import Node, field, href, join, optional, sentence
from sphinx.application import Sphinx

#: Field -> what its value is appended to, and what stands before the value.
NUMBERS = {"doi": ("https://doi.org/", "doi:"), "eprint": ("https://arxiv.org/abs/", "arXiv:")}
#: Field with an address -> what is shown in its place.
ADDRESSES = {"url": "page", "code": "code"}


def label(entry: Entry) -> str:
    """What a citation in brackets says: "Tang et al., 2024"."""
    people = [[*person.rich_prelast_names, *person.rich_last_names] for person in entry.persons["author"]]
    names = [" ".join(map(str, parts)) for parts in people]
    return f"{names[0] + ' et al.' if len(names) > 2 else ' and '.join(names)}, {entry.fields['year']}"


class Labels(BaseLabelStyle):
    """Author and year."""

    def format_labels(self, sorted_entries: list[Entry]) -> Iterator[str]:
        """One label an entry, in their order."""
        return map(label, sorted_entries)


class Sorting(BaseSortingStyle):
    """By what the reader sees, the label; accents do not count."""

    def sorting_key(self, entry: Entry) -> str:
        """The label in plain letters."""
        letters = unicodedata.normalize("NFD", label(entry).lower().replace("ł", "l"))
        return "".join(letter for letter in letters if not unicodedata.combining(letter))


class AuthorYear(Style):
    """An entry of the list."""

    default_sorting_style = "author_year"
    default_label_style = "author_year"

    def format_title(self, e: Entry, which_field: str, as_sentence: bool = True) -> Node:
        """The title in the letters of the file."""
        return sentence[field(which_field)] if as_sentence else field(which_field)

    def format_web_refs(self, e: Entry) -> Node:
        """DOI, arXiv, page of the publisher, code: those that the entry has."""
        links = []
        for name, (address, before) in NUMBERS.items():
            value = field(name, raw=True)
            links.append(optional[href(join[address, value])[join[before, value]]])
        links += [optional[href(field(name, raw=True))[shown]] for name, shown in ADDRESSES.items()]
        return sentence[links]


def setup(app: Sphinx) -> dict:
    """Register the three styles."""
    register_plugin("pybtex.style.labels", "author_year", Labels)
    register_plugin("pybtex.style.sorting", "author_year", Sorting)
    register_plugin("pybtex.style.formatting", "author_year", AuthorYear)
    return {"parallel_read_safe": True}
