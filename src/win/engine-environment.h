/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "win/engine.h"

/*
 * The environment of the command
 *
 * A few variables of the caller that programs of Windows need to start (where Windows lies, where
 * programs are found), those that the job names, and atoll's own: temporary files in the run's
 * directory, and git set to its OpenSSL back end, because Schannel gives a restricted token no
 * credentials.
 */

/* The block of nt_environment_block(). Returns its size, or a negative errno. */
int engine_environment(const struct nt_request *request, const struct engine_options *options,
		       char **ret, struct atoll_error *err);
