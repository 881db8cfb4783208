/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct atoll_error;
struct atoll_result;

/* Writes a receipt of a run that has ended, as `atoll attest` does. 0; the exit status of atoll-
 * audit, which has printed its error; or a negative errno if it could not be started. */
int receipt_after(const char *path, const struct atoll_result *result, struct atoll_error *err);
