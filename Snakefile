# Everything the book needs beyond a laptop: train what is missing, calibrate it, record the numbers, run the notebooks.
#
#   snakemake --cores 2 --resources gpu=1 --config budget=reduced "datasets=[cifar10]" "models=[resnet20]" "seeds=[0,1]"
#
# What exists is not made again; a killed run goes on where it was (`snakemake --unlock` first). A training resumes from
# its own checkpoint, so a killed job loses at most one epoch. On a cluster: --executor slurm, kubernetes, ...

import sys
from itertools import product
from pathlib import Path

from calibkit.logits import load, zoo

PYTHON = sys.executable  # the interpreter of the environment that snakemake is installed in
PAPERMILL = Path(PYTHON).with_name("papermill")

BUDGET = config.get("budget", "reduced")
PAPER = f"--paper {config['paper']}" if "paper" in config else ""  # else that of the loss
DATASETS = config.get("datasets", ["cifar10", "cifar100"])
MODELS = config.get("models", ["resnet110"] if BUDGET == "paper" else ["resnet20"])
LOSSES = config.get("losses", ["cross_entropy"])
SEEDS = config.get("seeds", [0])
DEVICE = config.get("device", "auto")
NOTEBOOKS = sorted(path.stem for path in Path("notebooks").glob("*.ipynb"))
RUNS = f"runs/{BUDGET}"

# A network in book/results/logits that was trained at this budget is not trained again; `make results` records it.
STORED = {name for name, path in zoo().items() if load(path).meta.get("budget") == BUDGET}
NETWORKS = [f"{d}/{m}-{l}-s{s}" for d, m, l, s in product(DATASETS, MODELS, LOSSES, SEEDS)]
MISSING = [name for name in NETWORKS if name not in STORED]


wildcard_constraints:
    dataset="[a-z0-9_]+",
    model="[a-z0-9_]+",
    loss="[A-Za-z0-9_,=.-]+",
    seed="[0-9]+",


rule all:
    input:
        expand(f"{RUNS}/notebooks/{{notebook}}.ipynb", notebook=NOTEBOOKS),
        f"{RUNS}/recorded",


rule train:
    output:
        f"{RUNS}/{{dataset}}/{{model}}-{{loss}}-s{{seed}}/logits.npz",
    log:
        f"{RUNS}/{{dataset}}/{{model}}-{{loss}}-s{{seed}}/train.txt",
    resources:
        gpu=1,
    retries: 1
    shell:
        "{PYTHON:q} -m calibkit train --dataset {wildcards.dataset} --model {wildcards.model} --loss {wildcards.loss}"
        " --seed {wildcards.seed} --budget {BUDGET} {PAPER} --device {DEVICE} --out $(dirname {output})"
        " > {log} 2>&1"


rule calibrate:
    input:
        f"{RUNS}/{{dataset}}/{{model}}-{{loss}}-s{{seed}}/logits.npz",
    output:
        touch(f"{RUNS}/{{dataset}}/{{model}}-{{loss}}-s{{seed}}/recorded"),
    log:
        f"{RUNS}/{{dataset}}/{{model}}-{{loss}}-s{{seed}}/calibrate.txt",
    shell:
        "{PYTHON:q} -m calibkit calibrate {input} --record > {log} 2>&1"


rule recorded:
    input:
        [f"{RUNS}/{name}/recorded" for name in MISSING],
    output:
        touch(f"{RUNS}/recorded"),


rule notebook:
    input:
        notebook="notebooks/{notebook}.ipynb",
        recorded=f"{RUNS}/recorded",
    output:
        f"{RUNS}/notebooks/{{notebook}}.ipynb",
    log:
        f"{RUNS}/notebooks/{{notebook}}.txt",
    shell:
        "{PAPERMILL:q} {input.notebook} {output} -k python3 --cwd notebooks --no-progress-bar -p budget {BUDGET}"
        " > {log} 2>&1"
