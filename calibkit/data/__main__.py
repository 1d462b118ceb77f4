"""``python -m calibkit.data prepare NAME [--archive PATH]``: fill the cache; ``list``: what is there."""

from __future__ import annotations

import argparse
import sys

from calibkit.data import DATASETS, available, cache
from calibkit.data.prepare import SOURCES, prepare


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m calibkit.data", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("prepare", help="download, check and unpack a data set into the cache")
    one.add_argument("name", choices=sorted(SOURCES))
    one.add_argument("--archive", help="the official archive, or the folder of the archives, already on disk")
    splits = ("train", "val", "test")
    one.add_argument("--splits", nargs="+", choices=splits, default=splits, help="which to write (default: all)")
    commands.add_parser("list", help="the data sets, and which of them the cache holds")
    args = parser.parse_args(argv)
    if args.command == "list":
        print(f"cache: {cache()}")
        for name, spec in DATASETS.items():
            print(f"  {name:16} {'ready' if available(name) else 'absent':6}  {spec.kind}")
        return 0
    try:
        print(prepare(args.name, args.archive, args.splits))
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
