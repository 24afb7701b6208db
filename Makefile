# Every target works on a machine with Python 3.11 or later, pip and make: the environment is made on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests of whole files side by side, as many as there are cores.
SIDE_BY_SIDE := --numprocesses=auto --maxprocesses=4 --dist=loadfile

# CellRank and moscot need Python 3.12; any that works will do.
INTEROP_PYTHON ?= $(call first_python,3.12,python3.12 $(wildcard $(HOME)/.pyenv/versions/3.12*/bin/python) python3.13 $(PYTHON))
NEWEST_PYTHON ?= $(call first_python,3.11,python3.14 $(wildcard $(HOME)/.pyenv/versions/3.14*/bin/python) python3.13 \
	$(wildcard $(HOME)/.pyenv/versions/3.13*/bin/python) python3.12 $(PYTHON))
first_python = $(shell for p in $(2); do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < tuple(map(int, "$(1)".split("."))))' 2>/dev/null && echo "$$p" && break; done)

.PHONY: help demo test coverage test-nightly test-interop test-lowest test-newest test-prerelease test-wheel lint format docs check-docs tutorials clean

help:
	@echo "make demo          fit a simulated differentiation with known truth and draw it, into demo/"
	@echo "make test          run the tests"
	@echo "make coverage      run the tests and say which lines and branches of core, pl and tl they miss; fails below 90 %"
	@echo "make test-nightly  run the large suites of generated cases and faults (SEED=1 for other cases)"
	@echo "make test-interop  test with the real CellRank, scVelo and moscot, on Python 3.12 or later"
	@echo "make test-lowest   test with the lowest versions of what scjko needs"
	@echo "make test-newest   test with the newest versions, on the newest Python there is"
	@echo "make test-prerelease  test with pre-releases, on the newest Python there is"
	@echo "make test-wheel    build the wheel and use it from an environment of its own"
	@echo "make lint          check style and types (ruff, mypy)"
	@echo "make format        put the code into shape"
	@echo "make docs          build the site into docs/_build/html"
	@echo "make check-docs    build it and open every page in Chromium, which has to be installed"
	@echo "make tutorials     execute the tutorials from clean kernels and keep their outputs"
	@echo "make clean         remove the environment and what was made"

demo: $(VENV)/base
	$(BIN)/scjko demo --output demo

test: $(VENV)/dev
	$(BIN)/python -m pytest $(SIDE_BY_SIDE)

coverage: $(VENV)/dev
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) --cov --cov-report=term-missing:skip-covered

# Hundreds of generated cases, and the tests that take too long for every change. Cases are of so many shapes that
# programs are compiled longer than they run: less so without optimisation. The other tests are of programs as users run
# them, in which the same bits are promised.
SEED ?= 0
NIGHTLY := $(BIN)/python -m pytest --numprocesses=auto --maxprocesses=4
test-nightly: $(VENV)/dev
	JAX_DISABLE_MOST_OPTIMIZATIONS=1 $(NIGHTLY) -m properties --hypothesis-profile=nightly --hypothesis-seed=$(SEED)
	$(NIGHTLY) -m nightly

test-interop:
	@test -n "$(INTEROP_PYTHON)" || { echo "CellRank and moscot need Python 3.12 or later, and there is none: make INTEROP_PYTHON=..."; exit 1; }
	$(INTEROP_PYTHON) -m venv $(VENV)-interop
	$(VENV)-interop/bin/python -m pip install --quiet --editable '.[test,interop]'
	$(VENV)-interop/bin/python -m pytest tests/external tests/tl/test_velocity_embedding.py

# Old releases warn of their own future, so that warnings are no errors there.
test-lowest:
	$(PYTHON) -m venv $(VENV)-lowest
	$(PYTHON) tests/lowest.py > $(VENV)-lowest/constraints.txt
	$(VENV)-lowest/bin/python -m pip install --quiet --constraint $(VENV)-lowest/constraints.txt --editable '.[test]'
	$(VENV)-lowest/bin/python -m pytest $(SIDE_BY_SIDE) -W default

test-newest:
	$(NEWEST_PYTHON) -m venv $(VENV)-newest
	$(VENV)-newest/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager --editable '.[test]'
	$(VENV)-newest/bin/python -m pytest $(SIDE_BY_SIDE)

# Pre-releases warn of what is to come, so that warnings are no errors there either.
test-prerelease:
	$(NEWEST_PYTHON) -m venv $(VENV)-prerelease
	$(VENV)-prerelease/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager --pre --editable '.[test]'
	$(VENV)-prerelease/bin/python -m pytest $(SIDE_BY_SIDE) -W default

test-wheel:
	rm -rf dist $(VENV)-wheel
	$(PYTHON) -m venv $(VENV)-wheel
	$(VENV)-wheel/bin/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	$(VENV)-wheel/bin/python -m pip install --quiet dist/scjko-*.whl
	$(VENV)-wheel/bin/scjko demo --output $(VENV)-wheel/demo

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

# The one with CellRank and moscot is executed in an environment of its own, where there is a Python for it.
tutorials: $(VENV)/doc
	$(BIN)/python tutorials/execute.py
	@if test -z "$(INTEROP_PYTHON)"; then \
		echo "6_cellrank_and_moscot.ipynb: left as it is, because CellRank and moscot need Python 3.12 or later"; \
	else \
		$(INTEROP_PYTHON) -m venv $(VENV)-tutorials && \
		$(VENV)-tutorials/bin/python -m pip install --quiet --editable '.[interop]' ipykernel ipywidgets nbclient nbformat && \
		$(VENV)-tutorials/bin/python tutorials/execute.py 6_; \
	fi

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
	rm -rf $(VENV) $(VENV)-* demo build dist docs/_build docs/generated docs/tutorials .mypy_cache .pytest_cache .ruff_cache
