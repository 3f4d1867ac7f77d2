# Two commands for a newcomer: `make demo` and `make test`. Both set up .venv first; a second call finds it done.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
EXTRAS ?= test
PRESET ?= flows/presets/digits.yaml
TENSORFLOW := $(shell sed -n 's/^tensorflow==\([^ ]*\).*/\1/p' requirements.lock)

# Two files at a time, and three of those that wait for servers and for what is late or silent.
PYTEST := $(BIN)/python -m pytest --dist=loadfile --no-loadscope-reorder

# NAME, COMMAND: run it, and say what it took.
timed = @begun=$$(date +%s); $(2); code=$$?; echo "$(1): $$(($$(date +%s) - begun)) s"; exit $$code

.PHONY: demo test test-slow check lint types contracts lock wheel docs setup horovod clean distclean

demo: setup
	$(BIN)/millrace run pipeline $(PRESET)

test: check
	$(call timed,tests,$(PYTEST) --numprocesses=2 -m "not slow")

test-slow: setup
	$(call timed,slow tests,$(PYTEST) --numprocesses=3 -m slow)

check: setup
	$(call timed,lint,$(BIN)/ruff check . && $(BIN)/ruff format --check .)
	$(call timed,types,$(BIN)/mypy)
	$(call timed,import contracts,$(BIN)/lint-imports)

docs: setup
	$(BIN)/python -m tasks.config.reference > docs/reference.md

setup: $(VENV)/.ready-$(EXTRAS)

# uv comes out of the lock by pip's own hash check; everything else by uv, held to the same lock and its hashes.
$(VENV)/.ready-$(EXTRAS): pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	sed -n '/^uv==/,/[^\\]$$/p' requirements.lock > $(VENV)/uv.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(VENV)/uv.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --constraints requirements.lock hatchling editables setuptools wheel
	$(BIN)/uv pip install --python $(BIN)/python --constraints requirements.lock --compile-bytecode \
		--no-build-isolation --editable '.[$(EXTRAS)]'
	touch $@

# Horovod, from source, in two minutes; it links the TensorFlow that is installed, so another version builds it again.
HOROVOD_READY := $(VENV)/.ready-horovod-$(TENSORFLOW)$(addprefix -,$(HOROVOD_GPU_OPERATIONS))
horovod: $(HOROVOD_READY)

# One at a time: tests of several processes ask for it.
$(HOROVOD_READY): $(addprefix infra/horovod/,build.sh requirements.txt tensorflow-2.21.patch) | setup
	flock $(VENV)/.horovod.lock sh -ec '[ -e $@ ] && [ -z "$$(find $^ -newer $@)" ] && exit; \
		rm -f $(VENV)/.ready-horovod-*; infra/horovod/build.sh $(VENV); touch $@'

# Hashes, no hosts. Needs the package registry; commit the result. The second file has the same versions for pip, which
# takes no project beside hashes; it is in the wheel as well.
lock: setup
	$(BIN)/uv pip compile pyproject.toml --all-extras --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-annotate --no-header --quiet --output-file requirements.lock
	sed -n 's/^\([a-z0-9][^ ]*==[^\]*[^ \]\) *\\$$/\1/p' requirements.lock > infra/constraints.txt

# For users without this repository: the wheel, and beside it the versions that it was tested with.
wheel: setup
	rm -rf dist
	$(BIN)/python -m hatchling build --target wheel --directory dist
	cp infra/constraints.txt dist/

# What `make setup` makes again. Runs, models and history in .millrace stay.
clean:
	rm -rf $(VENV)

distclean: clean
	@if [ -e .millrace ]; then printf 'Delete .millrace, with all runs, artifacts and released models? [y/N] '; \
		read answer; [ "$$answer" = y ] && rm -rf .millrace; fi
