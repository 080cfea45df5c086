# SPDX-License-Identifier: BSD-2-Clause
# The few commands a person types. Meson does the building; this file only calls it.
#
#	make build	build/assay, after installing what it needs
#	make demo	build, profile a real program, show the result
#	make check	everything CI runs; the last line is the total
#	make check-engine	every command of tests/conformance and a million random sequences of instructions,
#			natively and in the engine
#	make bench	the measurements in bench/
#	make lint fmt	the house rules; formatting
#	make install	to PREFIX (/usr/local), DESTDIR is honoured

BUILD ?= build
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 5

DEPS_BUILD = gcc libc6-dev meson ninja-build pkgconf clang llvm bpftool libbpf-dev libelf-dev libdw-dev \
	libzydis-dev libzycore-dev libsqlite3-dev libzstd-dev zlib1g-dev libxxhash-dev libjansson-dev \
	libiberty-dev
DEPS_DEMO = perl
# What tests/conformance runs natively and in the engine.
DEPS_CONFORMANCE = bc busybox-static bzip2 cpio curl dc default-jdk-headless diffutils file findutils gawk git grep \
	gzip hostname imagemagick libpython3.11-testsuite luajit lz4 make mawk nginx-light nodejs \
	openssh-client openssl patch postgresql procps redis-tools rustc sed strace stress-ng tar
DEPS_CHECK = $(DEPS_DEMO) binutils clang-format g++ gcc-12-plugin-dev gdb golang-go libbz2-dev libcap2-bin \
	libclang-rt-dev libcmocka-dev linux-perf mandoc povray povray-examples povray-includes protobuf-compiler \
	python3 redis-server sqlite3 util-linux valgrind xz-utils zstd $(DEPS_CONFORMANCE)

.PHONY: all deps deps-demo deps-check build demo check check-engine bench lint fmt install clean

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
	@BUILD=$(BUILD) FUZZ_SECONDS=$(FUZZ_SECONDS) tests/run

check-engine: deps-check build
	@BUILD=$(BUILD) tests/conformance/run
	@BUILD=$(BUILD) tests/conformance/run --tool blocks corners/
	@BUILD=$(BUILD) ASSAY=$(BUILD)/assay INSNFUZZ_SEQUENCES=1000000 tests/e2e/engine_insns.py

bench: deps-check build
	@ASSAY=$(BUILD)/assay bench/run

lint:
	@tools/lint

fmt:
	@git ls-files -co --exclude-standard '*.c' '*.h' | xargs clang-format -i

install: build
	@meson install -C $(BUILD)

clean:
	@rm -rf $(BUILD) build-asan build-fuzz
