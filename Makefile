# SPDX-License-Identifier: BSD-2-Clause
# The few commands a person types. Meson does the building; this file only calls it.
#
#	make build	build/assay, after installing what it needs
#	make demo	build, profile a real program, show the result
#	make check	everything CI runs; the last line is the total
#	make check-engine	every command of tests/conformance and a million random sequences of instructions,
#			natively and in the engine
#	make check-wide		thousands of commands, as far as their programs are installed, and the test suites of
#			Debian source packages, natively and in the engine: hours. WIDE="--tool each" runs
#			each command with every tool, WIDE="--every 3" a third of them
#	make check-kernels	every kernel that the package lists offer, in emulated machines with several kinds of CPU;
#			writes the table of docs/where-it-runs.md. KERNELS names further .deb files
#	make bench	the measurements in bench/
#	make lint fmt	the house rules; formatting
#	make docs	the option lists of the manual pages, from the table of options
#	make dist	build/assay-VERSION.tar.xz: the source, which builds without a network
#	make install	to PREFIX (/usr/local), DESTDIR is honoured

BUILD ?= build
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 5
KERNELS ?=
WIDE ?=

DEPS_BUILD = gcc libc6-dev meson ninja-build pkgconf clang llvm bpftool libbpf-dev libelf-dev libdw-dev \
	libzydis-dev libzycore-dev libsqlite3-dev libzstd-dev zlib1g-dev libxxhash-dev libjansson-dev \
	libiberty-dev libmicrohttpd-dev libncurses-dev esbuild \
	default-jdk-headless
DEPS_DEMO = perl
# What tests/conformance runs natively and in the engine.
DEPS_CONFORMANCE = bc busybox-static bzip2 cpio curl dc diffutils file findutils gawk git grep \
	gzip hostname imagemagick libpython3.11-testsuite luajit lz4 make mawk nginx-light nodejs \
	openssh-client openssl patch pcre2-utils php-cli postgresql procps redis-tools rustc sbcl sed strace \
	stress-ng tar
DEPS_CHECK = $(DEPS_DEMO) binutils chromium chromium-driver clang-format fish g++ gcc-12-plugin-dev gdb golang-go \
	libbz2-dev libcap2-bin libclang-rt-dev libcmocka-dev linux-perf lld lua5.4 mandoc node-typescript povray \
	povray-examples povray-includes protobuf-compiler python3 qemu-system-x86 redis-server sqlite3 tmux util-linux \
	valgrind xz-utils zsh zstd $(DEPS_CONFORMANCE)
# What the source packages of tests/conformance/suites need to be built and tested.
DEPS_SUITES = autoconf automake autopoint bison dejagnu dpkg-dev flex gettext gperf help2man libtool texinfo
# What bench/ compares with, besides.
DEPS_BENCH = bpftrace

.PHONY: all deps deps-demo deps-check build demo check check-engine check-wide check-kernels bench lint fmt docs dist install clean

all: build

deps:
	@tools/deps $(DEPS_BUILD)

deps-demo: deps
	@tools/deps $(DEPS_DEMO)

deps-check: deps
	@tools/deps $(DEPS_CHECK)

build: deps
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD) --prefix $(PREFIX)
	@ninja -C $(BUILD)

demo: deps-demo build
	@tools/demo $(BUILD)/assay

check: deps-check
	@BUILD=$(BUILD) FUZZ_SECONDS=$(FUZZ_SECONDS) tests/run --repeat

check-engine: deps-check build
	@BUILD=$(BUILD) tests/conformance/run
	@BUILD=$(BUILD) tests/conformance/run --tool blocks corners/
	@BUILD=$(BUILD) ASSAY=$(BUILD)/assay INSNFUZZ_SEQUENCES=1000000 tests/e2e/engine_insns.py

check-wide: deps-check build
	@tools/deps $(DEPS_SUITES)
	@BUILD=$(BUILD) tests/conformance/run --wide $(WIDE)
	@BUILD=$(BUILD) tests/conformance/suites

# TCG emulates up to AVX2: qemu64 has SSE2, Nehalem SSE4.2, Haswell AVX2, max all that is emulated.
check-kernels: deps-check build
	@BUILD=$(BUILD) tests/kernels/run --all --units --cpu max --cpu qemu64 --cpu Nehalem --cpu Haswell \
		--table docs/where-it-runs.md $(KERNELS)

bench: deps-check build
	@tools/deps $(DEPS_BENCH)
	@ASSAY=$(BUILD)/assay bench/run

lint:
	@tools/lint

fmt:
	@git ls-files -co --exclude-standard '*.c' '*.h' '*.ts' | xargs clang-format -i

docs: build
	@tools/man-options $(BUILD)/src/cmd/option_docs --write

dist:
	@tools/dist $(BUILD)

install: build
	@meson install -C $(BUILD)

clean:
	@rm -rf $(BUILD) build-asan build-fuzz
