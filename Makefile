# Two commands: `make book` builds the book to read, `make test` checks the code. `make help` lists the rest.
PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
GPUS ?= 1
BUDGET ?= paper
SEEDS ?= 0
# Of `make paper`: which papers and data sets, with commas; empty: all. DRY=-n only says what would be done.
PAPER ?=
DATASETS ?=
DRY ?=
# cpu, cu126, ...: take torch from that index of download.pytorch.org; empty: whatever pip's own index offers.
TORCH_INDEX ?=

BIN := $(VENV)/bin
EXTRAS := train,book,test,run
# Of the builds that fit this machine those of the tested versions, as requirements.lock says; TORCH="torch torchvision":
# the newest, which on Linux are gigabytes of CUDA libraries without a TORCH_INDEX.
TORCH ?= "torch<2.14" "torchvision<0.29"
STAGE := _build/source
CONSTRAINTS ?= -c requirements.lock
NOTEBOOKS := $(wildcard notebooks/*.ipynb)
STUDIES := $(addprefix benchmarks/,correlation.py coverage.py power.py cloze.py)  # of statistics, not of speed: results of the book
BENCHMARKS := $(filter-out benchmarks/shared.py benchmarks/training.py $(STUDIES),$(wildcard benchmarks/*.py))
COMMA := ,
LOSSES := $(subst $() ,$(COMMA),$(basename $(notdir $(wildcard calibkit/losses/[a-z]*.py))))
SOURCES := calibkit book tests tools benchmarks notebooks conftest.py
UNIT = $(BIN)/python -m pytest tests calibkit book/kit --doctest-modules -n $(JOBS)
NBVAL := --nbval-lax --nbval-current-env --nbval-sanitize-with tests/nbval_sanitize.cfg -n $(JOBS) --dist loadscope
SNAKEMAKE = $(BIN)/snakemake --cores $$(($(GPUS) > $(JOBS) ? $(GPUS) : $(JOBS))) --resources gpu=$(GPUS) \
	--rerun-incomplete --rerun-triggers mtime --keep-going

export OMP_NUM_THREADS ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help install book notebooks html readme test check quick lint unit slow nbval data portable lowest newest browser pdf gpu results paper losses epoch bench clean
.NOTPARALLEL:

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "%-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

install: $(VENV)/.ready  ## Create .venv and install the package with everything that the book and the tests need

$(VENV)/.ready: pyproject.toml requirements.lock
	@echo "installing into $(VENV): some minutes, the first time"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(if $(TORCH_INDEX),$(BIN)/pip install -q --index-url https://download.pytorch.org/whl/$(TORCH_INDEX) $(TORCH))
	$(BIN)/pip install -q $(CONSTRAINTS) -e ".[$(EXTRAS)]"
	touch $@

book: install  ## Execute every notebook at the smoke budget and render them to _build/html; no tracked file changes
	mkdir -p $(STAGE)
	cp -R _config.yml _toc.yml genindex.md book $(STAGE)
	$(BIN)/python tools/nbtool.py run --jobs $(JOBS) --into $(STAGE)/notebooks
	rm -rf _build/.doctrees
	$(BIN)/jupyter-book build $(STAGE) --path-output . --all -W -n --keep-going -q

notebooks: install  ## Execute every notebook at the smoke budget and store its outputs in the checkout
	$(BIN)/python tools/nbtool.py run --jobs $(JOBS)

html: install  ## Render the book from the stored outputs; any warning is an error
	rm -rf _build/.doctrees
	$(BIN)/jupyter-book build . --all -W -n --keep-going -q

readme: install  ## Draw the figure of the README from the results
	$(BIN)/python -m book.kit.sphinx.frontpage

test: lint  ## Five minutes: lint, notebook pairs, doctests, and the unit tests that take a second or two at most
	$(UNIT) -m "not browser and not slow"

check: test slow nbval  ## Everything that needs no data and no browser: `test`, the slow tests, stored outputs

define STYLE
$(BIN)/ruff check $(SOURCES)
$(BIN)/ruff format --check $(SOURCES)
$(BIN)/mypy
$(BIN)/lint-imports --no-logo --no-cache
endef

lint: install  ## Check style, types and imports, and that every notebook is the executed twin of its source
	$(STYLE)
	$(BIN)/python tools/nbtool.py check

quick: install  ## A minute: style, types, imports, and the tests of what differs from main, or one file of each kind
	$(STYLE)
	$(BIN)/python -m pytest --doctest-modules -m "not browser and not slow" -n $(JOBS) $$($(BIN)/python tools/quick.py)

unit: install  ## Run all unit tests and doctests
	$(UNIT) -m "not browser"

slow: install  ## Run the unit tests that `test` leaves out: whole trainings, other processes, simulations
	$(UNIT) -m slow

nbval: install  ## Run every notebook and compare the outputs tagged nbval-check-output with the stored ones
	$(if $(NOTEBOOKS),$(BIN)/python -m pytest $(NBVAL) $(NOTEBOOKS))

data: install  ## Run what reads data sets, where they lie: tests that say so, chapters that hold measured tables
	$(BIN)/python -m pytest tests -m data -n $(JOBS) -rs
	$(BIN)/python -m pytest --noconftest $(NBVAL) $(shell grep -l available= $(NOTEBOOKS))

portable:  ## Tests and stored outputs as other processors compute them, with 1 and 2 threads; lowest and newest versions
	set -e; for capability in default avx2; do for threads in 1 2; do \
		echo "portable: $$capability, $$threads threads"; \
		ATEN_CPU_CAPABILITY=$$capability OMP_NUM_THREADS=$$threads $(MAKE) unit nbval JOBS=$$((2 / threads)); \
	done; done
	$(MAKE) lowest newest

lowest:  ## Unit tests with the lowest versions that pyproject.toml allows, in .venv-lowest
	mkdir -p _build
	$(PYTHON) tools/lowest.py > _build/lowest.txt
	$(MAKE) unit VENV=.venv-lowest CONSTRAINTS="-c _build/lowest.txt"

newest:  ## Unit tests with the newest versions that pyproject.toml allows, but for TORCH, in .venv-newest
	$(MAKE) unit VENV=.venv-newest CONSTRAINTS='$(TORCH)'

browser: install  ## Look at every page of the built book in a Chromium: widths, light and dark, print, keyboard, axe
	$(BIN)/pip install -q $(CONSTRAINTS) -e ".[browser]"
	$(BIN)/python -m pytest tests/browser -m browser -rs

pdf: install  ## Print the built book to _build/calibkit.pdf
	$(BIN)/pip install -q $(CONSTRAINTS) -e ".[browser]"
	$(BIN)/python tools/pdf.py

gpu: install  ## Run the tests that need a GPU; without one, say which were skipped and why
	$(BIN)/python -m pytest tests -m gpu -rs

results: install  ## Fit the methods that the papers print on every stored network, record them in book/results/ours.csv
	$(BIN)/python -m book.kit record --all
	$(BIN)/python -m book.kit refit

paper: install  ## Train what the papers trained (GPUs), calibrate, record, run every chapter; of one: PAPER=mbls DATASETS=cifar10
	$(SNAKEMAKE) $(DRY) --config budget=paper $(if $(PAPER),"paper=[$(PAPER)]") $(if $(DATASETS),"datasets=[$(DATASETS)]")

losses: install  ## Train the losses on CIFAR-10 and record them (GPU; BUDGET=reduced: a small network on a CPU)
	$(SNAKEMAKE) recorded --config budget=$(BUDGET) paper=mbls "datasets=[cifar10]" "losses=[$(LOSSES)]" \
		"models=[$(if $(filter paper,$(BUDGET)),resnet50,resnet20)]" "seeds=[$(SEEDS)]"

epoch: install  ## Time an epoch of ResNet-50 with MbLS on CIFAR-10, the recipe of the paper (GPU)
	$(BIN)/python benchmarks/training.py

bench: install  ## Time the package against its peers (pip install -e ".[peers]" first)
	set -e; for file in $(BENCHMARKS); do $(BIN)/python $$file; done

clean:  ## Remove what can be built again, except .venv and runs
	rm -rf _build .pytest_cache .ruff_cache .hypothesis .snakemake
	find calibkit book tests tools benchmarks notebooks -name __pycache__ -prune -exec rm -rf {} +
