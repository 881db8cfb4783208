/* SPDX-License-Identifier: Apache-2.0 */
#include "base/test.h"
#include "box/box-types.h"
#include "box/daemon-state.h"
#include "box/event.h"
#include "box/process.h"

static struct daemon *const daemon = (struct daemon *)&daemon;
static int n_told;

static void count(struct box_listener *listener, enum box_event event, struct box *box,
		  struct process *process)
{
	(void)listener;
	(void)event;
	(void)box;
	(void)process;
	n_told++;
}

static void leave(struct box_listener *listener, enum box_event event, struct box *box,
		  struct process *process)
{
	count(listener, event, box, process);
	box_unlisten(listener);
}

TEST(a_listener_may_leave_while_it_is_told)
{
	struct box box = {.daemon = daemon};
	struct box_listener a = {.daemon = daemon, .told = count},
			    b = {.daemon = daemon, .told = leave},
			    c = {.daemon = daemon, .told = leave},
			    d = {.daemon = daemon, .told = count};

	n_told = 0;
	box_listen(&a);
	box_listen(&b);
	box_listen(&c);
	box_listen(&d);
	box_report(&box, BOX_CREATED, NULL);
	CHECK(n_told == 4);
	box_report(&box, BOX_ENDED, NULL);
	CHECK(n_told == 6);
	box_unlisten(&a);
	box_unlisten(&d);
	box_unlisten(&d);
	box_report(&box, BOX_ENDED, NULL);
	CHECK(n_told == 6);
}

TEST(processes_are_told_to_those_who_want_them_and_daemons_are_apart)
{
	struct box box = {.daemon = daemon}, other = {.daemon = NULL};
	struct process process = {.box = &box};
	struct box_listener a = {.daemon = daemon, .told = count},
			    b = {.daemon = daemon, .told = count, .wants_processes = true};

	n_told = 0;
	box_listen(&a);
	box_listen(&b);
	box_report(&box, PROCESS_ENDED, &process);
	CHECK(n_told == 1);
	box_report(&other, BOX_CREATED, NULL);
	CHECK(n_told == 1);
	box_unlisten(&a);
	box_unlisten(&b);
}
