# Two commands do everything on a fresh machine: `make demo` and `make test`.
# Each installs what it needs into .venv first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUT ?= demo-out
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev

.PHONY: help install demo theory test test-slow lint format docs bench clean

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

lint: $(INSTALLED_DEV) ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED_DEV) ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: lint ## lint and tests
	$(BIN)/pytest -n 2 -m "not slow"

test-slow: $(INSTALLED_DEV) ## heavier checks
	$(BIN)/pytest -m slow

docs: $(INSTALLED_DEV) ## the documentation site, build/docs/index.html; any warning fails it
	$(BIN)/sphinx-build -q -W --keep-going -b html docs build/docs

bench: $(INSTALLED_DEV) ## speed against the field's libraries, same run
	$(BIN)/spdtokens bench embed
	$(BIN)/spdtokens bench tokenize
	$(BIN)/spdtokens bench train
	$(BIN)/spdtokens bench latency
	$(BIN)/spdtokens bench methods
	$(BIN)/spdtokens bench study
	$(BIN)/spdtokens bench live
	$(BIN)/spdtokens bench threads

clean: ## remove what make made
	rm -rf $(VENV) $(OUT) build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf docs/gallery docs/api/generated docs/sg_execution_times.rst
