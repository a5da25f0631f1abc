# Everything a person does with this repository. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Tests start hundreds of processes: without bytecode each compiles pudi anew, which takes as long as all its imports.
unexport PYTHONDONTWRITEBYTECODE

# The first interpreter that is new enough and can make an environment, those that Spark 3.5 was made for first;
# `make PYTHON=…` names another one.
PYTHON ?= $(shell try() { "$$1" -c "import ensurepip, sys, venv; sys.exit(not (3, 10) <= sys.version_info < $$2)"; }; \
	for p in python3 python3.12 python3.11 python3.10; do try "$$p" "(3, 14)" >/dev/null 2>&1 && { echo "$$p"; exit; }; done; \
	try python3 "(4,)" >/dev/null 2>&1 && echo python3)

SEEDS ?= 10000
FIRST ?= 0
MUTANTS ?= 300
ENGINE ?= spark
TYPE ?= cow
SPARK4_TESTS ?= tests/spark/test_quick_start.py tests/behaviour/test_sql.py tests/behaviour/test_verbs.py tests/behaviour/test_reading.py tests/spark/test_connect.py tests/spark/test_engine.py tests/spark/test_format.py \
	tests/spark/test_writer.py::test_a_job_with_a_merge_on_read_table tests/behaviour/test_merging_in_little_memory.py::test_spark_lays_over_the_same

# Three test processes, each with a Spark session of its own, keep two cores busy; `make test SPREAD=` runs one.
SPREAD ?= -n 3 --dist worksteal

# Beside bench/run.py, whose results go into docs/benchmarks.md: each prints its own.
BENCHES := soak clustering hfile metadata_listing record_index planning upkeep index_kinds logs merged_scan driver_memory import_time durability small_table first_write idle_services table_services indexed_upsert streaming sql cdc writers early

MAIN := .venv/.made
SPARK4 := .venv-spark4/.made
LOCAL := .venv-local/.made
QUINT := $(if $(shell command -v npm),build/quint/.made)
AZURITE := $(if $(shell command -v npm),.azurite/.made)

.PHONY: help setup test interop fuzz simulate spec bench contention demo golden lint types contracts docs site clean distclean java

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(MAIN) $(SPARK4) $(AZURITE) ## make both environments (Spark 3.5 and Spark 4), and Azurite where there is npm

test: | java ## check and test everything, on both Sparks
	@$(MAKE) --no-print-directory -j2 setup lint types contracts
	.venv-spark4/bin/python -m pytest $(SPREAD) -m "spark and not interop and not slow" $(SPARK4_TESTS)
	.venv/bin/python -m pytest $(SPREAD) -m "not slow" tests

interop: $(MAIN) | java ## take turns with real Apache Hudi, in every combination (long)
	.venv/bin/python -m pytest -m "interop or slow" tests

fuzz: $(MAIN) ## look for new counter-examples with hypothesis (long)
	.venv/bin/python -m pytest --hypothesis-profile fuzz -m "not spark and not slow" tests/unit tests/faults/test_services_machine.py

simulate: $(MAIN) ## search schedules of many processes for anomalies, SEEDS=… of them, then each mutant in MUTANTS=… (long)
	PYTHONPATH=src:tests .venv/bin/python -W ignore -m support.simulated $(SEEDS) --first $(FIRST)
	PYTHONPATH=src:tests .venv/bin/python -W ignore -m support.simulated --mutants $(MUTANTS)

spec: $(MAIN) $(QUINT) ## check the specifications: Quint's random runs, where there is npm, and all states in larger bounds (minutes)
	.venv/bin/python spec/quint.py
	PYTHONPATH=src:tests .venv/bin/python -m pytest -m "slow or not slow" tests/faults/test_specification.py

bench: $(MAIN) $(SPARK4) | java ## measure beside Apache Hudi, delta-rs and delta-spark; ARGS="…" goes to the bench
	.venv/bin/python bench/run.py $(ARGS)
	$(if $(ARGS),,for each in $(BENCHES); do echo "== $$each"; .venv/bin/python bench/$$each.py; done)

