"""Processes that judge or train one network after the other: what crashes or takes too long costs its network alone.

A worker reads a job a line, as JSON, from its standard input, and answers with a line. It is a process of its own and
no fork, so whoever calls needs no guard around the main module.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from importlib import import_module

from calibkit._checks import check_count, check_draws, check_flag, check_real

START = 300.0  # seconds for the imports of a worker
LONGEST = 300  # characters of an error


def serve(call: str) -> None:
    """What a worker runs: the function ``call``, "MODULE:NAME", on each job. Whatever the judged code prints goes to
    the standard error, and it reads nothing.
    """
    jobs, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    module, _, name = call.partition(":")
    function = getattr(import_module(module), name)

    print("ready", file=answers, flush=True)
    for line in jobs:
        job = json.loads(line)
        try:
            row = asdict(function(**job))
        except BaseException as error:  # whatever the judged code raises
            row = {"network": job["network"], "error": _said(error, job["key"])}
        print(json.dumps(row), file=answers, flush=True)


def _said(error: BaseException, key: str) -> str:
    """An error in one line, and where in a file of one's own it was raised."""
    text = " ".join(f"{type(error).__name__}: {error}".split())[:LONGEST]
    file = os.path.realpath(key.partition(".py:")[0] + ".py")
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f"{text} ({os.path.basename(file)}, line {lines[-1]})" if lines else text


class _Worker:
    """A process, and the job that it is at; none before it is ready."""

    def __init__(self, call: str) -> None:
        code = f"import sys; sys.path[:] = {sys.path!r}; from book.kit.judging.workers import serve; serve({call!r})"
        one_thread = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        self.process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=os.environ | one_thread, start_new_session=True,
        )  # fmt: skip
        assert self.process.stdin is not None and self.process.stdout is not None
        self.jobs, self.answers = self.process.stdin, self.process.stdout
        self.job: dict | None = None
        self.deadline = time.monotonic() + START

    def take(self, job: dict, timeout: float) -> None:
        self.job, self.deadline = job, time.monotonic() + timeout
        with suppress(BrokenPipeError):  # its end shows in its answers
            self.jobs.write(json.dumps(job) + "\n")
            self.jobs.flush()

    def end(self) -> int:
        """Kill it and what it started; the status that it ended with by itself, if it did."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        status = self.process.wait()
        with suppress(BrokenPipeError):
            self.jobs.close()
        self.answers.close()
        return status


def run(jobs: Iterable[dict], n_workers: int, timeout: float, call: str) -> Iterator[dict]:
    """What the function ``call``, "MODULE:NAME", gives for each job, a dataclass as a dict, in the order of their ends.

    A job is keyword arguments, ``network`` and ``key`` among them. Where it takes longer than ``timeout`` seconds, or
    its process ends, its ``error`` says so. RuntimeError where no worker starts.
    """
    waiting = deque(jobs)
    workers = [_Worker(call) for _ in range(min(n_workers, len(waiting)))]
    try:
        while workers:
            first = min(worker.deadline for worker in workers)
            readable, _, _ = select.select([w.answers for w in workers], [], [], max(0.0, first - time.monotonic()))
            for worker in list(workers):
                ready = worker.answers in readable
                if not ready and time.monotonic() < worker.deadline:
                    continue
                line = worker.answers.readline() if ready else ""
                if worker.job is not None:
                    yield json.loads(line) if line else _failed(worker, ready, timeout)
                elif not line:
                    raise RuntimeError("a process that judges did not start")
                if not line or not waiting:
                    worker.end()
                    workers.remove(worker)
                    if waiting and not line:
                        workers.append(_Worker(call))
                else:
                    worker.take(waiting.popleft(), timeout)
    finally:
        for worker in workers:
            worker.end()


def _failed(worker: _Worker, ended: bool, timeout: float) -> dict:
    assert worker.job is not None
    error = f"no result after {timeout:g} seconds"
    if ended:
        status = worker.process.wait()
        error = f"the process ended {f'by signal {-status}' if status < 0 else f'with status {status}'}"
    return {"network": worker.job["network"], "error": error}


def limits(timeout: float, jobs: int | None, n_resamples: int, progress: bool) -> tuple[float, int]:
    """The timeout, and the jobs at a time: as many as cores that this process may use, unless told."""
    check_draws("n_resamples", n_resamples)
    check_flag("progress", progress)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    n_jobs = check_count("jobs", cores if jobs is None else jobs, 1, 1024)
    return check_real("timeout", timeout, 0.0, open_low=True), n_jobs


class Progress:
    """A line a job on the standard error, with the time that is left; none unless it is to ``show`` them."""

    def __init__(self, n: int, before: int, what: str, show: bool) -> None:
        self.n, self.i, self.start, self.show = n, 0, time.monotonic(), show
        self.tell(f"{n} to {what}{f', {before} there from before' if before else ''}")

    def done(self, name: str, said: str) -> None:
        """One is done."""
        self.i += 1
        left = (time.monotonic() - self.start) * (self.n - self.i) / self.i
        self.tell(f"[{self.i}/{self.n}] {name}: {said}; {left:.0f} s left")

    def tell(self, line: str) -> None:
        """Write a line."""
        if self.show:
            print(line, file=sys.stderr, flush=True)
