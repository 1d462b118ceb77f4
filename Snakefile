# Everything the book needs beyond a laptop: train what is missing, calibrate it, record the numbers, run the notebooks.
#
#   snakemake --cores 2 --resources gpu=1 --config budget=reduced "datasets=[cifar10]" "models=[resnet20]" "seeds=[0,1]"
#   snakemake --cores 2 --resources gpu=1 --config budget=paper paper=mbls "datasets=[cifar10]"
#
# The second trains what a paper trained, see book/papers. What exists is not made again. A training resumes from
# its own checkpoint, so a killed job loses at most one epoch; the running page of the book says how to go on after a
# kill, and how to run it on a cluster.

import shutil
import sys
from itertools import product
from pathlib import Path

from calibkit._checks import check_choice, check_int, expected
from calibkit.keys import Key
from calibkit.networks import BUDGETS, Network
from book.kit.plans import Training, check, disk, epochs_of_resnet50, networks_of, size_of
from book.papers import PAPERS

PYTHON = sys.executable  # the interpreter of the environment that snakemake is installed in
PAPERMILL = Path(PYTHON).with_name("papermill")


def listed(name, default):
    """A setting as a list, also where one value was given without brackets."""
    value = config.get(name, default)
    return list(value) if isinstance(value, (list, tuple)) else [value]


def chosen(plan):
    """Those networks of the papers that datasets, models and losses name; all where these are not given."""
    for setting, field in {"datasets": "dataset", "models": "model", "losses": "loss"}.items():
        if setting in config:
            there = sorted({getattr(training.network, field) for training in plan})
            values = [str(Key.parse(value)) if field == "loss" else value for value in listed(setting, [])]
            values = [check_choice(setting, value, there) for value in values]
            plan = [training for training in plan if getattr(training.network, field) in values]
    return plan


SETTINGS = ("budget", "datasets", "device", "losses", "models", "notebooks", "paper", "seeds")
for name in config:
    check_choice("config", name, SETTINGS)
BUDGET = check_choice("budget", config.get("budget", "reduced"), BUDGETS[1:])  # nothing of "smoke" is ever recorded
DEVICE = check_choice("device", config.get("device", "auto"), ("auto", "cpu", "cuda"))
SEEDS = [check_int("seeds", int(seed) if str(seed).isdecimal() else seed, 0) for seed in listed("seeds", [0])]
OF_PAPERS = BUDGET == "paper" and not {"datasets", "models", "losses"} <= config.keys()  # else a grid of one's own
if OF_PAPERS:
    ASKED = [check_choice("paper", paper, PAPERS) for paper in listed("paper", list(PAPERS))]
    PLAN = chosen([training for paper in ASKED for training in networks_of(paper, SEEDS)])
else:
    GRID = [listed("datasets", ["cifar10", "cifar100"]), listed("models", ["resnet20"])]
    GRID += [listed("losses", ["cross_entropy"]), SEEDS]
    RECIPE = config.get("paper") if BUDGET == "paper" else None  # else that of the loss
    PLAN = [Training(Network(*of), RECIPE) for of in product(*GRID)]
    ASKED = []
check(PLAN, BUDGET, data=False)

EVERY = sorted(path.stem for path in Path("notebooks").glob("*.ipynb"))
NOTEBOOKS = listed("notebooks", ASKED if OF_PAPERS and "paper" in config else EVERY)
NOTEBOOKS = [check_choice("notebooks", name, EVERY) for name in NOTEBOOKS]
RUNS = Network("a", "b").folder(BUDGET).parents[1]
LIMIT = workflow.global_resources.get("gpu")  # of --resources; without one, a single GPU
AT_ONCE = max(int(getattr(LIMIT, "value", LIMIT) or 1), 1)
GPUS = 0 if DEVICE == "cpu" else 1  # of a training, and of a notebook, which trains what it misses
HIDE = "CUDA_VISIBLE_DEVICES= " if DEVICE == "cpu" else ""  # from a notebook, not all of which have a `device`
ON_GPU = [PYTHON, "tools/onegpu.py", str(AT_ONCE), "--"] if GPUS else []

# What is stored at this budget is not trained again; `make results` records it. In the folders of trainings a marker
# stands for a finished one: Snakemake deletes the outputs of a job that was killed, and logits are too dear for that.
TRAININGS = {}
for training in PLAN:  # of two papers with one recipe the first trains
    TRAININGS.setdefault(training.folder(BUDGET).relative_to(RUNS).as_posix(), training)
