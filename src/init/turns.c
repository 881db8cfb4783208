/* SPDX-License-Identifier: Apache-2.0 */
#include "init/turns.h"

#include "base/clock.h"
#include "base/uapi.h"

#include <sys/ioctl.h>

/* Two who work side by side call again within that; and are not asked about for some while. */
#define SOON_NS	 INT64_C(20000000)
#define MIXED_NS INT64_C(50000000)
#define TIMES	 2 /* one alone that comes back is a parent whose children end */

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

static void set_flags(int listener_fd, bool is_mixed)
{
	ioctl(listener_fd, SECCOMP_IOCTL_NOTIF_SET_FLAGS,
	      is_mixed ? 0 : SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
}

void turns_see(struct turns *turns, int listener_fd, pid_t tid)
{
	bool is_mixed;

	if (listener_fd != turns->fd) {
		if (turns->is_mixed)
			set_flags(turns->fd, false);
		*turns = (struct turns){.fd = listener_fd};
	}
	is_mixed = turns_are_mixed(turns, tid, clock_monotonic_ns());
	if (is_mixed != turns->is_mixed)
		set_flags(listener_fd, is_mixed);
	turns->is_mixed = is_mixed;
}

void turns_begin(int listener_fd)
{
	set_flags(listener_fd, false);
}
