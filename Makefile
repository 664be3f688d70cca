# Two commands do everything: `make demo` and `make test`. Both set up what the machine lacks.
.PHONY: demo test lint bench prove clean setup tools lock
.DEFAULT_GOAL := help

PYTHON := .venv/bin/python

help:
	@echo "make demo   the main job on real parts, from set-up to summary (about 5 minutes)"
	@echo "make test   unit, property, workflow and lab tests (at most 20 minutes)"
	@echo "make lint   ruff, mypy, import-linter"
	@echo "make bench  timings beside a peer;  make prove  repetitions and campaigns"
	@echo "make clean  remove what set-up and runs left in this folder"

setup: .venv/.ready

.venv/.ready: requirements.lock pyproject.toml scripts/setup
	sh scripts/setup

tools: setup
	$(PYTHON) -m guardrail.lab.tools

demo: tools
	$(PYTHON) examples/consul-agents/demo.py

test: tools
	$(PYTHON) -m pytest

lint: setup
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports

bench: tools
	$(PYTHON) -m bench

prove: tools
	$(PYTHON) -m prove

# Pin again after a change of pyproject.toml: no index address may stand in the lock.
lock: setup
	.venv/bin/uv pip compile pyproject.toml --all-extras --generate-hashes --python-version 3.11 \
	  --no-annotate --no-header --no-emit-index-url --no-emit-find-links -o requirements.lock

clean:
	rm -rf .venv .tools .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
