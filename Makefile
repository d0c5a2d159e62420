# SPDX-License-Identifier: Apache-2.0
# A thin front for Meson. `make demo` shows the main job; `make check` runs every test.
BUILD ?= build

.PHONY: all demo run format format-check tidy coverage image image-base image-link image-sidecar kind-up kind-down check check-containers check-guest check-mcp check-clients check-egress check-egress-full check-microvm check-microvm-full check-kube check-kube-full kube-tools check-distros check-deb check-audit-full install bench bench-pairs soak fuzz \
    asan clean deps-build deps-test deps-bench deps-egress deps-containers deps-distros deps-guest deps-microvm deb deps-deb deps-image deps-tidy deps-coverage

all: deps-build
	@scripts/configure.sh $(BUILD)
	@ninja -C $(BUILD)

demo: all
	@scripts/demo.sh $(BUILD)

# CONFIG is a configuration file; what it says of listening holds.
run: all
	@$(BUILD)/mas-sandboxd $(if $(CONFIG),-config $(CONFIG),-listen 127.0.0.1:8080)

# C sources by .clang-format, with version 14, whose details the tree has.
format:
	@scripts/format.sh write

format-check:
	@scripts/format.sh check

# clang-tidy with the short list of .clang-tidy over src; a minute.
tidy: deps-tidy all
	@scripts/tidy.sh $(BUILD)

# Which share of the lines of src the tests of make check (or SUITES="unit api") reach, per folder; build-coverage.
coverage: deps-coverage
	@scripts/coverage.sh

check: deps-test all
	@scripts/check.sh $(BUILD)

# Debian's own kernel with cgroup version 2, in QEMU; not part of check.
check-guest: deps-guest all
	@scripts/check-guest.sh $(BUILD)

# MCP's own conformance suite, inspector and SDK, from npm.
check-mcp: deps-test all
	@scripts/check-mcp.sh $(BUILD)

# What a sandbox with a network reaches and does not, between network namespaces of the test's own; root only.
check-egress: deps-egress all
	@scripts/check-egress.sh $(BUILD)

# The same over every runtime, and over local with daemons of ordinary users.
check-egress-full: deps-egress deps-containers deps-microvm all
	@MAS_EGRESS_FULL=1 RUNTIMES="local local-ids local-alone crun runc gvisor podman docker docker-gvisor microvm" scripts/check-egress.sh $(BUILD)

# Virtual machines, by software emulation; root only.
check-microvm: deps-microvm deps-egress all
	@scripts/check-microvm.sh $(BUILD)

check-microvm-full: deps-microvm deps-egress deps-guest all
	@scripts/check-microvm.sh $(BUILD) full

# mas-kube against a real API server and etcd, and pods by a real kubelet and containerd, in namespaces of their own; root
# only. One skip before kube-tools was run.
check-kube: deps-test all
	@scripts/check-kube.sh $(BUILD)

# The same with the cases and the scripts that take longer than a usual run has: half an hour.
check-kube-full: deps-test all
	@scripts/check-kube.sh $(BUILD) full

# The programs of that cluster, from Debian and the Go module registry: an hour, once, outside the clone, by version.
# TOOLS="etcd kube-apiserver" are those that check-kube needs.
kube-tools:
	@scripts/kube-tools.sh $(TOOLS)

# The MAS library's own example, from the Go module proxy; one skip without Go 1.25 or newer.
check-clients: deps-test all
	@scripts/check-clients.sh $(BUILD)

# OCI runtimes, container engines and images from a registry, with the real programs; RUNTIMES (crun runc gvisor)
# and ENGINES (podman docker) are lists.
check-containers: deps-containers all
	@scripts/check-containers.sh $(BUILD)

# The two commands of the README in bare Debian roots, made by debootstrap; DISTROS (bookworm trixie) is a list.
check-distros: deps-distros
	@scripts/check-distros.sh $(DISTROS)

# The packages of make deb, used in bare Debian roots and under systemd in QEMU: install, run, upgrade, remove, purge.
check-deb: deps-distros deps-guest
	@scripts/check-deb.sh $(DISTROS)

# Every bit, every line and every pair of lines of an exported audit: a minute or two.
check-audit-full: deps-test all
	@$(BUILD)/tests/unit/test-audit-flips full

# Debian packages of this tree, in BUILD/deb.
deb: deps-deb
	@scripts/make-deb.sh $(BUILD)

# A container image of the daemon, BUILD/mas-sandbox-oci.tar, made without an engine.
image: deps-image all
	@scripts/make-image.sh $(BUILD)

# What pods of a cluster have: the containers that are ours (kube_link_image), and a small image for sandboxes; without an engine.
# Where kind-up has made a cluster, they are put into it.
image-link: deps-image all
	@scripts/make-pod-image.sh $(BUILD) link
	@scripts/dev-cluster.sh $(BUILD) load link

image-base: deps-image all
	@scripts/make-pod-image.sh $(BUILD) base
	@scripts/dev-cluster.sh $(BUILD) load base

# What brings output in place of the runner's connection (stream_sidecar_image), the same way.
image-sidecar: deps-image all
	@scripts/make-pod-image.sh $(BUILD) stream
	@scripts/dev-cluster.sh $(BUILD) load stream

# A cluster to try the runtime kube with, for `make run CONFIG=dev/config.yaml`: kind's, or a node of our own where there is no kind.
kind-up: deps-image all
	@scripts/dev-cluster.sh $(BUILD) up
	@$(MAKE) --no-print-directory image-link

kind-down:
	@scripts/dev-cluster.sh $(BUILD) down

install: all
	@meson install -C $(BUILD)

bench: deps-bench all
	@bench/run.sh $(BUILD)

# What a change costs: this build against another one's build directory, OLD, in turns.
bench-pairs: deps-bench all
	@bench/pairs.py $(OLD) $(BUILD)

# SOAK_SECONDS (600), SOAK_CLIENTS, SOAK_SEED: see tests/soak/soak.py.
soak: deps-test all
	@BUILD=$(BUILD) tests/soak/soak.py

# FUZZ_SECONDS a target, FUZZ a list of targets (default: all).
fuzz: deps-test
	@scripts/fuzz.sh

asan: deps-test
	@scripts/configure.sh build-asan -Db_sanitize=address,undefined -Db_lundef=false
	@scripts/check.sh build-asan

clean:
	rm -rf $(BUILD) build-asan build-coverage build-fuzz

deps-build:
	@scripts/install-deps.sh build

deps-test:
	@scripts/install-deps.sh test

deps-bench:
	@scripts/install-deps.sh bench

deps-egress:
	@scripts/install-deps.sh egress

deps-containers:
	@scripts/install-deps.sh containers

deps-distros:
	@scripts/install-deps.sh distros

deps-tidy:
	@scripts/install-deps.sh tidy

deps-coverage:
	@scripts/install-deps.sh coverage

deps-image:
	@scripts/install-deps.sh image

deps-deb:
	@scripts/install-deps.sh deb

deps-microvm:
	@scripts/install-deps.sh microvm

deps-guest:
	@scripts/install-deps.sh guest
