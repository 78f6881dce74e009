# Each target does all its own set-up: a Python environment in .venv, made anew only when
# pyproject.toml has changed. PYTHON=… chooses the interpreter, MODEL=… the model of the demo.

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
STAMP := $(VENV)/.installed
SHELL := /bin/sh

.PHONY: help demo test check slow bench clean

help:
	@echo 'make demo    the whole loop on a scratch directory and database'
	@echo 'make test    the tests, without the slow ones'
	@echo 'make check   format, lint, types, the built wheel, the direction of dependencies'
	@echo 'make slow    the slow tests: kill, fuzz and soak loops'
	@echo 'make bench   the benchmarks, each against its limit or a peer'
	@echo 'make clean   remove what these made'

# Where no engine is named (LWM_ENGINE, or the config file), the demo gets the tests' small model.
demo: $(STAMP)
	@if [ -z "$(MODEL)" ] && $(PY) -c \
	  'import sys; from lwm_agents.config import load_config; sys.exit(not load_config(".").engine)'; \
	then $(BIN)/lwm demo; \
	else model="$(MODEL)"; \
	  [ -n "$$model" ] || model=$$($(PY) tests/fetch_model.py) || exit 1; \
	  $(BIN)/lwm demo --engine "$$model"; fi

test: $(STAMP)
	$(PY) -m pytest -m "not slow"

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy -p lwm_agents
	$(BIN)/mypy tests bench
	$(PY) -m pytest -q tests/test_package.py

slow: $(STAMP)
	$(PY) -m pytest -m slow

bench: $(STAMP)
	@for script in bench/*.py; do echo "== $$script"; $(PY) "$$script" || exit 1; done

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# pip 25.1 is the first that installs dependency groups.
$(STAMP): pyproject.toml
	@python=; \
	for one in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11 python; do \
	  if "$$one" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    python=$$one; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo 'Python 3.11 or newer is needed, and none was found. On Debian and Ubuntu:' >&2; \
	  echo '    apt-get install -y python3 python3-venv' >&2; exit 1; fi; \
	if ! "$$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then \
	  echo "$$python has no venv module. On Debian and Ubuntu:" >&2; \
	  echo '    apt-get install -y python3-venv' >&2; exit 1; fi; \
	$(PY) -c '' >/dev/null 2>&1 || "$$python" -m venv --clear $(VENV)
	$(PY) -m pip install --quiet --upgrade 'pip>=25.1'
	$(PY) -m pip install --quiet --editable . --group dev
	@touch $(STAMP)
