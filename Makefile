# The two commands of the README, and what stands behind them.
#
#   make run      see it work: this machine's GPUs, a dcgm-exporter on localhost:9400, or the demo
#   make test     format, lint, types, layers, tests
#   make peers    get the real Collector, Prometheus, Alertmanager and Slurm that some tests talk to
#   make bench    measure what docs/performance.md claims
#   make fix      format, and mend what the linter can mend
#   make docs     write the generated pages
#   make lock     pin the dependencies anew

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help run test format lint types layers tests peers bench fix docs lock clean

help:
	@sed -n 's/^# \{0,1\}//p' Makefile | sed '/^$$/q;1d' ; sed -n 's/^#   \(make .*\)/  \1/p' Makefile

# uv where there is one, else venv and pip. Both install what requirements.lock pins, hashes checked.
$(STAMP): requirements.lock pyproject.toml
	@if command -v uv >/dev/null 2>&1; then \
	  echo "setting up $(VENV) with uv"; \
	  uv venv --quiet --allow-existing --python "$$(command -v $(PYTHON))" $(VENV) && \
	  uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock && \
	  uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e . ; \
	else \
	  echo "setting up $(VENV) with pip (about a minute)"; \
	  $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "otel-ofu needs Python 3.11 or later, this is " + sys.version.split()[0])' && \
	  $(PYTHON) -m venv $(VENV) && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . ; \
	fi
	@touch $@

run: $(STAMP)
	@$(BIN)/otel-ofu run --or-demo

# The quick ones first; the types are checked while the tests run.
test: format lint layers
	@$(MAKE) --no-print-directory -j2 types tests

format: $(STAMP)
	$(BIN)/ruff format --check .

lint: $(STAMP)
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/mypy

layers: $(STAMP)
	$(BIN)/lint-imports

# On all cores, up to eight: a worker more than that waits for the longest test.
tests: $(STAMP)
	$(BIN)/pytest --quiet --numprocesses auto --maxprocesses 8 --dist worksteal

peers: $(STAMP)
	$(BIN)/python tests/peers/build.py
	$(BIN)/python -m tests.peers.debian

bench: $(STAMP)
	$(BIN)/python bench/run.py

fix: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMP)
	$(BIN)/python docs/generate.py

lock:
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --no-annotate --group dev pyproject.toml -o requirements.lock

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
