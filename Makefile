# Two commands do everything on a fresh machine: `make demo` and `make test`.
# Each installs what it needs into .venv first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUT ?= demo-out
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev

# Other Pythons to test on, and what to run of the suite: make test-pythons TESTS=tests/geometry
# (with pyenv: PYENV_VERSION=3.12:3.13 make test-pythons).
PYTHONS ?= python3.12 python3.13
TESTS ?=
# Results to compute again: make results RUNS='bci2a p300'; all by default.
RUNS ?=

.PHONY: help install demo theory test test-slow test-pythons test-wheel coverage lint format results docs bench clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "spdtokens needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)

$(INSTALLED): pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(INSTALLED_DEV): pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@ $(INSTALLED)

install: $(INSTALLED) ## install spdtokens into .venv

demo: $(INSTALLED) ## decode simulated motor imagery, trained on one session, tested on the next; a report
	@mkdir -p $(OUT)
	$(BIN)/spdtokens study run studies/demo.toml --store $(OUT)/demo.sqlite
	$(BIN)/spdtokens study show studies/demo.toml --store $(OUT)/demo.sqlite
	$(BIN)/spdtokens report studies/demo.toml --store $(OUT)/demo.sqlite -o $(OUT)/report.html

theory: $(INSTALLED) ## check the paper's theory numerically and draw it
	$(BIN)/spdtokens theory --out $(OUT)

lint: $(INSTALLED_DEV) ## style, types, docstrings, spelling and prose
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell src docs examples studies README.md CHANGELOG.md CONTRIBUTING.md
	$(BIN)/python docs/_prose.py
	$(BIN)/python docs/_docstrings.py

format: $(INSTALLED_DEV) ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: lint ## lint and tests
	$(BIN)/pytest -n 2 -m "not slow" $(TESTS)

test-slow: $(INSTALLED_DEV) ## heavier checks
	$(BIN)/pytest -m slow $(TESTS)

test-pythons: ## lint and tests on other Pythons that are here, each in an environment of its own
	@for python in $(PYTHONS); do \
	  if ! $$python -c '' 2>/dev/null; then echo "$$python is not here: left out"; continue; fi; \
	  mkdir -p build && $(MAKE) test PYTHON=$$python VENV=build/venv-$$(basename $$python) || exit 1; \
	done

test-wheel: ## what users get: sdist and wheel, installed and used outside the tree
	PYTHON=$(PYTHON) .ci/wheel

coverage: $(INSTALLED_DEV) ## which lines and branches the tests run; build/coverage/index.html
	@rm -rf build/coverage && mkdir -p build/coverage
	COVERAGE_FILE=$(CURDIR)/build/coverage/data COVERAGE_PROCESS_START=$(CURDIR)/pyproject.toml \
	  $(BIN)/pytest -q -n 2 -m "not slow" $(TESTS)
	COVERAGE_FILE=build/coverage/data $(BIN)/coverage combine --quiet build/coverage
	COVERAGE_FILE=build/coverage/data $(BIN)/coverage html --quiet --directory build/coverage
	COVERAGE_FILE=build/coverage/data $(BIN)/coverage report --skip-covered

results: $(INSTALLED_DEV) ## compute the numbers of README and docs and write them there; make results RUNS=bci2a
	$(BIN)/python docs/_results.py run $(RUNS)
	$(BIN)/python docs/_results.py write

docs: $(INSTALLED_DEV) ## the documentation site, build/docs/index.html; any warning fails it
	$(BIN)/sphinx-build -q -W --keep-going -b html docs build/docs

bench: $(INSTALLED_DEV) ## speed against the field's libraries, same run
	for name in embed tokenize train attention latency methods recommended study live threads; do \
	  $(BIN)/spdtokens bench $$name || exit 1; done

clean: ## remove what make made
	rm -rf $(VENV) $(OUT) build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf docs/gallery docs/api/generated docs/sg_execution_times.rst
