/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * On which CPU callers are woken
 *
 * A caller sleeps while the guard looks at its call. If nothing else runs inside, it is quickest to
 * have both take turns on one CPU (SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP): to wake another one takes
 * five times as long as the rest of it. If two callers work side by side, that flag brings both to
 * the guard's CPU, and the other one is idle until the kernel spreads them again: a build with two
 * jobs took a sixth longer. So who calls is watched. Work that goes hand in hand (a shell and its
 * commands, a compiler's passes) has one caller after the other, and none comes back once another
 * has taken over and been left; two that come back in turn work side by side. Threads of one
 * process that do so need not: a pool that is given one file after the other takes turns with
 * itself. What they use of the CPUs tells.
 */

struct turns {
	pid_t latest, other; /* the two who called last */
	pid_t back;	     /* the one of them who came back last, and when */
	int64_t back_ns;
	int64_t mixed_ns; /* until then they are taken to work side by side */
	unsigned n_back;  /* how often, each soon after the other */
	/* The process whose threads they are, if one's: when it was looked at, what it had used by
	 * then, and whether that was less than one and a half CPUs. */
	pid_t process;
	int64_t looked_ns, used_ns;
	bool is_narrow;
	int fd;	       /* the listener that this is about */
	bool is_mixed; /* as it was told */
};

/* Whether callers work side by side, now that `tid` calls. */
bool turns_are_mixed(struct turns *turns, pid_t tid, int64_t now_ns);

/* Whether a process mostly works on one CPU, now that it has used so much. */
bool turns_are_narrow(struct turns *turns, int64_t used_ns, int64_t now_ns);

/* Both, and tells the kernel where it has changed. Older kernels (before 6.6) know only one
 * way. */
void turns_see(struct turns *turns, int listener_fd, pid_t tid);

/* For a new listener. */
void turns_begin(int listener_fd);
