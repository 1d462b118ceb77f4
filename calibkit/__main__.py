"""``calibkit report | compare | apply | calibrate | train | ...``: from images to honest probabilities."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

from calibkit import __version__


def main(argv: list[str] | None = None, parse: Callable[[], argparse.ArgumentParser] | None = None) -> int:
    """Run the command line, or that of ``parse``; returns the exit status."""
    _replace_closed_streams()
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # whatever a name holds, and the terminal takes
    try:
        args = (parse or parser)().parse_args(argv)
        args.run(args)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output, as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except OSError as error:
        from calibkit._checks import expected

        named = error.filename is not None and error.strerror is not None
        text = expected("path", "one that can be used", f"{str(error.filename)!r}: {error.strerror}")
        print(text if named else error, file=sys.stderr)
        return 1
    except (ImportError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _replace_closed_streams() -> None:
    """Let what goes to a stream that the shell closed, as by ``>&-``, go nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))


def parser() -> argparse.ArgumentParser:
    """The command line; what takes seconds to import is imported here, where ``main`` minds an interrupt."""
    from calibkit.cli import calibrate, report, train

    result = argparse.ArgumentParser(prog="calibkit", description="From images to honest probabilities.")
    result.add_argument("--version", action="version", version=f"calibkit {__version__}")
    commands = result.add_subparsers(dest="command", required=True)
    for of_a_kind in (report, calibrate, train):
        of_a_kind.add_to(commands)
    return result


if __name__ == "__main__":
    sys.exit(main())
