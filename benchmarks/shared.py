"""What the benchmarks share: their sample, their clock, how calls are timed, and what a call takes of the memory."""

import ctypes
import gc
import multiprocessing
import time
from importlib import import_module
from pathlib import Path

import torch

from calibkit._extras import ensure_torchvision_importable

TEMPERATURE, ACCURACY = 1.79, 0.85
ONCE = 2.0  # seconds of a call that is not run again


def overconfident(n, k):
    """Float32 logits (n, k) that are 1.79 times those which the labels were drawn from, of accuracy 0.85."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(n, k, generator=generator)
    low, high = 0.0, 50.0
    for _ in range(20):  # the expected accuracy of a calibrated network is its mean confidence
        scale = (low + high) / 2
        confidence = (scale * noise[:2000]).softmax(1).amax(1).mean()
        low, high = (scale, high) if confidence < ACCURACY else (low, scale)
    labels = torch.multinomial((scale * noise).softmax(1), 1, generator=generator)[:, 0]
    return TEMPERATURE * scale * noise, labels


def begin(parser, threads=None):
    """The arguments of a benchmark, its threads and clock among them, and that clock; prints what it runs with.

    Where it has a ``--device`` that is no CPU, the clock waits for what runs there.
    """
    parser.add_argument("--threads", type=int, default=threads or torch.get_num_threads())
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    ensure_torchvision_importable()
    print(f"torch {torch.__version__}, {args.threads} threads, {args.clock} clock")
    clock = time.perf_counter if args.clock == "wall" else time.process_time
    if getattr(args, "device", "cpu") == "cpu":
        return args, clock

    def synchronised():
        torch.cuda.synchronize()
        return clock()

    return args, synchronised


def peer(module, build):
    """``build(module)`` if it can be imported, else None."""
    try:
        return build(import_module(module))
    except Exception as error:
        print(f"  ({module} left out: {str(error).splitlines()[0]})")
        return None


def least(call, repeats, clock):
    """The least seconds of some runs; what takes over ``ONCE`` seconds runs once."""
    seconds = float("inf")
    for _ in range(repeats):
        start = clock()
        call()
        seconds = min(seconds, clock() - start)
        if seconds > ONCE:
            break
    return seconds


def in_turns(calls, repeats, clock):
    """Name -> value, seconds of the runs, and MiB beyond, of calls that are timed in turns after a run to warm up.

    What takes over ``ONCE`` seconds runs once, and so does all if ``repeats`` is 0: these have no MiB. A call that is
    None or fails is left out.
    """
    values, seconds, extra = {}, {}, {}
    for name, call in calls.items():
        if call is None:
            continue
        try:
            start = clock()
            values[name] = call()
            seconds[name] = [clock() - start]
        except Exception as error:
            print(f"  ({name} left out: {str(error).splitlines()[0]})")
            continue
        if repeats and seconds[name][0] < ONCE:
            seconds[name].clear()
            extra[name] = extra_mebibytes(call)
    for _ in range(repeats):
        for name in extra:
            start = clock()
            calls[name]()
            seconds[name].append(clock() - start)
    return values, seconds, extra


def extra_mebibytes(call):
    """Growth of the peak resident memory during ``call``, where Linux lets the peak be reset."""
    gc.collect()
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return float("nan")

    def status(key):
        return int(next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(key)).split()[1])

    before = status("VmRSS")
    call()
    return (status("VmHWM") - before) / 1024


def alone(measure, *arguments, limit=None):
    """The result of a function in a process of its own, which is ended after ``limit`` seconds, and the exit code.

    The result is None where the code is not 0; the code is None where the process was ended.
    """
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    process = context.Process(target=_put, args=(results, measure, arguments))
    process.start()
    process.join(limit)
    if process.is_alive():
        process.kill()
        return None, None
    return None if process.exitcode else results.get(), process.exitcode


def _put(results, measure, arguments):
    results.put(measure(*arguments))
