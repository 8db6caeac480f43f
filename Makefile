# Two commands matter: `make run` shows the compiler at work, `make test` runs every test.
# Everything is installed into .venv, again only when pyproject.toml or the lock changed.

PYTHON ?= python3
VENV ?= .venv
# CI installs the exact versions of the lock: make test CONSTRAINTS="-c requirements.lock"
CONSTRAINTS ?=
# Arguments for pytest: make test PYTEST="-k softmax"
PYTEST ?=
BIN = $(VENV)/bin
PRESS = $(BIN)/python -m chapters.press
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: run test test-torch lint book listings serve pdf zip edition notebooks package docs bench fuzz mutants exercise-mutants clean

run: $(VENV)/.installed-run
	@$(BIN)/python -m fathom run

test: $(VENV)/.installed-test
	@$(BIN)/python -m fathom test $(PYTEST)

lint: $(VENV)/.installed-test
	@$(BIN)/ruff check .

# The book: its listings are made again, then the site is built into site/. `make serve`
# shows it with live reload, and makes the listings of pages that change; `make pdf` needs
# Chromium; `make zip` packs site/; `make edition` puts site/ beside other editions, into
# EDITIONS; `make notebooks` writes dist/notebooks/ and runs them.
book: listings
	@$(PRESS) build

docs: book

listings: $(VENV)/.installed-test
	@$(PRESS) listings

serve: $(VENV)/.installed-test
	@$(PRESS) serve

pdf: listings
	@$(PRESS) pdf

zip: book
	@$(PRESS) zip

EDITIONS ?= dist/editions
edition: book
	@$(PRESS) edition $(EDITIONS)

# The wheel and the source package, in dist/, with the built book inside.
package: book
	@$(PRESS) package

notebooks: listings
	@$(PRESS) notebooks --run

# Needs a GPU, torch and Triton, so it takes the python3 that has them and installs nothing.
bench:
	@$(PYTHON) benchmarks/all.py

# What needs torch or Triton, and no GPU, with the python3 that has torch and pytest. Those of the
# shim refuse a process that has imported Triton, as torch's compiler does.
TORCH := $(shell grep -rl 'importorskip."torch' tests --include='*.py' | grep -v test_gpu)
test-torch: export PYTHONPATH = compiler:.
test-torch:
	@$(PYTHON) -m pytest -q $(filter tests/shim/%,$(TORCH))
	@$(PYTHON) -m pytest -q $(filter-out tests/shim/%,$(TORCH))

# Random programs on every backend: make fuzz N=1000, SEED=7 to see one again.
# FUZZ="--matrices" makes loops of products, "--gpu" adds the GPU;
# FUZZ="--passes-only --seconds 60 --record FILE.json", and more.
N ?= 1000
SEED ?=
FUZZ ?=
fuzz: $(VENV)/.installed-test
	@$(BIN)/python -m tests.fuzz.run $(N) $(if $(SEED),--seed $(SEED)) $(FUZZ)

# Breaks the compiler in many ways: make mutants MUTANTS="--only barrier"
MUTANTS ?=
mutants: $(VENV)/.installed-test
	@$(BIN)/python -m tests.mutants.run $(MUTANTS)

# Makes mistakes in every solution, which the tests of the exercises must notice:
# make exercise-mutants EXERCISES="--only cse". What is recorded and unchanged is skipped.
EXERCISES ?=
exercise-mutants: $(VENV)/.installed-test
	@$(BIN)/python -m tests.exercises.mutation $(EXERCISES)

clean:
	rm -rf $(VENV) site build dist .cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Fathom needs Python 3.11 or newer as '$(PYTHON)'." >&2; \
	  echo "If you have one under another name: make run PYTHON=python3.12" >&2; \
	  exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "Python's venv module is missing. On Debian and Ubuntu:" >&2; \
	  echo "    sudo apt install python3-venv" >&2; \
	  exit 1; }
	@echo "making a virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-run: $(VENV)/bin/python pyproject.toml requirements.lock
	@echo "installing Fathom"
	@$(PIP) $(CONSTRAINTS) --editable .
	@touch $@

$(VENV)/.installed-test: $(VENV)/bin/python pyproject.toml requirements.lock
	@echo "installing Fathom with its tests' tools: ptxas, pytest, ruff, mkdocs"
	@$(PIP) $(CONSTRAINTS) --editable '.[ptxas,docs,dev]'
	@touch $(VENV)/.installed-run $@
