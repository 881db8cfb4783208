/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "win/calls.h"

/*
 * Token, job object and desktop of a run, each read back
 *
 * `ret` is set also where the check fails, so that the caller can close it.
 */
int engine_make_token(const struct win_calls *calls, const struct nt_token_spec *spec,
		      win_handle *ret, struct atoll_error *err);
int engine_make_job(const struct win_calls *calls, const struct nt_job_limits *limits,
		    win_handle *ret, struct atoll_error *err);
int engine_make_desktop(const struct win_calls *calls, const char *name, const struct nt_sid *logon,
			win_handle *ret, struct atoll_error *err);
