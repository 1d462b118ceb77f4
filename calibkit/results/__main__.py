"""``python -m calibkit.results FILE ...``: append rows that other jobs wrote, as CSV with the columns of ours.csv."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from calibkit.results import append


def parser() -> argparse.ArgumentParser:
    """The command line."""
    result = argparse.ArgumentParser(prog="python -m calibkit.results", description=__doc__)
    result.add_argument("files", nargs="+", type=Path, metavar="FILE")
    return result


def main(argv: Sequence[str] | None = None) -> None:
    """Append every file and say how many of its rows were new."""
    for path in parser().parse_args(argv).files:
        rows = pd.read_csv(path, dtype=str, keep_default_na=False).to_dict("records")
        print(f"{path}: {append(rows)} of {len(rows)} rows are new")


if __name__ == "__main__":
    main()
