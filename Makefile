# Two commands do everything on a fresh machine: `make reproduce` and `make test`.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin

.PHONY: package help setup test lint types unit sanitize faults format reproduce bench docs site clean

help:
	@echo "make reproduce   set up, run the paper in a quick profile, leave results/report.html"
	@echo "make test        set up, then lint, type-check and test"
	@echo "make bench       set up, time a step of each sampler"
	@echo "make sanitize    run the C++ kernels under the address and thread sanitizers"
	@echo "make faults      kill, fill the disk, flip bits and race, 100 times over"
	@echo "make docs        build the documentation into site/"
	@echo "make site        build it, and open every page and a report in a browser"
	@echo "make package     build wheel and source distribution, install and try both"
	@echo "make setup       only create .venv and install everything into it"
	@echo "make format      format the code"
	@echo "make clean       remove what was built"

setup: .venv/.ready

.venv/.ready: requirements.txt pyproject.toml setup.py $(wildcard src/hopscale/native/kernels/* src/hopscale/native/cuda/*.cc)
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "hopscale needs Python 3.11 or newer"'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

test: lint types unit

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/pyright

unit: setup .venv/.docs
	$(BIN)/pytest -n 2 --dist worksteal -q --durations=20

sanitize:
	sh tests/sanitize/run.sh

faults: setup
	$(BIN)/python tests/faults.py

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

reproduce: setup
	$(BIN)/hopscale reproduce

bench: setup
	$(BIN)/hopscale bench

.venv/.docs: .venv/.ready requirements-docs.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-docs.txt
	-$(BIN)/python docs/assets/vendor.py
	@touch $@

docs: .venv/.docs
	$(BIN)/mkdocs build --strict

site: .venv/.docs
	-$(BIN)/python tests/browser.py
	$(BIN)/pytest -q -p no:xdist tests/test_site.py tests/reproduction/test_report.py

package:
	PYTHON=$(PYTHON) sh tests/package.sh

clean:
	rm -rf .venv .browser build site docs/assets/vendor results src/*.egg-info src/hopscale/native/*.so src/hopscale/native/cuda/*.so
