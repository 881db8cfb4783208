/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "win/pe/win-headers.h"

#include <atoll/error.h>

/* Set the error of a Win32 call that failed: the name of the check that needs it, the call, and the
 * code of GetLastError(). Returns a negative errno. */
int win_fail(struct atoll_error *err, const char *check, const char *call);
int win_fail_code(struct atoll_error *err, const char *check, const char *call, DWORD code);
