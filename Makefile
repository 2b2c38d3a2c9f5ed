# Everything prepares what it needs by itself: a virtual environment in .venv, system packages if they are missing.

PYTHON := .venv/bin/python
LAB ?= bridgehead
# For `make test`: files, directories, options of pytest. Empty: all of them.
TESTS ?=

# For `make chaos`: options of `python -m chaos`.
ARGS ?=

.PHONY: help up down test unit check bench chaos format clean

help:
	@echo "make up      start a cluster of three nodes on this machine and return when it is ready"
	@echo "make down    stop it; its state is kept for the next make up"
	@echo "make test    run every test: unit, integration (own namespaces), end to end (a lab, kubectl, curl);"
	@echo "             TESTS=tests/e2e/test_lab.py runs only some"
	@echo "make unit    run only the tests that touch nothing outside the process"
	@echo "make check   formatting, lint, types, import arrows"
	@echo "make bench   measure, print the table and keep it in benchmarks/results/"
	@echo "make chaos   faults and what users see of them, in every mode: half an hour; ARGS='--seed 7 --minutes 2' are options"
	@echo "make format  put the code in order"

up: .venv/.prepared
	@scripts/system-packages nft
	@.venv/bin/bridgehead up --name $(LAB) --detach

down: .venv/.prepared
	@.venv/bin/bridgehead down --name $(LAB)

test: .venv/.prepared
	@scripts/system-packages nft iptables-restore ip conntrack curl kubectl dig host busybox linux.uml modprobe cc ipvsadm ipset perl newuidmap
	@$(PYTHON) -m pytest $(or $(TESTS),--numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder)

unit: .venv/.prepared
	@$(PYTHON) -m pytest tests/unit

check: .venv/.prepared
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/mypy
	@$(PYTHON) -m pytest -q tests/unit/test_architecture.py

bench: .venv/.prepared
	@scripts/system-packages nft iptables-restore ip curl kubectl dnsperf linux.uml modprobe cc
	@$(PYTHON) -m benchmarks

chaos: .venv/.prepared
	@scripts/system-packages nft iptables-restore ip kubectl ps nsenter tc
	@$(PYTHON) -m chaos --report benchmarks/results/chaos.md $(ARGS)

format: .venv/.prepared
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis dist

.venv/.prepared: pyproject.toml
	@scripts/prepare-venv
