# Everything prepares what it needs by itself: a virtual environment in .venv, system packages if they are missing.

PYTHON := .venv/bin/python
LAB ?= bridgehead
# For `make test`: files, directories, options of pytest. Empty: all of them.
TESTS ?=

# Options for `make scale`, `make chaos`, `make conformance`, `make clients` and `make images`: of `python -m benchmarks.scale`, `python -m chaos`,
# `python -m tests.kubernetes_e2e`, `python -m tests.clients` and `python -m deploy.image`.
ARGS ?=

# They build the images, for most of a minute each: `make test-images`.
IMAGE_TESTS := tests/e2e/test_image_of_parts.py tests/e2e/test_image_of_everything.py
# It makes root file systems of two releases of Debian, for minutes: `make empty-machine`.
EMPTY_TEST := tests/e2e/test_empty_machine.py
# What `make test` and `make debian13` leave out.
LEFT_OUT := $(addprefix --ignore ,$(IMAGE_TESTS) $(EMPTY_TEST))

# The other release of Debian that `make debian13` runs tests on.
DEBIAN ?= trixie

# Options of pytest-xdist. Files go to two workers more than there are cores, because tests of labs mostly wait.
BY_FILE := --numprocesses $(shell expr $$(nproc) + 2) --maxprocesses 4 --dist loadfile --no-loadscope-reorder
# Unit tests are collected once; two processes more than cores run them.
FORKED := -p no:xdist.plugin -p tests.forking --capture sys
SLOWEST := --durations 30 --durations-min 1

# Without compiled files, each of the many programs that the tests start compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help up down test test-images debian13 empty-machine unit coverage check docs bench scale chaos conformance clients images release format clean rebuild

help:
	@echo "make up      start a cluster of three nodes on this machine, and wait until it is ready"
	@echo "make down    stop the cluster; its state is kept for the next make up"
	@echo "make test    run every test: make coverage, integration (own namespaces), end to end (a lab, kubectl, curl);"
	@echo "             TESTS=tests/e2e/test_lab.py runs only some"
	@echo "make test-images  build the images, and run the parts from theirs and a lab in the other; make test leaves this out"
	@echo "make debian13  run the integration and end-to-end tests on Debian 13, in a root file system that debootstrap makes;"
	@echo "             TESTS=tests/e2e/test_lab.py runs only some, DEBIAN=sid on another release"
	@echo "make empty-machine  install the wheel on an empty Debian 12 and 13, as root and as a user, follow the README, and measure"
	@echo "make unit    run only the tests that touch nothing outside the process"
	@echo "make coverage  the same tests with more random examples; they must take at least 95 % of the branches of the pure modules"
	@echo "make check   check format, lint, types and the directions of imports"
	@echo "make docs    build the site of the documentation into build/site; python3 -m http.server -b 127.0.0.1 -d build/site shows it"
	@echo "make bench   measure, print the tables and write them to benchmarks/results/"
	@echo "make scale   measure synthetic clusters of 100, 1,000 and 5,000 nodes; ARGS='--nodes 1000 --seconds 30'"
	@echo "make chaos   inject faults in every proxy mode and into several API servers, and check what users see of them: half an hour;"
	@echo "             ARGS='--seed 7 --minutes 2', ARGS='--part api-servers'"
	@echo "make conformance  run Kubernetes' own conformance tests: some twenty minutes; ARGS='--focus sig-network'"
	@echo "make clients  run the suites of Python's clients of Kubernetes, of their source distributions; ARGS='kr8s kopf'"
	@echo "make images  build the container image of proxy, DNS, balancer and speaker; ARGS='--tag NAME:TAG --check';"
	@echo "             ARGS=--everything: that of a whole lab with all commands"
	@echo "make release  write wheel, source distribution, list of components and checksums to dist/, from the last commit"
	@echo "make format  format the code"

up: .venv/.prepared .venv/.compiled .venv/.tools
	@scripts/system-packages nft
	@.venv/bin/bridgehead up --name $(LAB) --detach

# Programs that pods run, whose images are stand-ins, and those of the proxy's modes iptables and ipvs. Tried once: a lab works
# without them, and names those that are missing.
.venv/.tools: .venv/.prepared Makefile
	@scripts/system-packages --optional busybox curl dig host ip iptables-restore ipset ipvsadm
	@touch $@

down: .venv/.prepared
	@.venv/bin/bridgehead down --name $(LAB)

