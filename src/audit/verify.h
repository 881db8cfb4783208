/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/audit.h>

/* Finds a log by the beginning of its id, or the latest one (NULL). -ENOENT without a message if
 * there is none. */
int audit_find_log(int state_fd, const char *beginning, char ret[ATOLL_ID_SIZE],
		   struct atoll_error *err);
