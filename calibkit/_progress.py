"""How far a long fit is: one line on a terminal, elsewhere nothing, or a line a step where a command asks for it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

AFTER, EVERY = 3.0, 0.2  # seconds before the line is shown, and between two of its states

#: Title of the fit that runs, when it began, when the line was last written (0: never), and whether steps are logged.
_running: ContextVar[list | None] = ContextVar("running", default=None)


@contextmanager
def progress(title: str, *, log: bool = False) -> Iterator[None]:
    """While this runs, ``show`` shows a line; at the end the line is gone. Of nested ones the outermost counts.

    With ``log`` each ``step`` writes a line of its own where the standard error is no terminal.
    """
    if _running.get() is not None:
        yield
        return
    state = [title, time.monotonic(), 0.0, log]
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
    title, start, last, _ = running
    now = time.monotonic()
    if now - start >= AFTER and now - last >= EVERY and _on_terminal():
        sys.stderr.write(f"\r\x1b[K{title}, {now - start:.0f} s: {text}")
        sys.stderr.flush()
        running[2] = now


def step(text: str) -> None:
    """What begins now, on the line or in the log."""
    if (running := _running.get()) is not None and running[3] and not _on_terminal():
        print(f"{running[0]}, {time.monotonic() - running[1]:.0f} s: {text}", file=sys.stderr, flush=True)
    show(text)


def _on_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()