# The other tests are collected beside the unit tests: their compiled files are then there for all workers.
test: .venv/.tested .venv/.site
	@scripts/install-helm
	@scripts/system-packages nft iptables-restore ip conntrack curl kubectl dig host busybox slirp4netns linux.uml modprobe cc ipvsadm ipset perl newuidmap zsh fish bird tc keepalived docker-registry skopeo strip umoci buildah chromium etcd etcdctl /usr/lib/frr/bgpd
ifdef TESTS
	@BRIDGEHEAD_REQUIRE_TOOLS=1 $(PYTHON) -m pytest $(SLOWEST) $(TESTS)
else
	@$(PYTHON) -m pytest -q --collect-only --ignore tests/unit >/dev/null & BRIDGEHEAD_REQUIRE_TOOLS=1 scripts/coverage
	@BRIDGEHEAD_REQUIRE_TOOLS=1 $(PYTHON) -m pytest $(SLOWEST) $(BY_FILE) --ignore tests/unit $(LEFT_OUT)
endif

test-images: .venv/.tested
	@scripts/system-packages nft ip kubectl dig busybox docker-registry skopeo strip
	@BRIDGEHEAD_REQUIRE_TOOLS=1 $(PYTHON) -m pytest $(SLOWEST) $(IMAGE_TESTS)

# Debian 13 has Python 3.13 and newer versions of nft, iptables, etcd and FRR.
debian13:
	@scripts/on-debian $(DEBIAN) $(MAKE) test TESTS='$(or $(TESTS),$(BY_FILE) $(LEFT_OUT) tests/integration tests/e2e)'

empty-machine: .venv/.tested release
	@BRIDGEHEAD_REQUIRE_TOOLS=1 $(PYTHON) -m pytest $(EMPTY_TEST)
	@cat benchmarks/results/empty-machine.md

unit: .venv/.tested
	@$(PYTHON) -m pytest $(SLOWEST) $(FORKED) --hypothesis-profile quick tests/unit

coverage: .venv/.tested
	@scripts/coverage

check: .venv/.tested
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/mypy
	@$(PYTHON) -m pytest -q tests/unit/test_architecture.py

# mkdocs' theme announces its own end at each build.
docs: .venv/.site
	@NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --clean
	@$(PYTHON) -m documentation.built_pages build/site

bench: .venv/.tested
	@scripts/system-packages nft iptables-restore ip curl kubectl dnsperf linux.uml modprobe cc bird keepalived docker-registry skopeo umoci busybox etcd
	@$(PYTHON) -m benchmarks

scale: .venv/.tested
	@scripts/system-packages nft ip etcd
	@$(PYTHON) -m benchmarks.scale $(ARGS)

chaos: .venv/.tested
	@scripts/system-packages nft iptables-restore ip kubectl ps nsenter setpriv tc etcd etcdctl
	@$(PYTHON) -m chaos --report benchmarks/results/chaos.md $(ARGS)

conformance: .venv/.tested .venv/.compiled .venv/.tools
	@scripts/system-packages nft
	@$(PYTHON) -m tests.kubernetes_e2e $(ARGS)

clients: .venv/.tested .venv/.compiled .venv/.tools
	@scripts/system-packages nft
	@$(PYTHON) -m tests.clients $(ARGS)

images: .venv/.tested
	@scripts/system-packages apt-get dpkg-deb strip
	@$(PYTHON) -m deploy.image $(ARGS)

release:
	@scripts/build-release

format: .venv/.tested
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

clean:
	rm -rf .venv build .images .kubernetes-e2e .debian .clients .mypy_cache .ruff_cache .pytest_cache .hypothesis dist

# The build writes it, and the server needs it. Without it the program is not prepared, whatever the stamp says.
DEFINITIONS := src/bridgehead/apiserver/bodies/definitions.json

.venv/.prepared: pyproject.toml constraints.txt hatch_build.py $(dir $(DEFINITIONS))definitions.py $(if $(wildcard $(DEFINITIONS)),,rebuild)
	@scripts/prepare-venv

# The tools of tests, lint and types, which are three quarters of the packages.
.venv/.tested: .venv/.prepared
	@scripts/prepare-venv --tools

# mkdocs and its theme, 120 MB.
.venv/.site: .venv/.prepared
	@scripts/prepare-venv --site

# A lab sees this program read-only, so its parts would compile their modules at every start: 1 s of processor time.
.venv/.compiled: .venv/.prepared $(shell find src -name '*.py' -newer .venv/.compiled 2>/dev/null)
	@$(PYTHON) -m compileall -q src
	@touch $@
