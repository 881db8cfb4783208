/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct atoll_error;
struct remote;

/* Finds the daemon and its key. `host` NULL: $ATOLL_HOST, or the user's own daemon on this machine.
 */
int remote_open(const char *host, struct remote *ret, struct atoll_error *err);
void remote_close(struct remote *remote);
