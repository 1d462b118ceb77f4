"""Of several GPUs each command gets one, by what its process sees."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import onegpu
import pytest
from refusals import refused

#: A training that writes what it sees, and lasts until it is told to end.
FAKE = (
    "import os, sys, time; open(sys.argv[1], 'w').write(os.environ.get('CUDA_VISIBLE_DEVICES', 'unset'));"
    " [time.sleep(0.02) for _ in range(3000) if not os.path.exists(sys.argv[1] + '.end')]"
)


@pytest.fixture
def start(tmp_path):
    """Starts such a training on one of n GPUs; returns the process and the file in which it says what it sees."""
    started = []

    def go(name: str, n: int = 2, **variables: str) -> tuple[subprocess.Popen, Path]:
        file = tmp_path / name
        hidden = ("CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID")
        env = {key: value for key, value in os.environ.items() if key not in hidden}
        env |= {"TMPDIR": str(tmp_path)} | variables
        command = [sys.executable, onegpu.__file__, str(n), "--", sys.executable, "-c", FAKE, str(file)]
        process = subprocess.Popen(command, env=env, cwd=tmp_path)
        started.append(process)
        return process, file

    yield go
    for process in started:
        process.kill()
        process.wait()


def sees(file: Path, seconds: float = 60.0) -> str:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if file.exists() and file.read_text():
            return file.read_text()
        time.sleep(0.02)
    return "nothing"


def test_two_at_once_get_one_each_and_a_third_waits(start):
    """Also for one that is killed: the lock is the process's."""
    (first, a), (second, b) = start("a"), start("b")
    assert {sees(a), sees(b)} == {"0", "1"}
    _, c = start("c")
    assert sees(c, 1.5) == "nothing"
    first.send_signal(signal.SIGKILL)
    assert sees(c) == sees(a)
    Path(f"{b}.end").touch()
    assert second.wait(60) == 0
    assert sees(start("d")[1]) == sees(b)


def test_only_what_may_be_seen_is_given(start):
    files = [start(name, CUDA_VISIBLE_DEVICES="4,GPU-7")[1] for name in ("a", "b")]
    assert {sees(file) for file in files} == {"4", "GPU-7"}


def test_what_a_scheduler_gave_stays_and_what_is_hidden_stays_hidden(start):
    assert sees(start("a", SLURM_JOB_ID="1", CUDA_VISIBLE_DEVICES="3")[1]) == "3"
    assert sees(start("b", SLURM_JOB_ID="1", CUDA_VISIBLE_DEVICES="3")[1]) == "3"
    assert sees(start("c", CUDA_VISIBLE_DEVICES="-1")[1]) == "-1"


def test_what_is_no_call():
    for bad in ([], ["2", "--"], ["x", "--", "true"], ["2", "true"], ["0", "--", "true"]):
        refused("`arguments` to be N -- COMMAND", onegpu.main, bad)
