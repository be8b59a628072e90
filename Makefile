# Two commands do everything on a fresh machine with Python 3.11+: `make run` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNNABLE := $(VENV)/.runnable
READY := $(VENV)/.ready

JOBS = $$($(PYTHON) -c "import os; print(os.cpu_count())")
# One process more than cores, since many tests wait for servers; those that share what takes long to start stay in one
# (tests/parallel.py says which).
PYTEST = $(BIN)/pytest --numprocesses $$(($(JOBS) + 1)) --dist loadscope

.PHONY: help run wheel quick test thorough check format proto client bench simulate fingerprints tour chaos mailchaos fuzz containers clean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1 - /'

# What runs needs little; what tests, much more. Both leave the sources where they are.
define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Shadowtree needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Setting up $(VENV) (once, $(2)) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt --editable '$(1)' \
	  > $(VENV)/install.log 2>&1 || { tail -n 20 $(VENV)/install.log; exit 1; }
	@touch $(RUNNABLE)
endef

$(RUNNABLE): pyproject.toml constraints.txt
	$(call install,.,half a minute)

$(READY): pyproject.toml constraints.txt
	$(call install,.[dev],a minute or two)
	@touch $(READY)

run: $(RUNNABLE)  ## load a real nested graph into three name servers and look around (ends by itself)
	@$(BIN)/shadowtree demo

wheel: $(RUNNABLE)  ## a wheel to install elsewhere, in dist/
	$(BIN)/python -m pip wheel --disable-pip-version-check --quiet --no-deps --wheel-dir dist .

QUICK = tests/unit tests/project tests/property tests/conformance tests/simulation/test_scenario*.py
quick: $(READY)  ## what finds most mistakes in under two minutes: units, scenarios, small random histories
	HYPOTHESIS_PROFILE=small $(PYTEST) $(QUICK)

TESTS ?=
test: $(READY)  ## everything that can be tested, without root: less than half an hour on two cores
	@.ci/java
	$(PYTEST) $(TESTS)

thorough: $(READY)  ## random histories again, 1,000 of each kind instead of 40, other ones each time (hours)
	HYPOTHESIS_PROFILE=thorough $(PYTEST) -m hypothesis --timeout 0

check: $(READY)  ## style, types, layers, generated code, documents
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST) tests/project

format: $(READY)  ## put the code into its one format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

proto: $(READY)  ## generate shadowtree/v1 from proto/shadowtree/v1
	$(BIN)/python -m grpc_tools.protoc -I proto --python_out=. --pyi_out=. --grpc_python_out=. proto/shadowtree/v1/*.proto

client: $(READY)  ## generate the synchronous client from the asynchronous one
	$(BIN)/python -m tests.project.synchronous_client

bench: $(READY)  ## what the README claims about speed, measured here (more than half an hour)
	$(BIN)/python -m benchmarks

SEEDS ?= 2000
FAULT_SEEDS ?= 1000
MAIL_SEEDS ?= 2000
FINGERPRINTS ?= 500
UPDATES ?= 60
SERVERS ?= 5
simulate: $(READY)  ## clusters of five name servers, and mail, under SEEDS seeds (2000), and FAULT_SEEDS (1000) with faults: half an hour
	$(BIN)/python -m tests.fingerprints --seeds $(FINGERPRINTS) --jobs $(JOBS)
	$(BIN)/python -m tests.mail_simulation --seeds $(MAIL_SEEDS) --jobs $(JOBS)
	$(BIN)/shadowtree simulate --messages --seeds $(SEEDS) $(addprefix --servers ,$(SERVERS)) --updates $(UPDATES) --jobs $(JOBS)
	$(BIN)/shadowtree simulate --faults --messages --seeds $(FAULT_SEEDS) $(addprefix --servers ,$(SERVERS)) --updates $(UPDATES) --jobs $(JOBS)

fingerprints: $(READY)  ## write tests/fingerprints/fingerprints.txt anew, after a change of the protocol
	$(BIN)/python -m tests.fingerprints --write --jobs $(JOBS)

tour: $(READY)  ## draw docs/tour.svg, some chapters of `make run`
	$(BIN)/python -m benchmarks.tour_picture

MINUTES ?= 10
chaos: $(READY)  ## five real name servers under load for MINUTES (10) while everything around them breaks (SEED= repeats it)
	$(BIN)/python -m tests.chaos --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

mailchaos: $(READY)  ## name servers, mail gateways and inboxes of three organisations, likewise
	$(BIN)/python -m tests.mail_chaos --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

INPUTS ?= 1000000
fuzz: $(READY)  ## hostile bytes: INPUTS (1000000) for all that reads bytes of others; SEED= for other ones, TARGET= for one place
	$(BIN)/python -m tests.fuzzing --inputs $(INPUTS) --jobs $(JOBS) $(if $(SEED),--seed $(SEED)) $(addprefix --target ,$(TARGET))

containers: $(READY)  ## build the image, start docker-compose.yml with its databases, kill, back up, upgrade (needs Docker; brings it on Debian)
	@.ci/containers
	$(BIN)/pytest -m containers tests/containers

clean:  ## remove what the other targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .fuzzing .import_linter_cache
