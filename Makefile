# Every target works on a machine with Python 3.11 or later, pip and make: the environment is made on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo test test-nightly lint format docs check-docs tutorials clean

help:
	@echo "make demo          fit a simulated differentiation with known truth and draw it, into demo/"
	@echo "make test          run the tests"
	@echo "make test-nightly  run the large suites of generated cases and faults (SEED=1 for other cases)"
	@echo "make lint          check style and types (ruff, mypy)"
	@echo "make format        put the code into shape"
	@echo "make docs          build the site into docs/_build/html"
	@echo "make check-docs    build it and open every page in Chromium, which has to be installed"
	@echo "make tutorials     execute the tutorials from clean kernels and keep their outputs"
	@echo "make clean         remove the environment and what was made"

demo: $(VENV)/base
	$(BIN)/scjko demo --output demo

test: $(VENV)/dev
	$(BIN)/python -m pytest

# Hundreds of generated cases, and the tests that take too long for every change. Cases are of so many shapes that
# programs are compiled longer than they run: less so without optimisation.
SEED ?= 0
test-nightly: $(VENV)/dev
	JAX_DISABLE_MOST_OPTIMIZATIONS=1 $(BIN)/python -m pytest -m "nightly or properties" --hypothesis-profile=nightly --hypothesis-seed=$(SEED)

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/doc
	rm -rf docs/_build
	$(BIN)/python -m sphinx -W --keep-going -q docs docs/_build/html
	@echo "docs/_build/html/index.html"

check-docs: docs
	$(BIN)/python docs/check_pages.py

tutorials: $(VENV)/doc
	$(BIN)/python tutorials/execute.py

$(VENV)/base: pyproject.toml
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "scjko needs Python 3.11 or later: make PYTHON=python3.11"'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/dev: $(VENV)/base
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

$(VENV)/doc: $(VENV)/base
	$(BIN)/python -m pip install --quiet --editable '.[doc]'
	touch $@

clean:
	rm -rf $(VENV) demo build dist docs/_build docs/generated docs/tutorials .mypy_cache .pytest_cache .ruff_cache
