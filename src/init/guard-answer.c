/* SPDX-License-Identifier: Apache-2.0 */
#include "base/uapi.h"
#include "init/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>

static void send_response(struct call *call, struct seccomp_notif_resp *response)
{
	response->id = call->id;
	call->is_answered = true;
	/* -ENOENT: the caller was killed meanwhile; nobody waits. */
	ioctl(call->guard->listener_fd, SECCOMP_IOCTL_NOTIF_SEND, response);
}

void answer(struct call *call, int64_t value)
{
	struct seccomp_notif_resp response = {0};

	if (value < 0)
		response.error = (int32_t)value;
	else
		response.val = value;
	send_response(call, &response);
}

void answer_continue(struct call *call)
{
	/* Safe although the kernel reads the arguments anew: whatever they are by then, Landlock
	 * leaves the caller no right to write in a guarded place. */
	struct seccomp_notif_resp response = {.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};

	send_response(call, &response);
}

void answer_fd(struct call *call, int fd, bool cloexec)
{
	struct seccomp_notif_addfd add = {
		.id = call->id,
		.flags = SECCOMP_ADDFD_FLAG_SEND,
		.srcfd = (uint32_t)fd,
		.newfd_flags = cloexec ? O_CLOEXEC : 0,
	};

	call->is_answered = true;
	if (ioctl(call->guard->listener_fd, SECCOMP_IOCTL_NOTIF_ADDFD, &add) < 0 && errno != ENOENT)
		answer(call, -errno); /* the caller's table is full */
}

bool answer_is_wanted(struct call *call)
{
	return ioctl(call->guard->listener_fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &call->id) == 0;
}
