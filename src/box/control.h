/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>

struct daemon;

/*
 * How commands of the machine's owner reach the daemon: a socket in its directory, which nobody
 * else can enter. A word is sent, and answered when it has been done.
 */
int control_open(struct daemon *daemon, struct atoll_error *err);
void control_close(struct daemon *daemon);
/* From another process: `dir` is the daemon's. 0; -ENOENT if there is no daemon, which is fine for
 * who has only changed the database. */
int control_reload(const char *dir, struct atoll_error *err);