contention: $(MAIN) | java ## let processes, one of them Apache Hudi's, write one table by each lock for a minute; ARGS="…" goes to it
	.venv/bin/python bench/contention.py --hudi $(ARGS)

ifeq ($(ENGINE),local)
demo: $(LOCAL)
	.venv-local/bin/python examples/flights/run.py --engine local --type $(TYPE) $(ARGS)
else
demo: $(MAIN) | java ## run the flights pipeline on Spark; ENGINE=local runs it without Java, TYPE=mor on merge-on-read tables
	.venv/bin/python examples/flights/run.py --engine $(ENGINE) --type $(TYPE) $(ARGS)
endif

golden: $(MAIN) | java ## make missing golden tables with real Apache Hudi; NAMES="…" makes those anew (catalog_entries too)
	$(if $(filter catalog_entries,$(NAMES)),.venv/bin/python tests/golden/make_catalog_entries.py)
	$(if $(NAMES:catalog_entries=),.venv/bin/python tests/golden/make.py $(NAMES:catalog_entries=),$(if $(NAMES),,.venv/bin/python tests/golden/make.py))

lint: $(MAIN) site ## check style and format, and that the site builds
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .

types: $(MAIN) ## check types
	.venv/bin/mypy

contracts: $(MAIN) ## check that layers import downwards only
	.venv/bin/lint-imports

docs: $(MAIN) ## write the generated pages of docs/
	.venv/bin/python -c 'from pathlib import Path; from pudi.config import options_page; Path("docs/options.md").write_text(options_page(), encoding="utf-8")'

# Strict: a dead link or anchor, a page that the navigation lacks, or a docstring that doesn't fit its function fails it.
site: $(MAIN) ## build the documentation as a site in build/site; `.venv/bin/mkdocs serve` shows it while you write
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --quiet

clean: ## remove caches and results
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist demo-output spark-warehouse metastore_db derby.log artifacts
	find . -path './.venv*' -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## remove the environments too
	rm -rf .venv .venv-local .venv-spark4 .azurite

# Each environment is made once; a stamp that is older than what it was made of makes it again.
$(MAIN): requirements/base.txt requirements/local.txt requirements/spark35.txt pyproject.toml
	$(call make_environment,.venv,requirements/spark35.txt)

$(SPARK4): requirements/base.txt requirements/spark4.txt pyproject.toml
	$(call make_environment,.venv-spark4,requirements/spark4.txt)

# Tests in Azure's emulator are skipped where it can't be had.
.azurite/.made:
	@echo "installing Azurite, Azure's emulator: a minute, once"
	@mkdir -p .azurite
	@npm install --prefix .azurite --no-audit --no-fund --silent azurite@3.35.0 || echo "no Azurite: its tests will be skipped" >&2
	@touch $@

# Later versions of both fail under Node 20.
build/quint/.made:
	npm install --prefix build/quint --no-audit --no-fund --silent @informalsystems/quint@0.22.4 antlr4ts@0.5.0-alpha.4
	@touch $@

$(LOCAL): requirements/base.txt requirements/local.txt pyproject.toml
	$(call make_environment,.venv-local,requirements/local.txt)

define make_environment
@if [ -z "$(PYTHON)" ]; then \
	echo "pudi needs Python 3.10 or later with venv: install it (Debian, Ubuntu: apt install python3 python3-venv)," >&2; \
	echo "or name one: make PYTHON=/path/to/python3 …" >&2; exit 1; fi
@echo "making $(1) with $$($(PYTHON) --version): a few minutes, once"
@$(PYTHON) -m venv $(1)
@$(1)/bin/python -m pip install --quiet --disable-pip-version-check --use-pep517 -r $(2)
@$(1)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
@touch $(1)/.made
endef

java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	version=$$("$$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1 || true); \
	if [ "$${version:-0}" -lt 17 ]; then \
		echo "Spark needs Java 17 or later, found $${version:-none}: install it (Debian, Ubuntu: apt install openjdk-17-jre-headless)" >&2; \
		echo "or point JAVA_HOME at one. 'make demo ENGINE=local' needs none." >&2; exit 1; fi
