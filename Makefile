# SPDX-License-Identifier: Apache-2.0
#
# The front door; Meson does the work in build/.
#
#	make            build; the program is then build/atoll
#	make run        set up, build, and see in half a minute what atoll does
#	make check      every test there is
#	make soak       the daemon under load for hours, and 100,000 sandboxes one after the other
#	make windows    the Windows programs alone: build/atoll.exe (Debian's mingw-w64)
#	make bench      how fast it starts, next to others
#	make install    PREFIX=/usr/local, DESTDIR= for packages
#	make deb        a Debian package of it, in build/
#	make format     put the code into its form
#	make lint       form, structure, clang-tidy, cppcheck, scripts
#	make coverage   how many lines of each folder the unit tests reach
#	make clean

BUILD = build
PYTHON = /usr/bin/python3
ifeq ($(origin CC),default)
CC = gcc
endif

.PHONY: all run check soak windows bench install deb format lint coverage clean

all: $(BUILD)/build.ninja
	@ninja $(NINJAFLAGS) -C $(BUILD)

$(BUILD)/build.ninja:
	@tools/setup --check
	CC=$(CC) meson setup $(if $(PREFIX),--prefix=$(PREFIX)) $(BUILD)

run:
	@tools/setup
	@$(MAKE) --no-print-directory all NINJAFLAGS=--quiet
	@tools/quickstart $(BUILD)/atoll

# The tools that the compatibility test runs inside are large; what cannot be installed is skipped there.
check:
	@tools/setup --tests
	@$(PYTHON) tools/check

soak:
	@tools/setup --tests
	@ATOLL_LONG=1 $(PYTHON) tools/check test_serve_chaos test_serve_load test_serve_egress test_serve_http

windows:
	@tools/windows-build $(BUILD)

bench: all
	@tools/setup --bench
	@$(PYTHON) test/perf/bench $(BUILD)

install: all
	$(if $(PREFIX),meson configure --prefix=$(PREFIX) $(BUILD))
	$(if $(DESTDIR),DESTDIR=$(DESTDIR)) meson install -C $(BUILD)

deb: all
	@tools/deb $(BUILD)

format:
	@tools/lint --format

lint: all
	@tools/lint $(BUILD)

coverage:
	@tools/setup --check
	@$(PYTHON) tools/coverage

clean:
	rm -rf $(BUILD)
