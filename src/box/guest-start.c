/* SPDX-License-Identifier: Apache-2.0 */
#include "box/guest-start.h"

#include "base/clock.h"
#include "base/error.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/guest-link.h"
#include "box/guest-types.h"
#include "box/make.h"

#include <atoll/step.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Where the sandbox has it (isolate/). */
#define PROGRAM "/run/atoll/guest"

/* How soon and how long a holder that takes no more connections is asked again. */
#define AGAIN_NS     (20 * INT64_C(1000000))
#define AGAIN_MAX_NS (20 * INT64_C(1000000000))

static void stop_trying(struct guest *guest)
{
	loop_disarm(daemon_loop(guest->box->daemon), &guest->start_timer);
	if (guest->channel_fd > 0)
		close(guest->channel_fd);
	guest->channel_fd = 0;
}

/* Nothing is kept of such a step, and it ends with its socket: once it runs there is no need to
 * stay attached, which would be a descriptor more for each box. */
void guest_leave_step(struct guest *guest)
{
	stop_trying(guest);
	if (!guest->step)
		return;
	loop_unwatch(daemon_loop(guest->box->daemon), &guest->step_watch);
	atoll_step_detach(guest->step);
	guest->step = NULL;
}

/* It was not started: the story is the step's. */
static void fail(struct guest *guest, const struct atoll_error *err)
{
	struct atoll_error told = *err;

	if (told.fault == ATOLL_FAULT_NONE)
		error_set(&told, ATOLL_FAULT_HOST, 0,
			  "the helper program does not run in the sandbox");
	/* The user that was asked for is not one of the contract's; or there are as many processes
	 * or steps inside as there may be, which is no reason to think that the sandbox is gone. */
	if (err->errnum == ENOENT && guest->user[0])
		told.errnum = ESRCH;
	else if (err->errnum == EAGAIN || err->errnum == EBUSY)
		told.errnum = EAGAIN;
	else
		told.errnum = ENOTCONN;
	guest_drop(guest, &told);
}

static void on_step(struct loop_watch *watch, uint32_t events)
{
	struct guest *guest =
		(struct guest *)(void *)((char *)watch - offsetof(struct guest, step_watch));
	struct atoll_error err = {0};
	int r = atoll_step_move(guest->step, &err);
	const struct atoll_step_info *info = atoll_step_info(guest->step);

	(void)events;
	if (r < 0) {
		fail(guest, &err);
	} else if (info->state == ATOLL_STEP_RUNNING) {
		guest->step_number = info->number;
		guest_leave_step(guest);
	} else if (info->state != ATOLL_STEP_STARTING) {
		err = *atoll_step_error(guest->step);
		fail(guest, &err);
	}
}

static int start(struct guest *guest, int channel_fd, struct atoll_error *err)
{
	char *argv[] = {(char *)PROGRAM, NULL};
	struct atoll_step_options options = {.argv = argv,
					     .cwd = "/",
					     .user = guest->user[0] ? guest->user : NULL,
					     .channel_fd = channel_fd,
					     .needs_holder = true};
	int r = atoll_step_start(guest->box->sandbox, &options, &guest->step, err);

	if (r < 0) {
		err->errnum = r == -ENOENT ? ENOTCONN : err->errnum;
		return r;
	}
	guest->step_watch = (struct loop_watch){.fd = atoll_step_fd(guest->step), .ready = on_step};
	r = loop_watch(daemon_loop(guest->box->daemon), &guest->step_watch, EPOLLIN);
	if (r < 0) {
		guest_leave_step(guest);
		return error_set(err, ATOLL_FAULT_HOST, -r, "watch a step");
	}
	return 0;
}

/* Nobody holds the sandbox: whoever did was killed. A file is as good a reason as a command to
 * start another one, without the guest, which may be gone meanwhile. */
static bool raise_holder(struct guest *guest)
{
	const struct box *box = guest->box;

	if (!guest->has_raised)
		guest->has_raised = start_holder_behind(box->daemon, box->tenant, box->sandbox);
	return guest->has_raised;
}

static void on_start_timer(struct loop_timer *timer)
{
	struct guest *guest =
		(struct guest *)(void *)((char *)timer - offsetof(struct guest, start_timer));
	const int64_t now_ns = clock_monotonic_ns();
	struct atoll_error err = {0};
	int r = start(guest, guest->channel_fd, &err);

	if ((r == -EAGAIN || (r == -ENOENT && raise_holder(guest))) &&
	    now_ns < guest->start_until_ns &&
	    loop_arm(daemon_loop(guest->box->daemon), timer, now_ns + AGAIN_NS) == 0)
		return;
	stop_trying(guest);
	if (r < 0)
		fail(guest, &err);
}

/* To wait for the holder here would be to stop for everybody. What is asked meanwhile lies in the
 * guest's socket. */
int guest_start(struct guest *guest, int channel_fd, struct atoll_error *err)
{
	const int64_t now_ns = clock_monotonic_ns();
	int r = start(guest, channel_fd, err);

	if (r != -EAGAIN && !(r == -ENOENT && raise_holder(guest)))
		return r;
	guest->start_timer.fire = on_start_timer;
	guest->start_until_ns = now_ns + AGAIN_MAX_NS;
	guest->channel_fd = fcntl(channel_fd, F_DUPFD_CLOEXEC, 3);
	if (guest->channel_fd < 0 ||
	    loop_arm(daemon_loop(guest->box->daemon), &guest->start_timer, now_ns + AGAIN_NS) < 0) {
		stop_trying(guest);
		return r;
	}
	*err = (struct atoll_error){0};
	return 0;
}

void guest_kill(struct guest *guest)
{
	struct atoll_step *step = NULL;

	if (!guest->step_number ||
	    atoll_step_attach(guest->box->sandbox, guest->step_number, &step, NULL) < 0)
		return;
	atoll_step_signal(step, SIGKILL, true);
	atoll_step_detach(step);
}
