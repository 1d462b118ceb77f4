"""One GPU a command: ``python tools/onegpu.py N -- COMMAND ...`` waits for one of N and runs the command on it.

The command sees that GPU alone, by ``CUDA_VISIBLE_DEVICES``. It is held by a lock on a file of this machine for as long
as the command's process lives, however that ends. On a cluster the scheduler has chosen already, and the command runs
as it is.
"""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

#: What a batch system sets in the environment of its jobs.
_SCHEDULERS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "SGE_TASK_ID")


def candidates(n: int, environment: Mapping[str, str]) -> list[str]:
    """The GPUs to choose among: the first ``n`` that may be seen; none if all are hidden, or if a scheduler chose.

    Example:
        >>> candidates(2, {}), candidates(2, {"CUDA_VISIBLE_DEVICES": "3,5,6"})
        (['0', '1'], ['3', '5'])
        >>> candidates(2, {"CUDA_VISIBLE_DEVICES": ""}), candidates(2, {"SLURM_JOB_ID": "7"})
        ([], [])
    """
    if any(name in environment for name in _SCHEDULERS):
        return []
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    numbers = map(str, range(n)) if visible is None else visible.split(",")
    return [number.strip() for number in numbers if number.strip()][:n]


def hold_one(names: Sequence[str], folder: Path) -> str:
    """Lock one of the GPUs until this process and what it becomes end; waits while all are held."""
    folder.mkdir(parents=True, exist_ok=True)
    while True:
        for name in names:
            descriptor = os.open(folder / f"gpu-{name.replace(os.sep, '_')}", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                continue
            os.set_inheritable(descriptor, True)  # the lock goes on with the command
            return name
        time.sleep(1.0)


def main(arguments: Sequence[str]) -> None:
    """Become the command, on one GPU."""
    n, dashes, *command = [*arguments, "", ""][: max(len(arguments), 2)]
    if not n.isdecimal() or int(n) < 1 or dashes != "--" or not command:
        raise ValueError(f"Expected `arguments` to be N -- COMMAND ..., but got {' '.join(arguments)!r}")
    names = candidates(int(n), os.environ)
    if names:
        folder = Path(tempfile.gettempdir()) / f"calibkit-gpus-{os.getuid()}"
        os.environ["CUDA_VISIBLE_DEVICES"] = hold_one(names, folder)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
