/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "win/pe/pe.h"

/*
 * The canary child: `atoll.exe canary`
 *
 * It reads one path per line from standard input, makes every attempt of nt-attempt.h in each of
 * these directories, and writes one line per path: the granted attempts as a hexadecimal number. It
 * runs as the command would run and has no right of its own; started by hand it shows what the
 * caller may do.
 */
int win_canary_main(void);

/* Read the answers of the child. Every path has exactly one line, or the canary failed. */
int win_canary_read(const char *answers, struct win_canary *canaries, size_t n,
		    struct atoll_error *err);
