"""What a cell of a chapter says in words."""

from __future__ import annotations

from IPython.display import Markdown

from book.kit.notebook.table import minus


def prose(text: str) -> Markdown:
    """Markdown with real minus signs."""
    return Markdown(minus(text))
