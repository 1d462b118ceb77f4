"""The targets of the Makefile, and what runs them: CI, and a grid of trainings on several GPUs."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = dict(re.findall(r"^([a-z]+):.*?## (.+)$", MAKEFILE, re.M))


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


def test_the_workflow_calls_targets_that_are_there_on_each_python_that_the_package_names():
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    jobs = yaml.safe_load(text)["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    lines = "\n".join(step["run"] for step in steps if "run" in step)
    called = {word for words in re.findall(r"^(?:.* )?make ((?:[a-z]+ ?)+)", lines, re.M) for word in words.split()}
    called |= set(jobs["versions"]["strategy"]["matrix"]["target"])
    assert {"check", "test", "book", "browser", "pdf", "lowest", "newest"} == called <= set(TARGETS)
    kinds = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    versions = re.findall(r"Python :: (3\.\d+)$", "\n".join(kinds), re.M)
    assert jobs["test"]["strategy"]["matrix"]["python"] == versions
    for job in jobs.values():
        assert set(job.get("needs", [])) <= set(jobs)
    used = re.findall(r"uses: (.*)", text)
    assert used and all(re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each) for each in used)


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
