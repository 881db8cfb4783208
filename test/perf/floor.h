/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/*
 * The least that a sandbox of atoll's kind can cost
 *
 * Runs a command, named by its absolute path, in user, mount, pid, network, ipc, uts and cgroup
 * namespaces, with a root of its own, Landlock, a filter and no capability, and waits for it. What
 * atoll adds is not here: a guard, hidden names, limits, its own pid 1, streams that are copied, a
 * contract, checks, messages. With is_seen, each open, execution and removal is shown to the caller
 * before the kernel does it, which is the least that a log of what happens inside can cost. Returns
 * the wait status, or -1; an ordinary user's only.
 */
int floor_run(char *const argv[], bool is_seen);
