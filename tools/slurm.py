"""A Slurm of one machine, to try a cluster where there is none.

    python tools/slurm.py start FOLDER
    python tools/slurm.py stop FOLDER

``start`` says which line a shell needs, ``export PATH=FOLDER/bin:$PATH``; sbatch, squeue and scancel then speak to this
Slurm. Its configuration, key, state, sockets and logs lie in the folder, its ports are free ones, and a Slurm that the
machine has is left alone. It has the partitions ``cpu`` and ``gpu``, the second with one GPU that exists in name
only: requests are counted, jobs see no device. There is no accounting and no cgroup: memory is reserved, not enforced.
Where Slurm is not installed, ``start`` takes it from Debian's packages, as root.
"""

from __future__ import annotations

import argparse
import os
import pwd
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from calibkit._checks import expected

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
DAEMONS = ("munged", "slurmctld", "slurmd")
CLIENTS = ("sbatch", "srun", "squeue", "scancel", "sinfo", "scontrol", "sacct", "sacctmgr", "sshare")
SBIN = "/usr/sbin:/sbin"  # where Debian puts daemons, and where a user's PATH does not look
CONF = """\
ClusterName=throwaway
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=5
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} Gres=gpu:1
PartitionName=cpu Nodes={host} Default=YES MaxTime=INFINITE OverSubscribe=NO
PartitionName=gpu Nodes={host} MaxTime=INFINITE OverSubscribe=NO
"""


def start(folder: Path, *, memory: int = 65536, seconds: float = 30) -> Path:
    """Start what does not run yet and wait until the node takes jobs; returns the folder of the programs.

    Args:
        folder: of everything that this Slurm writes; made where it is missing.
        memory: of the node, MB, whatever the machine has.
        seconds: to wait.

    Raises:
        ValueError: Slurm is not installed and cannot be, or does not start; the message has the end of its log.
    """
    install()
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()
    programs = configure(folder, memory)
    for name, command in daemons(folder).items():
        if not running(folder, name):
            subprocess.run(command, env=os.environ | {"PATH": path()}, check=False, capture_output=True, cwd=folder)
    until = time.monotonic() + seconds
    while (state := ask(folder, "sinfo", "-h", "-p", "cpu", "-o", "%T")) not in ("idle", "mixed", "allocated"):
        if time.monotonic() > until:
            stop(folder)
            logs = [path.read_text().strip().splitlines() for path in sorted(folder.glob("*.log"))]
            raise expected("slurm", "a node that takes jobs", f"{state!r}: {[lines[-1] for lines in logs if lines]}")
        time.sleep(0.2)
    return programs


def stop(folder: Path, seconds: float = 30) -> None:
    """Cancel the jobs, wait for their end, and stop the daemons; what does not run is no mistake."""
    folder = folder.resolve()
    until = time.monotonic() + seconds
    if running(folder, "slurmctld") and running(folder, "slurmd"):
        ask(folder, "scancel", "--quiet", *ask(folder, "squeue", "-h", "-o", "%A").split())
        while ask(folder, "squeue", "-h") and time.monotonic() < until:
            time.sleep(0.2)
    for name in reversed(daemons(folder)):
        while (pid := running(folder, name)) is not None:
            os.kill(pid, signal.SIGTERM if time.monotonic() < until else signal.SIGKILL)
            time.sleep(0.2)


def install() -> None:
    """Debian's packages, where a program is missing.

    Raises:
        ValueError: one is missing and this user, or this system, cannot install it.
    """
    if not (missing := absent()):
        return
    if shutil.which("apt-get") is None:
        raise expected("slurm", "installed, or a system with apt-get to install it", f"no {missing[0]} and no apt-get")
    if os.geteuid() != 0:
        raise expected("user", "root, to install Slurm by apt-get", f"{pwd.getpwuid(os.geteuid()).pw_name}")
    options = {"env": os.environ | {"DEBIAN_FRONTEND": "noninteractive"}, "capture_output": True, "text": True}
    for command in (("update",), ("install", "-y", "--no-install-recommends", *PACKAGES)):
        done = subprocess.run(["apt-get", "-q", *command], check=False, **options)
    if missing := absent():
        raise expected(
            "apt-get", f"able to install {missing[0]}", (done.stderr.strip().splitlines() or ["nothing"])[-1]
        )


def absent() -> list[str]:
    """The programs that are not installed."""
    return [name for name in DAEMONS + CLIENTS if shutil.which(name, path=path()) is None]


def path() -> str:
    """Where programs are looked for."""
    return f"{os.environ.get('PATH', '')}:{SBIN}"


def configure(folder: Path, memory: int) -> Path:
    """Write the configuration, the key and the programs that know it, once; jobs lose ``SLURM_CONF``, not ``PATH``."""
    conf, key, programs = folder / "slurm.conf", folder / "munge.key", folder / "bin"
    if not conf.exists():
        for name in ("state", "spool", "bin"):
            (folder / name).mkdir(exist_ok=True)
        for name in CLIENTS:
            lines = ("#!/bin/sh", f"export SLURM_CONF={shlex.quote(str(conf))}", f'exec {shutil.which(name)} "$@"', "")
            (programs / name).write_text("\n".join(lines))
            (programs / name).chmod(0o755)
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
        (folder / "gres.conf").write_text("Name=gpu File=/dev/null\n")
        (folder / "cgroup.conf").write_text("CgroupAutomount=no\n")
        user, host = pwd.getpwuid(os.geteuid()).pw_name, socket.gethostname().partition(".")[0]
        values = {"host": host, "user": user, "ports": free_ports(2), "cpus": os.cpu_count(), "memory": memory}
        conf.write_text(CONF.format(folder=folder, **values))
    return programs


def free_ports(n: int) -> list[int]:
    """Ports of this machine that nobody listens to."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def daemons(folder: Path) -> dict[str, list[str]]:
    """The command of each, in the order in which they start."""
    names = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    files = [f"--{option}={folder}/munge{'d' * (end in ('pid', 'log'))}.{end}" for option, end in names.items()]
    conf = str(folder / "slurm.conf")
    return {
        "munged": ["munged", "--force", *files],
        "slurmctld": ["slurmctld", "-f", conf],
        "slurmd": ["slurmd", "-f", conf],
    }


def running(folder: Path, name: str) -> int | None:
    """The process of a daemon of this folder; a number that another program has since is none."""
    try:
        pid = int((folder / f"{name}.pid").read_text())
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except (OSError, ValueError):
        return None
    return pid if words[0].endswith(name) and any(str(folder.resolve()) in word for word in words) else None


def ask(folder: Path, *command: str) -> str:
    """What a program of this Slurm prints."""
    words = [folder / "bin" / command[0], *command[1:]]
    return subprocess.run(words, check=False, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("action", choices=("start", "stop"))
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    try:
        if args.action == "stop":
            stop(args.folder)
        else:
            print(f"export PATH={start(args.folder)}:$PATH")
    except ValueError as error:
        raise SystemExit(str(error)) from None