MISSING = {
    run: training
    for run, training in TRAININGS.items()
    if training.find(BUDGET) in (None, training.folder(BUDGET) / "logits.npz")
}


def parameters(notebook):
    """What papermill is told: of a paper's chapter the paper's own network; at "paper" the others train nothing."""
    of_paper = BUDGET == "paper"
    told = {"budget": BUDGET if notebook in PAPERS or not of_paper else "smoke"}
    if notebook in PAPERS:
        told |= {"device": DEVICE} | (PAPERS[notebook].parameters if of_paper else {})
    return [word for name, value in told.items() for word in ("-p", name, value)]


UNLOCKS = "--unlock" in sys.argv  # which runs nothing
if workflow.is_main_process and not UNLOCKS and (ahead := {of for of in MISSING.values() if of.find(BUDGET) is None}):
    check(ahead, BUDGET)
    largest = max(size_of(of.network.dataset, of.network.model)[0] for of in ahead)
    needed = disk(ahead) + 24 * largest * AT_ONCE  # two checkpoints each
    free = shutil.disk_usage(next(path for path in (RUNS, *RUNS.parents) if path.exists())).free
    if needed > free:
        raise expected("disk", f"{needed / 1e9:.1f} GB free at {RUNS}", f"{free / 1e9:.1f} GB")
    work = f", {epochs_of_resnet50(ahead):,.0f} epochs of a ResNet-50 on CIFAR-10" if BUDGET == "paper" else ""
    print(f"to train: {len(ahead)} networks{work}, {needed / 1e9:.2f} GB", file=sys.stderr)


wildcard_constraints:
    run="([a-z_]+/)?[a-z0-9_]+/[^/]+-s[0-9]+",
    notebook="[a-z0-9_]+",


rule all:
    input:
        expand(f"{RUNS}/notebooks/{{notebook}}.ipynb", notebook=NOTEBOOKS),
        f"{RUNS}/recorded",


rule train:
    output:
        touch(f"{RUNS}/{{run}}/trained"),
    log:
        f"{RUNS}/{{run}}/train.txt",
    params:
        network=lambda wildcards: TRAININGS[wildcards.run].arguments,
    threads: 1
    resources:
        gpu=GPUS,
        mem_mb=lambda wildcards, attempt: 8000 * attempt,
        runtime=lambda wildcards, attempt: 1440 * attempt,
    shell:
        "{ON_GPU:q} {PYTHON:q} -m calibkit train {params.network:q} --budget {BUDGET:q} --device {DEVICE:q} > {log:q} 2>&1"


rule calibrate:
    input:
        f"{RUNS}/{{run}}/trained",
    output:
        touch(f"{RUNS}/{{run}}/recorded"),
    log:
        f"{RUNS}/{{run}}/calibrate.txt",
    params:
        logits=lambda _, input: str(Path(input[0]).with_name("logits.npz")),
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: 120 * attempt,
    shell:
        "{PYTHON:q} -m book.kit record {params.logits:q} > {log:q} 2>&1"


rule recorded:  # each network is by now; here those that differ in their loss are held against each other
    input:
        [f"{RUNS}/{run}/recorded" for run in MISSING],
    output:
        touch(f"{RUNS}/recorded"),
    log:
        f"{RUNS}/recorded.txt",
    params:
        logits=lambda _: [str(of.find(BUDGET) or of.folder(BUDGET) / "logits.npz") for of in PLAN],
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: 120 * attempt,
    shell:
        "{PYTHON:q} -m book.kit record {params.logits:q} > {log:q} 2>&1"


rule notebook:
    input:
        notebook="notebooks/{notebook}.ipynb",
        recorded=f"{RUNS}/recorded",
    output:
        f"{RUNS}/notebooks/{{notebook}}.ipynb",
    log:
        f"{RUNS}/notebooks/{{notebook}}.txt",
    params:
        told=lambda wildcards: parameters(wildcards.notebook),
    threads: 1
    resources:
        gpu=GPUS,
        mem_mb=lambda wildcards, attempt: 8000 * attempt,
        runtime=lambda wildcards, attempt: 1440 * attempt,
    shell:
        "{HIDE}{ON_GPU:q} {PAPERMILL:q} {input.notebook:q} {output:q} -k python3 --cwd notebooks --no-progress-bar"
        " {params.told:q} > {log:q} 2>&1"
