# make demo    train on a real data set and write figures and a table to demo_output/
# make test    everything that has to pass before a change is accepted
# make lint    style, formatting and layering only
# make fuzz    ten thousand bad inputs, fresh ones at each run: some twenty minutes
# make docs    the documentation, in docs/_build/html
# make clean   remove all that these targets made
#
# Each target first makes the environment it needs in $(VENV), and makes it anew only when
# the requirements change. Nothing but make and Python >= 3.11 is expected on the machine.

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2

BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt
REQUIREMENTS := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test lint fuzz docs clean

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

# torch by itself and first: it is by far the largest download, and a failure there should
# not hide behind those of the others.
$(VENV)/base.stamp: $(REQUIREMENTS)
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) $$(grep '^torch==' constraints.txt)
	$(INSTALL) -e .
	touch $@

$(VENV)/test.stamp $(VENV)/docs.stamp: $(VENV)/%.stamp: $(VENV)/base.stamp
	$(INSTALL) -e '.[$*]'
	touch $@

demo: $(VENV)/base.stamp
	$(BIN)/python examples/japanese_vowels.py --output demo_output

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

test: lint
	$(BIN)/python -m pytest -q -n $(WORKERS) --doctest-modules skpolyode tests

fuzz: $(VENV)/test.stamp
	FUZZ_EXAMPLES=400 $(BIN)/python -m pytest -q -n $(WORKERS) tests/robustness

docs: $(VENV)/docs.stamp
	rm -rf docs/generated
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html

clean:
	rm -rf $(VENV) build dist *.egg-info docs/_build docs/generated demo_output
	rm -rf .pytest_cache .ruff_cache .import_linter_cache .grimp_cache .hypothesis
	find skpolyode tests -name __pycache__ -type d -prune -exec rm -rf {} +
