"""Every command that the prose shows is one that exists."""

import contextlib
import functools
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from calibkit.__main__ import main

ROOT = Path(__file__).resolve().parents[1]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = dict(re.findall(r"^([a-z]+):.*?## (.+)$", MAKEFILE, re.M))
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "book/using.md",
    "book/running.md",
    "book/deploy.md",
    "book/index.md",
    "book/protocol.md",
]


def commands() -> list[tuple[str, str]]:
    """(page, command) for each line of each bash block, and each `make ...` in running text."""
    found = []
    for page in PAGES:
        text = (ROOT / page).read_text()
        for block in re.findall(r"```bash\n(.*?)```", text, re.S):
            lines = block.replace("\\\n", " ").splitlines()
            found += [(page, line.split("  #")[0].strip()) for line in lines if line.strip()]
        found += [(page, match) for match in re.findall(r"`(make [^`]+)`", text)]
    return found


@functools.cache
def help_of(program: str) -> str:
    """What a program of the environment prints for ``--help``."""
    path = Path(sys.executable).with_name(program)
    return subprocess.run([path, "--help"], capture_output=True, text=True, check=True).stdout


def known(words: list[str]) -> bool:
    """Whether a command would be understood by the program that it names."""
    if words[0].endswith(("papermill", "snakemake")):
        text = help_of(Path(words[0]).name)
        of_plugin = "--slurm-"  # where it is installed
        return all(option in text for option in words if option.startswith("--") and not option.startswith(of_plugin))
    if words[0] == "conda":
        return (ROOT / words[words.index("-f") + 1]).exists()
    if words[0].endswith("pip"):
        return words[1] == "install" and len(words) > 2
    if words[0].endswith("python"):
        return all((ROOT / word).exists() for word in words if word.endswith(".py"))
    if words[0] == "docker":
        return "make" not in words or words[-1] in TARGETS
    if words[0] == "scancel":
        return words[1:] == ["--name", "RUN_ID"]
    return words[0].removeprefix(".venv/bin/") == "calibkit" and understands(words[1:])


def understands(words: list[str]) -> bool:
    """Whether the command line has the subcommand and its options."""
    out = io.StringIO()
    below = [word for word in words[:2] if word in ("data", "list", "prepare")] or words[:1]
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as stop:
        main([*below, "--help"])
    return stop.value.code == 0 and all(word in out.getvalue() for word in words if word.startswith("--"))


@pytest.mark.slow
def test_every_command_in_the_prose_exists():
    for page, command in commands():
        words = shlex.split(command)
        if words[0] == "make":
            assert [word for word in words[1:] if "=" not in word][0] in TARGETS, (page, command)
        else:
            assert known(words), (page, command)


def test_every_target_is_phony_explained_and_expands():
    make = ["make", "--no-print-directory"]
    said = subprocess.run([*make, "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.M)[1].split()
    assert sorted(phony) == sorted(line.split()[0] for line in said.stdout.splitlines()) == sorted(TARGETS)
    done = subprocess.run([*make, "-n", *TARGETS], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("beside", "given"), [(True, False), (False, False), (False, True)])
def test_ci_runs_both_commands_without_data_and_then_with_them(tmp_path, monkeypatch, beside, given):
    """By a ``make`` that writes down its target, whether its home is that of the user, and its data folder."""
    script = 'home=other; [ "$HOME" = "$WHOSE" ] && home=own; echo "$1 $home ${CALIBKIT_DATA:-none}" >> "$WHOSE/log"'
    script += '; [ "$home" = own ] || [ -z "$(ls -A "$HOME")" ] || exit 1'
    for folder in ("bin", "home", "checkout/.ci", *["shared/data"] * beside):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "bin" / "make").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "bin" / "make").chmod(0o755)
    shutil.copy(ROOT / ".ci" / "run", tmp_path / "checkout" / ".ci")
    if beside:
        (tmp_path / "shared" / "data" / "unpack.py").write_text("import os, sys; os.makedirs(sys.argv[1])")
    home = tmp_path / "home"
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    for name, value in {"HOME": home, "WHOSE": home, "VENV": sys.prefix}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("CALIBKIT_DATA", "mine" if given else "")
    subprocess.run([tmp_path / "checkout" / ".ci" / "run"], check=True)
    cache = home / ".cache" / "calibkit"
    seen = "mine" if given else str(cache)
    first = [f"install own {'mine' if given else 'none'}", "test other none", "slow other none", "book other none"]
    assert (home / "log").read_text().splitlines() == first + [f"data own {seen}"] * (given or beside)
    assert cache.exists() == (beside and not given)


def test_as_many_jobs_run_as_there_are_gpus():
    for gpus, cores in (("1", "2"), ("4", "4")):
        command = ["make", "-n", "paper", f"GPUS={gpus}", "PAPER=mbls,acls", "DATASETS=cifar10"]
        said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        (call,) = [line for line in said.replace("\\\n", " ").splitlines() if "bin/snakemake" in line]
        words = subprocess.run(
            ["sh", "-c", f"set -- {call}; echo $@"], capture_output=True, text=True, check=True
        ).stdout
        assert f"--cores {cores} --resources gpu={gpus} " in words
        assert words.strip().endswith("--config budget=paper paper=[mbls,acls] datasets=[cifar10]")
