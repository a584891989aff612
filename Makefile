# SPDX-License-Identifier: MIT OR GPL-2.0-only
# Short names for the Meson build: make, make demo, make check, make bench, make install, make clean.
# make kernel builds the module for the running kernel, or for the headers in KDIR; make check-kernel
# tests it in an emulator; make check-kernel-debug does so on a kernel that watches its locks and memory,
# which it builds first. make torture is for those who have an hour: long soaks of what the suite does in short.
# make deb builds Debian packages, make tarball packs the sources, make check-packages tries the packages in a
# Debian of their own.

BUILD ?= build
PREFIX ?= /usr/local
PYTHON ?= python3
KDIR ?= /lib/modules/$(shell uname -r)/build
SETUP ?= # more arguments of meson setup

.PHONY: all build static commands deps demo check torture bench kernel check-kernel check-kernel-debug install \
	uninstall tarball deb check-packages clean

all: deps build

build: $(BUILD)/build.ninja
	@ninja -C $(BUILD) --quiet || { ninja -C $(BUILD); exit 1; }

$(BUILD)/build.ninja:
	@meson setup $(SETUP) $(BUILD) >$(BUILD).log 2>&1 || { cat $(BUILD).log; rm -f $(BUILD).log; exit 1; }
	@rm -f $(BUILD).log

# dprobes as one file that needs no library and no other file: for hosts and containers that have neither.
static:
	@packaging/install-deps.sh static
	@$(MAKE) --no-print-directory -s BUILD=$(BUILD)-static SETUP="$(SETUP) -Dstatic=true -Dtests=false" \
		$(BUILD)-static/build.ninja
	@ninja -C $(BUILD)-static --quiet src/cmd/static/dprobes
	@echo $(BUILD)-static/src/cmd/static/dprobes

# compile_commands.json for editors, with the hit path, and with the module where it was built.
commands: build
	@packaging/compile-commands.py $(BUILD)

# Debian packages that are missing; as root they are installed, else named.
deps:
	@packaging/install-deps.sh build

# Probe a redis-server under load: live events, a summary, and proof that it is unharmed.
demo:
	@packaging/install-deps.sh demo
	@$(MAKE) --no-print-directory -s build
	@DPROBES=$(BUILD)/src/cmd/dprobes examples/demo.sh

check:
	@packaging/install-deps.sh check
	@$(MAKE) --no-print-directory -s build
	@$(PYTHON) tests/run.py $(BUILD) $(TESTS)

torture:
	@packaging/install-deps.sh check
	@$(MAKE) --no-print-directory -s build
	@DP_ROUNDS=200 $(PYTHON) tests/run.py $(BUILD) tests/process/test_handling.py
	@DP_ROUNDS=400 DP_KILLS=200 $(PYTHON) tests/run.py $(BUILD) tests/process/test_torture.py
	@DP_STORM=60 DP_ONLY=storm $(PYTHON) tests/run.py $(BUILD) tests/process/test_owners.py
	@DP_TEST_LIMIT=3600 DP_KILLS=10000 DP_ONLY=killed_at_any_moment \
		$(PYTHON) tests/run.py $(BUILD) tests/process/test_owners.py
	@DP_SECONDS=120 $(PYTHON) tests/run.py $(BUILD) tests/process/test_loads.py
	@DP_STREAM=300 DP_ONLY=stream $(PYTHON) tests/run.py $(BUILD) tests/process/test_starts.py

# What hits, arming and programs cost here, beside all rivals that Debian has, and one page of it: bench.html.
bench:
	@packaging/install-deps.sh bench
	@$(MAKE) --no-print-directory -s build
	@$(BUILD)/bench/bench-hits -w $(BUILD)/bench -j $(BUILD)/bench/hits.json $(BUILD)/bench/bench-target
	@$(PYTHON) bench/bench-tools.py -j $(BUILD)/bench/tools.json $(BUILD)
	@$(BUILD)/bench/bench-rpn
	@$(BUILD)/bench/bench-arm $(BUILD)/bench/bench-many
	@$(PYTHON) bench/bench-cost.py $(BUILD)
	@$(PYTHON) bench/bench-threads.py $(BUILD)
	@$(PYTHON) bench/bench-text.py $(BUILD)/bench/bench-called $(BUILD)/src/cmd/dprobes
	@$(PYTHON) bench/bench-reads.py $(BUILD)
	@$(PYTHON) bench/bench-apps.py -j $(BUILD)/bench/apps.json $(BUILD)
	@$(PYTHON) bench/page.py $(BUILD) $(BUILD)/bench/bench.html

kernel:
	@[ -e $(KDIR)/Makefile ] || \
		{ echo "no kernel headers in $(KDIR): install linux-headers, or give KDIR=" >&2; exit 1; }
	@mkdir -p $(BUILD)
	@kernel/build.sh $(KDIR) $(BUILD)/kernel/local
	@kernel/build.sh $(KDIR) $(BUILD)/kernel/local examples/kernel
	@echo $(BUILD)/kernel/local/kernel/dprobes.ko

check-kernel:
	@packaging/install-deps.sh check
	@$(MAKE) --no-print-directory -s build
	@DP_KERNEL_FLAVOURS=all $(PYTHON) tests/run.py $(BUILD) tests/kernel

check-kernel-debug:
	@packaging/install-deps.sh check-debug
	@$(MAKE) --no-print-directory -s build
	@DP_BUILD=$(BUILD) DPROBES=$(BUILD)/src/cmd/dprobes DP_KERNEL_FLAVOURS=debug \
		$(PYTHON) tests/kernel/test_kernel.py

install: $(BUILD)/build.ninja
	@meson configure $(BUILD) --prefix "$(PREFIX)"
	@$(MAKE) --no-print-directory -s build
	@meson install -C $(BUILD) --no-rebuild --quiet

uninstall:
	@ninja -C $(BUILD) uninstall

# The sources in one file, build/dprobes-VERSION.tar.xz.
tarball:
	@packaging/tarball.sh $(BUILD)

# Debian packages, in build/deb.
deb:
	@packaging/install-deps.sh deb
	@packaging/deb.sh $(BUILD)/deb

check-packages:
	@packaging/install-deps.sh check-packages
	@$(PYTHON) tests/packages/check.py

clean:
	@rm -rf $(BUILD)
