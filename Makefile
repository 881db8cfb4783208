# SPDX-License-Identifier: Apache-2.0
#
# The front door; Meson does the work in build/.
#
#	make            build; the program is then build/atoll
#	make run        set up, build, and see in half a minute what atoll does
#	make check      every test there is
#	make soak       the daemon under load for hours, and 100,000 sandboxes one after the other
#	make bench      how fast it starts, next to others
#	make install    PREFIX=/usr/local, DESTDIR= for packages
#	make format     put the code into its form
#	make lint       form, clang-tidy, cppcheck, scripts
#	make clean

BUILD = build
PYTHON = /usr/bin/python3
ifeq ($(origin CC),default)
CC = gcc
endif

.PHONY: all run check soak bench install format lint clean

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

bench: all
	@tools/setup --bench
	@$(PYTHON) test/perf/bench $(BUILD)

install: all
	$(if $(PREFIX),meson configure --prefix=$(PREFIX) $(BUILD))
	$(if $(DESTDIR),DESTDIR=$(DESTDIR)) meson install -C $(BUILD)

format:
	@tools/lint --format

lint: all
	@tools/lint $(BUILD)

clean:
	rm -rf $(BUILD)
