/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct atoll_error;
struct atoll_result;

/* Write a receipt of a run that has ended, as `atoll attest` does. 0, or the exit status of what
 * failed, which has been told; a negative errno if it could not be started. */
int receipt_after(const char *path, const struct atoll_result *result, struct atoll_error *err);
