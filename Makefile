# `make` alone prints this help. Two commands do everything: `make demo` and `make test`.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
# How many examples hypothesis tries: see tests/conftest.py.
EXAMPLES ?= few

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all test-first test-second check check-code check-unit check-rest bench load faults faults-page cluster-demo generate docs clean

help: ## Print this help
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

setup: $(STAMP) ## Set up .venv with pinned packages, jars and our Java

$(STAMP): requirements/runtime.txt requirements/dev.txt pyproject.toml src/bailiwick/engines/jars.toml $(wildcard guard/src/io/bailiwick/*.java)
	@.ci/setup $(PYTHON) $(VENV)
	@touch $@

demo: setup ## Start a gateway with a small lake, run queries, keep serving until Ctrl-C
	@$(BIN)/bailiwick demo

test: export SELECTION := -m "not full"
test: setup check ## Everything a release needs
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=line test-first test-second

test-all: export EXAMPLES := many
test-all: setup check ## The same with the whole corpora instead of a seeded selection
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=line test-first test-second

# In two halves at once: each waits much of its time, and each starts engines and gateways of its own.
SECOND_HALF := tests/contracts tests/faults tests/protocol

test-first:
	@$(BIN)/pytest $(SELECTION) tests --ignore tests/unit $(addprefix --ignore ,$(SECOND_HALF))

test-second:
	@$(BIN)/pytest $(SELECTION) $(SECOND_HALF)

check: setup ## Format, lint, types, layers, tidy, unit tests: under a minute, before each commit
	@$(MAKE) --no-print-directory --jobs 3 --output-sync=target check-unit check-code check-rest

check-code:
	@$(BIN)/ruff format --check --quiet src tests benchmarks examples
	@$(BIN)/ruff check --quiet src tests benchmarks examples
	@$(BIN)/mypy src/bailiwick tests benchmarks
	@$(BIN)/lint-imports --no-cache | tail -n 2
	@$(BIN)/python -m bailiwick.cli.reference --check

# The unit tests in two halves, so that two cores are kept busy to the end.
FIRST_HALF := tests/unit/test_[a-q]*.py

check-unit:
	@$(BIN)/pytest -q --hypothesis-profile=$(EXAMPLES) $(FIRST_HALF)

check-rest:
	@$(BIN)/pytest -q --hypothesis-profile=$(EXAMPLES) --ignore-glob='$(FIRST_HALF)' tests/unit tests/test_tidy.py tests/test_docs.py

bench: setup ## Ratios against the stock PySpark client on the same engine
	@$(BIN)/python -m benchmarks

load: setup ## N clients at once (N=50 MIX=light|heavy|mixed, URL=grpc://… for a running gateway), every answer checked
	@$(BIN)/python -m bailiwick.testing.load --clients $(or $(N),50) --mix $(or $(MIX),mixed) --idle $(or $(IDLE),0) $(if $(URL),--url $(URL))

faults: setup ## Everything that breaks processes on purpose, the whole matrix of faults and phases included
	@$(BIN)/pytest tests/faults

faults-page: setup ## Write docs/reference/faults.md from what `make faults` found
	@PYTHONPATH=tests $(BIN)/python -m faults.matrix.page

cluster-demo: setup ## A Spark standalone cluster with two workers, an engine on it that joins a gateway, and what ran where
	@$(BIN)/python examples/cluster_demo.py

generate: setup ## Write the protobuf modules anew
	@$(BIN)/python -m bailiwick.testing.generate

docs: setup ## Write the generated reference pages anew
	@$(BIN)/python -m bailiwick.cli.reference

clean: ## Remove what set-up and tests made
	rm -rf $(VENV) build .mypy_cache .ruff_cache .hypothesis
