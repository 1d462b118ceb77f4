"""One line on a terminal that tells how far a long fit is; nothing where the standard error is no terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

AFTER, EVERY = 3.0, 0.2  # seconds before the line is shown, and between two of its states

#: Title of the fit that runs, when it began, and when the line was last written (0: never).
_running: ContextVar[list | None] = ContextVar("running", default=None)


@contextmanager
def progress(title: str) -> Iterator[None]:
    """While this runs, ``show`` shows a line; at the end the line is gone. Of nested ones the outermost counts."""
    if _running.get() is not None:
        yield
        return
    state = [title, time.monotonic(), 0.0]
    token = _running.set(state)
    try:
        yield
    finally:
        if state[2]:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
        _running.reset(token)


def show(text: str) -> None:
    """Put the title, the seconds and ``text`` in the place of the line, if it is time to."""
    if (running := _running.get()) is None:
        return
    title, start, last = running
    now = time.monotonic()
    if now - start >= AFTER and now - last >= EVERY and sys.stderr is not None and sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{title}, {now - start:.0f} s: {text}")
        sys.stderr.flush()
        running[2] = now
