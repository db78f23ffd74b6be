# The front door of nitro. The work is done by scripts/ and meson.build; every step that has nothing to do says nothing.

build: ## compile into build/ (the default)
	@scripts/setup
	@scripts/build build

run: build ## train examples/fashion.c for five epochs
	build/nitro train examples/fashion.c --max-epochs=5

test: ## build with gcc, with sanitizers and with clang, and run all tests
	@scripts/setup test
	@scripts/test

test-long: ## the same, with every test and every plugin under the sanitizers, threads under theirs, and the grids whole
	@scripts/setup test
	@scripts/test --long

check: ## formatting, clang-tidy and cppcheck, then the tests
	@scripts/setup check
	@scripts/check
	@scripts/test

FUZZ ?= 60
fuzz: ## fuzz the readers of files for FUZZ=60 seconds, with libFuzzer where clang has it
	@scripts/setup fuzz || scripts/setup
	@scripts/fuzz '$(FUZZ)'

setup: ## install the missing Debian packages and the engine plugins
	@scripts/setup

PREFIX ?= /usr/local
install: build ## install into PREFIX=/usr/local; DESTDIR is heeded
	@meson configure build --prefix='$(PREFIX)' && scripts/build build
	meson install -C build --no-rebuild --quiet --strip
	@ldconfig 2>/dev/null || true

uninstall: ## delete what the last `make install` from this folder installed
	ninja -C build uninstall

clean: ## delete what was built; the plugins stay
	rm -rf build build-asan build-clang build-fuzz build-long build-tsan

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | expand -t 10

.PHONY: build run test test-long check fuzz setup install uninstall clean help
