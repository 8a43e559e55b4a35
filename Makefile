# make demo         buoys, glucose and a loss (storms), figures and tables in demo_output/: a minute
# make test         everything that has to pass before a change is accepted
# make test-slow    the tests that take longest, to be run before a release: some ten minutes
# make test-oldest  most tests with the oldest versions of everything that is needed
# make lint         style, formatting and layering only
# make fuzz         ten thousand bad inputs, fresh ones at each run: some twenty minutes
# make docs         the documentation, in docs/_build/html, and a check of its pages
# make docs-outputs what the code of README and guides prints and draws, written into the pages
# make docs-pictures pictures of the gallery, into the pages; run it with `make docs`
# make docs-tables  tables of measurements, into the pages; QUICK=1: does every command work?
# make peers        packages of others in .venv-peers (2 GB), for the tables of docs/benchmarks.md
# make package      wheel and source archive in dist/, each installed and tried in an empty place
# make release-check  `package` and `test-oldest`, what the archives hold, and their types
# make clean        remove all that these targets made
#
# Each target first makes the environment it needs in $(VENV), and makes it anew only when
# the requirements change. Nothing but make and Python >= 3.11 is expected on the machine.

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2

BIN := $(VENV)/bin
# Not compiled: that takes a minute and more on one core, and most of it is never imported.
INSTALL := $(BIN)/python -m pip install -q --disable-pip-version-check --no-compile \
	-c constraints.txt
REQUIREMENTS := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-oldest lint fuzz docs docs-outputs docs-pictures docs-tables peers package release-check clean

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
	$(BIN)/python examples/drifting_buoys.py --output demo_output
	$(BIN)/python examples/glucose_under_meals.py --output demo_output
	$(BIN)/python examples/gaps_of_storms.py --output demo_output

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

# Each worker runs tests that follow each other, so that what they share is made once, until it has
# none left and takes some of another's. Bytecode is kept: many tests start interpreters, each of
# which would compile the package again.
PYTEST = PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal

test: lint
	$(PYTEST) -m 'not slow' --doctest-modules skpolyode tests

test-slow: $(VENV)/test.stamp
	$(PYTEST) -m slow tests

# Its own environment: one cannot hold the oldest and the newest versions. OLDEST_TORCH may name
# another build, since that of 2.6 for Linux takes five gigabytes.
OLDEST := $(VENV)/oldest
OLDEST_TORCH ?= $$(grep '^torch==' constraints-oldest.txt)
OLDEST_TESTS ?= $(addprefix tests/,panel memory dynamics models training saving forecasting \
	adapters heads embedders streams transformers plotting datasets parquet)

$(VENV)/oldest.stamp: pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv --clear $(OLDEST)
	grep -v '^torch==' constraints-oldest.txt > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/pip install -q --disable-pip-version-check $(OLDEST_TORCH)
	$(OLDEST)/bin/pip install -q --disable-pip-version-check \
		-c $(OLDEST)/constraints.txt -e '.[test]'
	touch $@

test-oldest: $(VENV)/oldest.stamp
	$(OLDEST)/bin/python -m pytest -q -n $(WORKERS) -m 'not slow' $(OLDEST_TESTS)

fuzz: $(VENV)/test.stamp
	FUZZ_EXAMPLES=400 $(BIN)/python -m pytest -q -n $(WORKERS) tests/robustness

docs: $(VENV)/docs.stamp
	rm -rf docs/generated docs/gallery docs/_build
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	$(BIN)/python -m pytest -q -c /dev/null -p no:cacheprovider docs/test_pages.py

docs-outputs: $(VENV)/test.stamp
	PYTHONPATH=. $(BIN)/python docs/outputs.py --write
	PYTHONPATH=. $(BIN)/python docs/transformer_matrix.py
	$(BIN)/python docs/diagrams.py
	$(BIN)/python examples/glucose_under_meals.py --output demo_output
	cp demo_output/glucose.png docs/_static/glucose_under_meals.png

docs-pictures: docs
	$(BIN)/python docs/pictures.py

docs-tables: $(VENV)/test.stamp
	PYTHONPATH=. $(BIN)/python docs/table_commands.py $(if $(QUICK),--quick) $(if $(DATA),--data $(DATA))
	PYTHONPATH=. $(BIN)/python docs/benchmark_summary.py
	PYTHONPATH=. $(BIN)/python docs/paper_summary.py

# Its own environment: peers need an older pandas than the project is tested with.
PEERS ?= .venv-peers
PEERS_LIST := benchmarks/peers_code/requirements.txt

$(PEERS)/peers.stamp: pyproject.toml $(PEERS_LIST)
	$(PYTHON) -m venv --clear $(PEERS)
	$(PEERS)/bin/pip install -q --disable-pip-version-check $$(grep '^torch==' constraints.txt)
	$(PEERS)/bin/pip install -q --disable-pip-version-check -e '.[bench]' -r $(PEERS_LIST)
	touch $@

peers: $(PEERS)/peers.stamp
	@echo "$(PEERS)/bin/python -m benchmarks.peers_code.NAME --help; see docs/benchmarks.md"

# Installed twice, from each archive, where nothing else is.
EMPTY := $(VENV)/empty
package: $(VENV)/base.stamp
	rm -rf build dist
	$(INSTALL) build
	$(BIN)/python -m build -q
	$(PYTHON) -m venv --clear $(EMPTY)
	$(EMPTY)/bin/pip install -q --disable-pip-version-check $$(grep '^torch==' constraints.txt)
	for archive in dist/*.whl dist/*.tar.gz; do \
		$(EMPTY)/bin/pip uninstall -q -y skpolyode; \
		$(EMPTY)/bin/pip install -q --disable-pip-version-check -c constraints.txt $$archive && \
		$(EMPTY)/bin/python -P -W error tests/smoke.py || exit 1; \
	done

# What `package` leaves is tried further: what the archives hold, types as seen from outside, and
# the wheel with the oldest versions, in front of the source that $(OLDEST) has for its tests.
release-check: package test-oldest
	$(BIN)/python tests/release.py dist
	$(EMPTY)/bin/pip install -q --disable-pip-version-check -c constraints.txt mypy
	cd $(EMPTY) && bin/mypy --strict $(CURDIR)/tests/typed_use.py
	rm -rf $(OLDEST)/wheel
	$(OLDEST)/bin/pip install -q --disable-pip-version-check --no-deps \
		--target $(OLDEST)/wheel dist/*.whl
	PYTHONPATH=$(OLDEST)/wheel $(OLDEST)/bin/python -P -W error tests/smoke.py

clean:
	rm -rf $(VENV) $(PEERS) build dist *.egg-info docs/_build docs/generated docs/gallery demo_output docs_tables
	rm -rf .pytest_cache .ruff_cache .import_linter_cache .grimp_cache .hypothesis
	find skpolyode tests -name __pycache__ -type d -prune -exec rm -rf {} +
