# Two commands do everything: `make demo` and `make test`. Both set up what the machine lacks.
.PHONY: help demo test lint bench prove clean setup tools lock
.DEFAULT_GOAL := help
.NOTPARALLEL:

PYTHON := .venv/bin/python
UV := build/uv/bin/uv

# What the caller's shell says about another Python must not reach ours; without asserts
# (PYTHONOPTIMIZE) no test could fail.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONOPTIMIZE PYTHONWARNINGS
unexport PYTHONSAFEPATH PYTHONPLATLIBDIR PYTHONUSERBASE PYTHONNOUSERSITE PYTHONDEVMODE
unexport PYTEST_ADDOPTS PYTEST_PLUGINS MYPYPATH

help:
	@echo "make demo   the main job on real parts, from set-up to summary (about 5 minutes)"
	@echo "make test   unit, property, workflow and lab tests (at most 20 minutes)"
	@echo "make lint   ruff, mypy, import-linter; every test can be collected"
	@echo "make bench  timings beside a peer;  make prove  repetitions and campaigns"
	@echo "make lock   pin again after a change of pyproject.toml"
	@echo "make clean  remove what set-up and runs left in this folder"

setup: .venv/.ready

# The environment knows its place: a checkout that was moved, or whose Python went, is set up anew.
PLACE := $(shell test -x $(PYTHON) && cat .venv/.ready 2>/dev/null)
ifneq "$(PLACE)" "$(CURDIR)"
.PHONY: .venv/.ready
endif

.venv/.ready: requirements.lock pyproject.toml scripts/setup
	@sh scripts/setup

tools: setup
	@$(PYTHON) -m guardrail.lab.tools

demo: tools
	@$(PYTHON) examples/consul-agents/demo.py

test: tools
	sh scripts/test

lint: setup
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	@mkdir -p build
	$(PYTHON) -m pytest --collect-only -qq >build/collected.log || { cat build/collected.log; exit 1; }

bench: tools .venv-bench/.ready
	$(PYTHON) -m bench

# What guardrail is measured against has an environment of its own, with its own pins.
.venv-bench/.ready: bench/requirements.txt .venv/.ready
	$(PYTHON) -m venv --clear --without-pip .venv-bench
	$(PYTHON) -m pip --python .venv-bench/bin/python install --quiet \
	  --disable-pip-version-check --require-hashes -r bench/requirements.txt
	@touch $@

prove: tools
	$(PYTHON) -m pytest -q -m 'not lab and not temporal and not real' --hypothesis-profile=anew
	$(PYTHON) -m prove

# No index address may stand in the lock. The environment does not hold uv: the lock is its own.
lock: setup
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --upgrade --require-hashes \
	  --target build/uv -r scripts/requirements-lock.txt
	$(UV) pip compile --quiet pyproject.toml --all-extras --generate-hashes --python-version 3.11 \
	  --no-annotate --no-header --no-emit-index-url --no-emit-find-links -o requirements.lock

clean:
	rm -rf .venv .venv-bench .tools .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
