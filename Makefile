# Every target makes what it needs: all it takes is make, Python 3.11 or newer and access to a package registry.
PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
BIN := $(VENV)/bin
# The tests run on all cores already; threads inside linear algebra would only get in their way.
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: quick test test-slow lint bench bench-engine mutants docs reproduce clean

# What to run all day: one case of every test that is not slow.
quick: $(VENV)/.installed-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pytest -n $(WORKERS) -q -m "not slow" --thin 1 tests

# What the README promises: everything that is not slow, kernels also in their Python form.
test: lint
	$(BIN)/pytest -n $(WORKERS) -m "not slow" --durations=10
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -n $(WORKERS) -q -m "kernels and not slow" tests

# The rest: statistics, scale, interrupted runs, the browser.
test-slow: $(VENV)/.installed-test
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
		echo "No Chromium with chromedriver here: the tests of the interactive page are left out."
	$(BIN)/pytest -n $(WORKERS) -m slow --durations=10
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -n $(WORKERS) -q -m "kernels and slow" tests

lint: $(VENV)/.installed-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

bench: $(VENV)/.installed-test bench-engine
	$(BIN)/python -m benchmarks.solve
	$(BIN)/python -m benchmarks.solve_choice
	$(BIN)/python -m benchmarks.zoo
	$(BIN)/python -m benchmarks.evaluation

bench-engine: $(VENV)/.installed-test
	$(BIN)/python -m benchmarks.engine

mutants: $(VENV)/.installed-test
	$(BIN)/python -m tools.mutants

docs: $(VENV)/.installed-docs
	$(BIN)/sphinx-build -W --keep-going -q docs docs/_build
	@echo "Open docs/_build/index.html"

reproduce: $(VENV)/.installed-reproduce
	$(BIN)/gainbias reproduce --resume --output results/reproduction

clean:
	rm -rf $(VENV) docs/_build docs/_generated docs/algorithms docs/tasks build src/*.egg-info

$(VENV)/.made: constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed-test: $(VENV)/.made pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[solvers,gym,mo,data,report,cluster,test]'
	@touch $@

$(VENV)/.installed-reproduce: $(VENV)/.made pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[solvers,gym,mo,data,report,cluster]'
	@touch $@

$(VENV)/.installed-docs: $(VENV)/.made pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[solvers,gym,mo,data,report,cluster,docs]'
	@touch $@
