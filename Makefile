# Whimbrel. `make demo` and `make test` set themselves up from nothing but Python 3.11+.

PYTHON ?= python3
JOBS ?= 2
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: help demo local native test test-fast test-vllm lint types imports wheel bench bench-repair bench-projects bench-scale bench-tui docs clean

help:
	@echo "make demo    repair the example project and show the evidence"
	@echo "make test    run the test suite"
	@echo "make local   optional: the tiny language model that ranks repairs (needs cmake, ninja, g++; minutes, once)"
	@echo "make native  build the kernels of the native engine again after a change of their C++ (needs a C++ compiler)"
	@echo "make lint    ruff and import contracts;  make types  pyright"
	@echo "make bench   benchmarks;  make docs  regenerate generated pages;  make clean"
	@echo "make bench-repair   repair by search on tests/repair_corpus (ARGS='--sample 20', '--locked', ...)"
	@echo "make bench-tui   the terminal interface: first paint, streaming, ticks, memory (ARGS='--rivals FOLDER')"
	@echo "make bench-projects   five projects of the package index;  make bench-scale   100,000 lines, 5,000 tests"

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Whimbrel needs Python 3.11 or newer; say which: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "python3 -m venv failed; on Debian: apt-get install python3-venv"; rm -rf $(VENV); exit 1; }

$(VENV)/.core: pyproject.toml | $(VENV)/bin/python
	@echo "Setting up $(VENV) (once)..."
	@WHIMBREL_SKIP_KERNELS=1 $(PIP) install -e .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	@echo "Setting up $(VENV) with the development tools (once)..."
	@$(PIP) install -e '.[dev]'
	@touch $@ $(VENV)/.core

demo: $(VENV)/.core
	@$(BIN)/python examples/demo.py

local: $(VENV)/.core
	@$(BIN)/python -m whimbrel.app.repair.language.install

native: $(VENV)/.core
	@$(BIN)/python -m whimbrel.kernels.native.build

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(ARGS)

test-fast: $(VENV)/.dev
	$(BIN)/python -m pytest -m "not slow and not docker and not vllm" $(ARGS)

# Opt-in: a real vLLM on this machine's processor; docs/real-servers.md says how to make the interpreter.
test-vllm: $(VENV)/.dev
	@test -n "$$WHIMBREL_VLLM_PYTHON" || \
	  { echo "WHIMBREL_VLLM_PYTHON must name an interpreter that has vLLM (docs/real-servers.md)"; exit 2; }
	$(BIN)/python -m pytest -m vllm tests/fix/test_real_vllm.py $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(MAKE) --no-print-directory imports

# import-linter finds packages by walking folders; the mapping of pyproject is laid out for it with links.
imports: $(VENV)/.dev
	@rm -rf build/layout && mkdir -p build/layout/whimbrel && cp app/_package/__init__.py build/layout/whimbrel/
	@for part in app engine kernels sandbox; do ln -s ../../../$$part build/layout/whimbrel/$$part; done
	PYTHONPATH=build/layout $(BIN)/lint-imports

types: $(VENV)/.dev
	$(BIN)/pyright

wheel: $(VENV)/.dev
	$(BIN)/python tests/house/check_wheel.py

bench: $(VENV)/.dev
	@for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

bench-repair: $(VENV)/.dev
	@mkdir -p build
	@$(BIN)/python benchmarks/repair_corpus.py --out build/repair-corpus.json $(ARGS)

bench-projects: $(VENV)/.dev
	$(BIN)/python benchmarks/real_projects.py --page docs/real-projects.md $(ARGS)

bench-scale: $(VENV)/.dev
	$(BIN)/python benchmarks/repair_scale.py --page docs/scale.md $(ARGS)

bench-tui: $(VENV)/.dev
	$(BIN)/python benchmarks/tui.py $(ARGS)

docs: $(VENV)/.dev
	$(BIN)/python docs/generate.py

clean:
	rm -rf $(VENV) build dist demo-output .pytest_cache .ruff_cache .import_linter_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
