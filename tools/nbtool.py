"""Notebooks: execute them, and check that what is stored is what their source would give.

    python tools/nbtool.py run [NAME ...] [--jobs N]    execute notebooks/NAME.py, store notebooks/NAME.ipynb
    python tools/nbtool.py run --into FOLDER            store them there, and leave out what has not changed since
    python tools/nbtool.py check                        pairs are equal, executed, clean and small

``notebooks/NAME.py`` (py:percent) is the source. ``run`` executes it through papermill with its default parameters and
writes the outputs without anything that changes from run to run, so a second run gives the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import re
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import zip_longest
from pathlib import Path

import jupytext
import nbformat
import papermill
from drawings import shrink, tidy
from matplotlib.font_manager import findfont

from calibkit._files import write_text

ROOT = Path(__file__).resolve().parents[1]
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
MAX_BYTES = 500_000
CELL_TIMEOUT = 600  # seconds


def merge_streams(outputs: list) -> list:
    """One output where a stream came in several pieces, for how it is cut depends on timing."""
    merged: list = []
    for output in outputs:
        last = merged[-1] if merged else {}
        if output.output_type == "stream" and last.get("name") == output.name:
            last.text += output.text
        else:
            merged.append(output)
    return merged


#: What makes a figure of each kind small.
SMALL = {"image/png": shrink, "image/svg+xml": tidy}


def strip(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Drop what changes from run to run: timings, versions, paths, random ids; figures become small."""
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL})
    for i, cell in enumerate(notebook.cells):
        cell.id = f"cell-{i:02d}"
        cell.metadata = nbformat.from_dict({k: cell.metadata[k] for k in ("tags", "mystnb") if cell.metadata.get(k)})
        if cell.cell_type == "code":
            cell.outputs = merge_streams(cell.outputs)
            for output in cell.outputs:
                for kind, small in SMALL.items():
                    if kind in output.get("data", {}):
                        output.data[kind] = small(output.data[kind])
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def execute(source: Path, target: Path) -> float:
    """Execute one source and store its notebook at ``target``; returns the seconds it took. A failing cell raises."""
    start = time.perf_counter()
    how = {"kernel_name": "python3", "cwd": source.parent, "progress_bar": False, "execution_timeout": CELL_TIMEOUT}
    executed = papermill.execute_notebook(jupytext.read(source), None, **how)
    write_text(target, nbformat.writes(strip(executed)) + "\n")
    return time.perf_counter() - start


def stamps(sources: list[Path]) -> dict[Path, str]:
    """For each source a checksum of what decides its outputs: text, package, tools, stored results, where data lie."""
    common = hashlib.sha256(os.environ.get("CALIBKIT_DATA", "").encode())
    code = (path for folder in ("calibkit", "book", "tools") for path in sorted((ROOT / folder).rglob("*.py")))
    for path in (*code, *sorted((ROOT / "book" / "results").rglob("*.*"))):
        common.update(path.read_bytes())
    found = {}
    for source in sources:
        digest = common.copy()
        digest.update(source.read_bytes())
        found[source] = digest.hexdigest()
    return found


def run(sources: list[Path], jobs: int, into: Path | None = None) -> int:
    """Execute all sources, ``jobs`` at a time; a line each as it ends; returns the number of failures.

    ``into`` is the folder of the notebooks, beside each of which its stamp is kept; None: that of the sources.
    """
    findfont("DejaVu Sans")  # builds matplotlib's font cache once, before each kernel would report that it does so
    targets = {source: (into or source.parent) / f"{source.stem}.ipynb" for source in sources}
    failures, before = 0, stamps(sources) if into else {}  # of what is there before the first cell runs
    if into:
        into.mkdir(parents=True, exist_ok=True)
        for source in sources:
            file = targets[source].with_suffix(".stamp")
            if file.exists() and file.read_text() == before[source]:
                print(f"{source.stem:32s} as before", flush=True)
                del targets[source]
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = {pool.submit(execute, source, target): source for source, target in targets.items()}
        for future in as_completed(futures):
            source = futures[future]
            try:
                print(f"{source.stem:32s} {future.result():6.1f} s", flush=True)
            except Exception as error:
                failures += 1
                print(f"{source.stem:32s} FAILED\n{error}", file=sys.stderr, flush=True)
            else:
                if into:
                    write_text(targets[source].with_suffix(".stamp"), before[source])
    return failures


