"""What is refused: the project has one error for it, with one wording."""

import pytest


def refused(wording, call, /, *args, **options) -> None:
    """``call(*args, **options)`` is a ValueError that says "Expected " and then ``wording``, a regular expression."""
    __tracebackhide__ = True
    with pytest.raises(ValueError, match=f"^Expected (?:{wording})"):
        call(*args, **options)
