# Every target works on a machine with Python 3.11 or later, pip and make: the environment is made on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo test lint format clean

help:
	@echo "make demo    fit a simulated differentiation with known truth and draw it, into demo/"
	@echo "make test    run the tests"
	@echo "make lint    check style and types (ruff, mypy)"
	@echo "make format  put the code into shape"
	@echo "make clean   remove the environment and what was made"

demo: $(VENV)/base
	$(BIN)/scjko demo --output demo

test: $(VENV)/dev
	$(BIN)/python -m pytest

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/base: pyproject.toml
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "scjko needs Python 3.11 or later: make PYTHON=python3.11"'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/dev: $(VENV)/base
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) demo build dist .mypy_cache .pytest_cache .ruff_cache
