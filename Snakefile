# Everything the book needs beyond a laptop: train what is missing, calibrate it, record the numbers, run the notebooks.
#
#   snakemake --cores 2 --resources gpu=1 --config budget=reduced "datasets=[cifar10]" "models=[resnet20]" "seeds=[0,1]"
#
# What exists is not made again. A training resumes from its own checkpoint, so a killed job loses at most one epoch; the
# running page of the book says how to go on after a kill, and how to run it on a cluster.

import sys
from itertools import product
from pathlib import Path

from calibkit._checks import check_choice
from calibkit.networks import BUDGETS, Network

PYTHON = sys.executable  # the interpreter of the environment that snakemake is installed in
PAPERMILL = Path(PYTHON).with_name("papermill")

BUDGET = check_choice("budget", config.get("budget", "reduced"), BUDGETS[1:])  # nothing of "smoke" is ever recorded
DEVICE = check_choice("device", config.get("device", "auto"), ("auto", "cpu", "cuda"))
PAPER = ["--paper", str(config["paper"])] if "paper" in config and BUDGET == "paper" else []  # else that of the loss
DATASETS = config.get("datasets", ["cifar10", "cifar100"])
MODELS = config.get("models", ["resnet110"] if BUDGET == "paper" else ["resnet20"])
LOSSES = config.get("losses", ["cross_entropy"])
SEEDS = config.get("seeds", [0])
NOTEBOOKS = config.get("notebooks", sorted(path.stem for path in Path("notebooks").glob("*.ipynb")))
RUNS = Network("a", "b").folder(BUDGET).parents[1]
GPUS = 0 if DEVICE == "cpu" else 1  # of a training, and of a notebook, which trains what it misses
HIDE = "CUDA_VISIBLE_DEVICES= " if DEVICE == "cpu" else ""  # from a notebook, not all of which have a `device`

# What is stored at this budget is not trained again; `make results` records it. In the folders of trainings a marker
# stands for a finished one: Snakemake deletes the outputs of a job that was killed, and logits are too dear for that.
NETWORKS = [Network(d, m, l, int(s)) for d, m, l, s in product(DATASETS, MODELS, LOSSES, SEEDS)]
MISSING = [network for network in NETWORKS if network.find(BUDGET) in (None, network.folder(BUDGET) / "logits.npz")]


wildcard_constraints:
    dataset="[a-z0-9_]+",
    model="[a-z0-9_]+",
    loss="[A-Za-z0-9_,=.-]+",
    seed="[0-9]+",
    notebook="[a-z0-9_]+",


rule all:
    input:
        expand(f"{RUNS}/notebooks/{{notebook}}.ipynb", notebook=NOTEBOOKS),
        f"{RUNS}/recorded",


rule train:
    output:
        touch(f"{RUNS}/{{dataset}}/{{model}}-{{loss}}-s{{seed}}/trained"),
    log:
        f"{RUNS}/{{dataset}}/{{model}}-{{loss}}-s{{seed}}/train.txt",
    params:
        loss=lambda wildcards: wildcards.loss.replace(",", " "),
    threads: 1
    resources:
        gpu=GPUS,
        mem_mb=lambda wildcards, attempt: 8000 * attempt,
        runtime=lambda wildcards, attempt: 1440 * attempt,
    shell:
        "{PYTHON:q} -m calibkit train --dataset {wildcards.dataset} --model {wildcards.model} --loss {params.loss:q}"
        " --seed {wildcards.seed} --budget {BUDGET:q} {PAPER:q} --device {DEVICE:q} > {log:q} 2>&1"


rule calibrate:
    input:
        f"{RUNS}/{{dataset}}/{{model}}-{{loss}}-s{{seed}}/trained",
    output:
        touch(f"{RUNS}/{{dataset}}/{{model}}-{{loss}}-s{{seed}}/recorded"),
    log:
        f"{RUNS}/{{dataset}}/{{model}}-{{loss}}-s{{seed}}/calibrate.txt",
    params:
        logits=lambda _, input: str(Path(input[0]).with_name("logits.npz")),
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: 120 * attempt,
    shell:
        "{PYTHON:q} -m calibkit calibrate {params.logits:q} --record > {log:q} 2>&1"


rule recorded:  # each network is by now; here those that differ in their loss are held against each other
    input:
        [f"{network.folder(BUDGET)}/recorded" for network in MISSING],
    output:
        touch(f"{RUNS}/recorded"),
    log:
        f"{RUNS}/recorded.txt",
    params:
        logits=lambda _: [str(network.find(BUDGET) or network.folder(BUDGET) / "logits.npz") for network in NETWORKS],
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: 120 * attempt,
    shell:
        "{PYTHON:q} -m calibkit calibrate {params.logits:q} --record > {log:q} 2>&1"


rule notebook:
    input:
        notebook="notebooks/{notebook}.ipynb",
        recorded=f"{RUNS}/recorded",
    output:
        f"{RUNS}/notebooks/{{notebook}}.ipynb",
    log:
        f"{RUNS}/notebooks/{{notebook}}.txt",
    threads: 1
    resources:
        gpu=GPUS,
        mem_mb=lambda wildcards, attempt: 8000 * attempt,
        runtime=lambda wildcards, attempt: 1440 * attempt,
    shell:
        "{HIDE}{PAPERMILL:q} {input.notebook:q} {output:q} -k python3 --cwd notebooks --no-progress-bar"
        " -p budget {BUDGET:q} > {log:q} 2>&1"
