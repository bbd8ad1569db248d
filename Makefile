# `make demo` and `make test` install what they need. `make check` is the quick one.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test check slow slurm slurm-deps golden

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --upgrade pip
	$(BIN)/pip install -q -e '.[client,endpoint]' --group dev
	touch $@

demo: $(STAMP)
	$(BIN)/python examples/demo.py

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy core shell tests
	$(BIN)/lint-imports
	$(BIN)/pytest -q -m "not slow and not slurm" -n 2

test: check slow slurm

slow: $(STAMP)
	$(BIN)/pytest -q -m "slow and not slurm"

slurm: $(STAMP) slurm-deps
	$(BIN)/pytest -q -m slurm tests/slurm

slurm-deps:
	sh tests/slurm/lab/install.sh

golden: $(STAMP)
	$(BIN)/pytest -q tests/golden --update-golden
