# Every target sets up what it needs, in .venv (Python 3.11).

PYTHON ?= python3.11
VENV ?= .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test test-slow test-dgl2 lint upstream-check bench bench-all build docs docs-serve clean

demo: $(VENV)/.installed
	$(BIN)/dgl-lc demo
	@echo "These commands are in $(BIN): run \"source $(BIN)/activate\" first."

# Three processes on two cores: many tests wait for processes of their own, or
# for the disk. Each takes neighbours, which share what was made for the first.
FAST = -m "not slow" -n 3 --dist worksteal

# Tests start many processes, which would each compile the sources again where
# the environment says that no bytecode is to be written.
test test-slow test-dgl2: export PYTHONDONTWRITEBYTECODE =

test: $(VENV)/.installed
	$(BIN)/python -m pytest $(FAST)

# What takes longer, then all tests with many more cases: see tests/night.py.
test-slow: export DGL_LC_TESTS = night
test-slow: $(VENV)/.installed
	$(BIN)/python -m pytest -m slow
	$(BIN)/python -m pytest $(FAST) -o timeout=1800

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

# Figures of the README and of docs/, on a machine that does nothing else. This
# takes 18 minutes on 2 cores, and resumes after an interruption;
# "make bench BENCH=end_to_end_arxiv" measures one section.
BENCH =
FIGURES = $(BIN)/python benchmarks/figures.py

bench: $(VENV)/.bench
	$(FIGURES) collect $(if $(BENCH),--only $(BENCH))
	$(FIGURES) write

# More graphs and models, and more runs of each: hours.
bench-all: $(VENV)/.bench
	$(FIGURES) collect --size all --runs 5 $(if $(BENCH),--only $(BENCH))
	$(FIGURES) write

build: $(VENV)/.installed
	$(BIN)/python -m build

# The site, in build/docs. Its tutorials run: this takes about a minute.
docs: .venv-docs/.installed build/mathjax/tex-svg-full.js
	.venv-docs/bin/python -m sphinx -b html -W --keep-going -q docs build/docs
	@echo "The site is in build/docs/index.html."

docs-serve: docs
	.venv-docs/bin/python -m http.server --bind 127.0.0.1 --directory build/docs 8000

.venv-docs/.installed: setup.py constraints.txt
	test -x .venv-docs/bin/python || $(PYTHON) -m venv .venv-docs
	.venv-docs/bin/pip install -q --disable-pip-version-check -c constraints.txt torch
	.venv-docs/bin/pip install -q --disable-pip-version-check -c constraints.txt -e ".[docs]"
	touch $@

# Math is drawn without a network: one file of MathJax goes into the site.
build/mathjax/tex-svg-full.js:
	mkdir -p build/mathjax
	npm install --silent --no-save --prefix build/npm mathjax@3.2.2
	cp build/npm/node_modules/mathjax/es5/tex-svg-full.js $@

# torch first: DGL's other packages would draw in another build of it.
$(VENV)/.installed: setup.py constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -c constraints.txt torch
	$(PIP) -c constraints.txt -e ".[dev]"
	touch $@

$(VENV)/.bench: $(VENV)/.installed
	$(PIP) -c constraints.txt -e ".[bench]"
	touch $@

# DGL 2.1.0: with a torch it has no graphbolt library for, and with its own.
TOOLS = hypothesis pyarrow pytest pytest-timeout pytest-xdist scipy
NEEDS = matplotlib numba pandas psutil scikit-learn tqdm packaging optuna ogb

.venv-dgl2-new/.installed:
	$(PYTHON) -m venv .venv-dgl2-new
	.venv-dgl2-new/bin/pip install -q torch==2.13.0
	.venv-dgl2-new/bin/pip install -q torch==2.13.0 dgl==2.1.0 $(NEEDS) $(TOOLS)
	.venv-dgl2-new/bin/pip install -q --no-deps -e .
	touch $@

.venv-dgl2-old/.installed:
	$(PYTHON) -m venv .venv-dgl2-old
	.venv-dgl2-old/bin/pip install -q torch==2.2.1 torchdata==0.7.1 dgl==2.1.0 "numpy<2" pydantic pyyaml $(NEEDS) $(TOOLS)
	.venv-dgl2-old/bin/pip install -q --no-deps -e .
	touch $@

test-dgl2: .venv-dgl2-new/.installed .venv-dgl2-old/.installed
	.venv-dgl2-new/bin/python -m pytest $(FAST)
	.venv-dgl2-old/bin/python -m pytest $(FAST)

# The pylint that DGL uses. It runs on Python 3.11 with a newer wrapt.
.venv-upstream/.installed:
	$(PYTHON) -m venv .venv-upstream
	.venv-upstream/bin/pip install -q pylint==2.7.0
	.venv-upstream/bin/pip install -q --no-deps wrapt==1.17.3
	touch $@

upstream-check: $(VENV)/.installed .venv-upstream/.installed
	$(if $(DGL),,$(error name a checkout of DGL: make upstream-check DGL=path))
	$(BIN)/python upstream/check.py "$(DGL)" --pylint .venv-upstream/bin/pylint

clean:
	rm -rf build dist docs/gallery *.egg-info .pytest_cache .ruff_cache .mypy_cache
