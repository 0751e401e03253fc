# `make demo` and `make test` need only Python 3.11 or later and make; everything else they set up themselves.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin

.PHONY: demo test lint bench chaos fuzz mutation coverage soak setup results clean

demo: $(VENV)/.ready
	$(RUN)/python examples/demo.py

test: $(VENV)/.ready lint
	$(RUN)/python -m pytest -n 2 --dist worksteal tests

lint: $(VENV)/.ready
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/basedpyright
	$(RUN)/lint-imports

bench: $(VENV)/.all-extras
	$(RUN)/python benchmarks/speed.py

# Faults done to real trainings, in at most 40 minutes, and hostile files.
chaos: $(VENV)/.ready fuzz
	$(RUN)/python benchmarks/chaos.py
	$(RUN)/python benchmarks/reliability.py

# Damaged and hostile files for everything that reads a file; about five minutes.
fuzz: $(VENV)/.ready
	$(RUN)/python benchmarks/fuzz.py

# Is every small change of the maths noticed by a test? About half an hour.
mutation: $(VENV)/.ready
	$(RUN)/python benchmarks/mutation.py

# The whole test suite, with the lines and branches that it runs counted.
coverage: $(VENV)/.ready
	$(RUN)/python benchmarks/coverage_of_tests.py

# An hour of training at full speed with its memory watched.
soak: $(VENV)/.ready
	$(RUN)/python benchmarks/soak.py
	$(RUN)/python benchmarks/reliability.py

setup: $(VENV)/.all-extras

# The set-up is done once per change of pyproject.toml.
$(VENV)/.ready: pyproject.toml
	test -x $(RUN)/python || $(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,tensorboard,robotics,onnx,explore,minari]'
	touch $@

$(VENV)/.all-extras: $(VENV)/.ready
	$(RUN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,tensorboard,robotics,onnx,explore,minari,peers]'
	touch $@

# Trains every preset with every seed and writes results/; hours on two cores.
results: $(VENV)/.ready
	$(RUN)/python benchmarks/results.py

clean:
	rm -rf $(VENV) runs .pytest_cache .ruff_cache .hypothesis
