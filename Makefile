# Two commands do all: `make run` and `make test`. Both make a virtual environment in .venv first. While working: `make check`.

VENV := .venv
BIN := $(VENV)/bin
# 3.11 first: the versions in requirements.lock are tested with it.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	$$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null && { echo $$python; break; }; done)
# Modules are compiled when they are first imported, and most never are: compiling all takes minutes.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint requirements.lock
SOURCES := pyproject.toml CMakeLists.txt $(shell find src -name '*.cpp' -o -name '*.hpp')

MINUTES ?= 10
ROUNDS ?= 200
LINT := $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadscope

# A few tests measure time or memory, or kill processes, and both cores are full. Up to three that failed are run once more
# alone, under a line that names them; a fourth is no accident.
FAILED := .pytest_cache/v/cache/lastfailed
AGAIN := cat $(FAILED); test $$(grep -c true $(FAILED)) -le 3 && echo "Run again, alone, what failed above:" && \
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --last-failed --last-failed-no-failures none -m "not long"

.PHONY: run test test-all check fuzz kills sanitize lint format bench results defaults clean always

run: $(VENV)/installed  ## train GAMLP on the bundled digits, and show what it learned
	$(BIN)/gamlp run digits
	@echo "Your own tables: $(BIN)/gamlp run --help"

# Types and style beside the tests. No recursive make: `make --dry-run`, which the tests of the pages use, would run it.
test: $(VENV)/developer  ## what CI runs, 20 to 35 minutes on two cores: style and types, and all tests but those marked long
	@( $(LINT) ) > $(VENV)/lint.txt 2>&1 & lint=$$!; \
	$(PYTEST) -m "not long"; tests=$$?; \
	test $$tests != 1 || { $(AGAIN); tests=$$?; }; \
	wait $$lint; lint=$$?; cat $(VENV)/lint.txt; test $$tests = 0 -a $$lint = 0

test-all: $(VENV)/developer lint  ## every test, clusters that lose machines included: before a release
	$(PYTEST)

check: $(VENV)/developer lint  ## without the tests marked slow or long
	$(PYTEST) -m "not slow and not long"

SEED ?= $(shell date +%s)

fuzz: $(VENV)/developer  ## draw new inputs, half of the time for all verbs, half for tests of properties: make fuzz MINUTES=30
	$(BIN)/python -m tests.fuzz --minutes $$(($(MINUTES) / 2)) --seed $(SEED)
	GAMLP_DAMAGES=$$((10 * $(MINUTES))) GAMLP_DAMAGE_SEED=$(SEED) $(BIN)/python -m pytest -q tests/test_damage.py
	@end=$$(($$(date +%s) + 30 * $(MINUTES))); \
	while [ $$(date +%s) -lt $$end ]; do $(PYTEST) -m hypothesis --hypothesis-profile fuzz || exit 1; done

kills: $(VENV)/developer  ## end every verb at moments drawn by chance and run it again; a report in docs/results: make kills ROUNDS=200
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.kills.rounds --rounds $(ROUNDS)

# A kernel of its own under build/sanitize; the runtime of AddressSanitizer must be loaded before Python is. Leaks are not
# looked for: an interpreter never returns all it has.
sanitize: $(VENV)/developer  ## tests of the C++ kernel under AddressSanitizer and UndefinedBehaviorSanitizer
	cmake -S . -B build/sanitize -DCMAKE_BUILD_TYPE=Debug -DGAMLP_SANITIZE=ON -DPython_EXECUTABLE="$(abspath $(BIN)/python)"
	cmake --build build/sanitize --parallel 2
	OMP_NUM_THREADS=1 ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
		LD_PRELOAD="$$(c++ -print-file-name=libasan.so) $$(c++ -print-file-name=libubsan.so)" \
		$(BIN)/python -m tests.sanitized build/sanitize

lint: $(VENV)/developer  ## style, types, import directions
	$(LINT)

format: $(VENV)/developer  ## mend style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/developer  ## speed and memory of propagation and training against their peers
	$(BIN)/python benchmarks/propagation.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/verifying.py
	$(BIN)/python benchmarks/tables.py

results: $(VENV)/developer  ## docs/results/README.md: what the paper says held against all recorded runs (nothing is run)
	$(BIN)/gamlp bench summary --out docs/results

defaults: $(VENV)/developer  ## what `gamlp run` chooses, beside what anybody could do (needs GAMLP_DATA; hours)
	$(BIN)/python benchmarks/defaults.py

clean:  ## remove the virtual environment and everything built
	rm -rf $(VENV) build runs .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "gamlp needs Python 3.11, 3.12 or 3.13 and none was found: install one, or name it with make PYTHON=/path/to/python."; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) has no venv module: install it (on Debian: apt-get install python3-venv)."; exit 1; }
	@command -v c++ >/dev/null || command -v g++ >/dev/null || command -v clang++ >/dev/null || \
		echo "No C++ compiler was found: gamlp will be installed without its kernel and propagate with torch, several times slower."
	$(PYTHON) -m venv $(VENV)

# torch by itself and first: asked for by another package, a larger build of it may be chosen.
$(VENV)/torch: requirements.lock | $(BIN)/python
	$(PIP) torch
	@touch $@

# An editable install finds modules by a list of their files: it is made anew when one has come, gone or moved.
$(VENV)/modules: always | $(BIN)/python
	@find src -name '*.py' | sort > $@.now
	@cmp -s $@.now $@ && rm $@.now || mv $@.now $@

$(VENV)/installed: $(VENV)/torch $(VENV)/modules $(SOURCES)
	$(PIP) --editable .
	@touch $@

# By itself and not after the one above: the kernel is compiled once.
$(VENV)/developer: $(VENV)/torch $(VENV)/modules $(SOURCES)
	$(PIP) --editable ".[dev]"
	@touch $(VENV)/installed $@
