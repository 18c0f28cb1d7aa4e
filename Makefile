# Headstream: every target sets up what it needs, and is quick when nothing changed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
KERNELS := $(shell find src/headstream/core/codec src/headstream/replicate/codec -name '*.py') $(shell find src/headstream -name '*.pxd' -o -name '*.h') \
	$(addprefix src/headstream/,core/wire/frame_scan.py log/segments/read_ahead.py log/partition/partition_end.py) $(wildcard src/headstream/server/iggy/fast_path/*.py)
TESTED := tests/unit tests/property tests/vectors

.DEFAULT_GOAL := help
.PHONY: help setup lock jars demo test unit nightly soak suite-times check vectors docs release console pictures format bench clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

# Every file is checked against requirements.lock. What builds the one package that has no wheel is installed first.
PIP_INSTALL := $(BIN)/python -m pip install -q --disable-pip-version-check --no-deps
TOOLS := setuptools|wheel|packaging|Cython
# headstream[spark] with what it depends on: the demo waits for these alone.
DEMO := arro3-core|click|deltalake|Deprecated|markdown-it-py|mdurl|numpy|pandas|prometheus_client|py4j|pyarrow|Pygments|pyspark|python-dateutil|pytz|rich|six|typing_extensions|tzdata|wrapt|xxhash
# The steps below run side by side; each one that ended is not repeated by the next `make`, also after a Ctrl-C.
STEPS := @$(MAKE) --silent --no-print-directory --jobs=4

setup: ## set up the environment in .venv
	$(STEPS) $(VENV)/.checked

$(VENV)/.tools: pyproject.toml setup.py requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Headstream needs Python 3.11 or newer; $(PYTHON) is older. Install one and run: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv --clear $(VENV)
	@echo "setting up $(VENV) (once): Python packages, and compiled kernels beside them"
	@awk '/^[^ ]/ { is_wanted = /^($(TOOLS))==/ } is_wanted' requirements.lock >$(VENV)/tools.lock
	@awk '/^[^ ]/ { is_wanted = /^($(DEMO))==/ } is_wanted' requirements.lock >$(VENV)/demo.lock
	@awk '/^[^ ]/ { is_wanted = !/^($(TOOLS)|$(DEMO))==/ } is_wanted' requirements.lock >$(VENV)/others.lock
	@$(PIP_INSTALL) --require-hashes -r $(VENV)/tools.lock
	@touch $@

$(VENV)/.demo-packages: $(VENV)/.tools
	@$(PIP_INSTALL) --require-hashes --no-build-isolation -r $(VENV)/demo.lock
	@touch $@

$(VENV)/.packages: $(VENV)/.tools
	@$(PIP_INSTALL) --require-hashes --no-build-isolation -r $(VENV)/others.lock
	@touch $@

# It compiles nothing: pip would do so in a directory that it deletes.
$(VENV)/.installed: $(VENV)/.tools
	@HEADSTREAM_INTERPRETED=1 $(PIP_INSTALL) --no-build-isolation -e .
	@touch $@

# It takes longest: with a lower priority, the packages are there sooner, and the jars are fetched beside it.
$(VENV)/.compiled: $(VENV)/.tools $(KERNELS)
	@echo "compiling the kernels (without a C compiler they run interpreted)"
	@nice $(BIN)/python setup.py -q build_ext --inplace >$(VENV)/build.log 2>&1 || { tail -20 $(VENV)/build.log; exit 1; }
	@touch $@

$(VENV)/.jars: $(VENV)/.demo-packages
	@HEADSTREAM_INTERPRETED=1 PYTHONPATH=src $(BIN)/python -c 'from headstream.cli.main import main; main()' jars >/dev/null
	@touch $@

$(VENV)/.ready: $(VENV)/.compiled $(VENV)/.installed $(VENV)/.demo-packages
	@$(BIN)/python -m compileall -q src # a process starts in three quarters of the time, also where Python may not write these itself
	@$(BIN)/headstream --version
	@touch $@

$(VENV)/.checked: $(VENV)/.ready $(VENV)/.packages
	@$(BIN)/python -m pip check --disable-pip-version-check >$(VENV)/check.log || cat $(VENV)/check.log
	@touch $@

lock: setup ## choose the newest versions that pyproject.toml allows, and pin them with their digests
	@$(BIN)/python tools/lock_requirements.py

jars: setup ## fetch the JVM's jars (once)
	@$(BIN)/headstream jars

demo: ## the whole story on this machine, in a minute: messages -> log -> Spark -> Delta tables
	$(STEPS) $(VENV)/.ready $(VENV)/.jars
	@$(BIN)/headstream demo

test: setup ## the first tier, before every commit; the parts that need Java are left out, and named, where there is none
	@tools/run_tests.sh

unit: setup ## the quick tests alone: no Java
	@$(BIN)/python tools/run_test_parts.py $(TESTED)

NIGHT = $(shell echo $$(($$(date +%s) / 86400)))

nightly: setup ## both tiers, with the stores' servers, and a seventh of the campaigns, another one each night: hours
	@tools/install_nightly_tools.sh
	@tools/run_tests.sh "" --night $(NIGHT)

soak: setup ## all long campaigns of kills, faults and fuzz: a day
	@tools/install_nightly_tools.sh
	@tools/run_tests.sh soak

suite-times: ## what the last run of the tests took: the total, and the 40 costliest tests
	@$(BIN)/python tools/suite_budget.py table

check: setup ## format, lint, types, layers, sizes, prose
	@$(BIN)/ruff format --check --quiet . || { echo "make format mends this"; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python tools/check_sizes.py
	@$(BIN)/python tools/check_docstrings.py
	@$(BIN)/python tools/check_prose.py

vectors: setup ## write vectors/*.json, the bytes of every dialect for other implementers
	@$(BIN)/python tools/make_vectors.py

docs: setup ## write docs/api.md from the docstrings, and the documentation site to site/
	@$(BIN)/python tools/make_api_reference.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build
	@echo "site/ is written; to read it with its search: $(BIN)/python -m http.server -d site"

release: setup ## build the files of a release into dist/; see CONTRIBUTING.md
	@$(BIN)/python tools/release.py build
	@$(BIN)/python tools/release.py check

console: ## build the browser console into the package (needs Node 20 and npm)
	@cd console && npm ci --no-audit --no-fund --loglevel=error && npm run --silent build

pictures: setup ## draw the pictures of the console anew, for its tests and the documentation (needs Chromium)
	@HEADSTREAM_RENEW_PICTURES=1 $(BIN)/python -m pytest -q -n 0 --timeout=0 tests/behaviour/console/test_console_pictures.py

format: setup ## mend what ruff can mend
	@$(BIN)/ruff check --fix --quiet .; $(BIN)/ruff format --quiet .

bench: setup ## measure side by side; results are written to bench/results
	@tools/run_benchmarks.sh

clean: ## remove what was built, the environment included
	rm -rf $(VENV) build dist src/*.egg-info headstream-demo
	find src -name '*.so' -delete; find src -name __pycache__ -prune -exec rm -r {} +; find src/headstream/core/codec src/headstream/core/wire -name '*.c' -delete
