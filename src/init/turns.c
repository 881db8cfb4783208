/* SPDX-License-Identifier: Apache-2.0 */
#include "init/turns.h"

#include "base/clock.h"
#include "base/uapi.h"
#include "init/resolve.h"

#include <sys/ioctl.h>
#include <time.h>

/* Two who work side by side call again within that; and are not asked about for some while. */
#define SOON_NS	 INT64_C(20000000)
#define MIXED_NS INT64_C(50000000)
#define LOOK_NS	 INT64_C(50000000) /* threads are looked at so often */
#define TIMES	 2		   /* one alone that comes back is a parent whose children end */

bool turns_are_mixed(struct turns *turns, pid_t tid, int64_t now_ns)
{
	if (tid == turns->other) {
		const bool is_soon = now_ns - turns->back_ns < SOON_NS;

		turns->n_back = is_soon && tid != turns->back ? turns->n_back + 1 : 1;
		turns->back = tid;
		turns->back_ns = now_ns;
		if (turns->n_back >= TIMES)
			turns->mixed_ns = now_ns + MIXED_NS;
	}
	if (tid != turns->latest) {
		turns->other = turns->latest;
		turns->latest = tid;
	}
	return now_ns < turns->mixed_ns;
}

bool turns_are_narrow(struct turns *turns, int64_t used_ns, int64_t now_ns)
{
	/* Of a process that was not looked at before nothing is known. */
	if (turns->used_ns)
		turns->is_narrow = (used_ns - turns->used_ns) * 2 < (now_ns - turns->looked_ns) * 3;
	turns->used_ns = used_ns;
	turns->looked_ns = now_ns;
	return turns->is_narrow;
}

/* The CPU time of all threads of the process, or 0. */
static int64_t used_by(pid_t process)
{
	struct timespec used;
	clockid_t clock;

	if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &used) < 0)
		return 0;
	return used.tv_sec * INT64_C(1000000000) + used.tv_nsec;
}

/* Are both who called last threads of one process, which mostly works on one CPU? */
static bool look_at_threads(struct turns *turns, int64_t now_ns)
{
	pid_t process, other;
	mode_t mask;

	if (now_ns - turns->looked_ns < LOOK_NS)
		return turns->is_narrow;
	if (resolve_read_status(turns->latest, &mask, &process) < 0 ||
	    resolve_read_status(turns->other, &mask, &other) < 0 || process != other) {
		turns->looked_ns = now_ns;
		turns->process = 0;
		return turns->is_narrow = false;
	}
	if (process != turns->process) {
		turns->process = process;
		turns->used_ns = 0;
		turns->is_narrow = true;
	}
	return turns_are_narrow(turns, used_by(process), now_ns);
}

static void set_flags(int listener_fd, bool is_mixed)
{
	ioctl(listener_fd, SECCOMP_IOCTL_NOTIF_SET_FLAGS,
	      is_mixed ? 0 : SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
}

void turns_see(struct turns *turns, int listener_fd, pid_t tid)
{
	const int64_t now_ns = clock_monotonic_ns();
	bool is_mixed;

	if (listener_fd != turns->fd) {
		if (turns->is_mixed)
			set_flags(turns->fd, false);
		*turns = (struct turns){.fd = listener_fd};
	}
	is_mixed = turns_are_mixed(turns, tid, now_ns) && !look_at_threads(turns, now_ns);
	if (is_mixed != turns->is_mixed)
		set_flags(listener_fd, is_mixed);
	turns->is_mixed = is_mixed;
}

void turns_begin(int listener_fd)
{
	set_flags(listener_fd, false);
}