def content(cell: nbformat.NotebookNode) -> tuple:
    """What a cell and its twin must share."""
    return cell.cell_type, cell.source, cell.metadata.get("tags", []), cell.metadata.get("mystnb", {})


def cell_faults(cell: nbformat.NotebookNode) -> list[str]:
    """What is wrong with the outputs of one code cell."""
    found = [] if cell.execution_count or not cell.source.strip() else ["was not executed"]
    for output in cell.outputs:
        if output.output_type == "error":
            found.append(f"ended in {output.ename}")
        elif output.output_type == "stream" and output.name == "stderr":
            found.append(f"writes to stderr: {output.text[:80]!r}")
        shown = [output.get("text", "")] + [x for kind, x in output.get("data", {}).items() if kind.startswith("text/")]
        if any(str(folder) in text for folder in (ROOT, Path.home()) for text in shown):
            found.append("shows a path of the machine it ran on")
        if any(re.search(r"\d rows × \d", "".join(text)) for text in shown):
            found.append("leaves rows of a table out: set pandas' `display.max_rows`")
    return found


def faults(source: Path) -> list[str]:
    """What is wrong with one stored notebook, in words."""
    path = source.with_suffix(".ipynb")
    if not path.exists():
        return ["has no .ipynb: run `make notebooks`"]
    wanted, stored = jupytext.read(source).cells, nbformat.read(path, 4).cells
    found = []
    for i, (here, there) in enumerate(zip_longest(map(content, wanted), map(content, stored))):
        if here != there:
            found.append(f"cell {i} differs from the .py: run `make notebooks`")
            break
    if not any("parameters" in cell.metadata.get("tags", []) for cell in wanted):
        found.append("has no cell tagged `parameters`")
    for i, cell in enumerate(stored):
        if cell.cell_type == "code":
            found += [f"cell {i} {fault}" for fault in cell_faults(cell)]
    if path.stat().st_size > MAX_BYTES:
        found.append(f"has {path.stat().st_size:,} bytes, more than {MAX_BYTES:,}")
    return found


def check(folder: Path) -> int:
    """Print every fault of every notebook in ``folder``; returns their number."""
    found = [f"{source.name}: {fault}" for source in sorted(folder.glob("*.py")) for fault in faults(source)]
    found += [f"{p.name}: has no .py" for p in sorted(folder.glob("*.ipynb")) if not p.with_suffix(".py").exists()]
    print("\n".join(found) or f"{len(list(folder.glob('*.py')))} notebooks are the executed twins of their sources")
    return len(found)


def main(argv: list[str] | None = None) -> int:
    """Command line; exit status 1 on any failure or fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "check"))
    parser.add_argument("names", nargs="*", help="notebooks without suffix; default: all")
    parser.add_argument("--jobs", type=int, default=1, help="notebooks at a time")
    parser.add_argument("--into", type=Path, help="folder of the executed notebooks (default: beside their sources)")
    parser.add_argument("--folder", type=Path, default=ROOT / "notebooks", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.command == "check":
        return int(check(args.folder) > 0)
    sources = [args.folder / f"{name}.py" for name in args.names] or sorted(args.folder.glob("*.py"))
    for source in sources:
        if not source.exists():
            parser.error(f"there is no {source}")
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # kernels that share the cores; and sums in one order
    return int(run(sources, args.jobs, args.into) > 0)


if __name__ == "__main__":
    sys.exit(main())
