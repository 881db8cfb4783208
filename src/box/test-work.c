/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"
#include "base/test.h"
#include "box/work.h"

#include <sys/socket.h>
#include <unistd.h>

/* What waits until somebody lets it go. */

struct waiting {
	struct work_item item;
	int fd;
	bool *told;
};

static struct loop loop;
static size_t n_done;

static void wait_for_it(struct work_item *item)
{
	struct waiting *waiting = (struct waiting *)item;
	char byte;

	if (waiting->fd >= 0)
		CHECK(read(waiting->fd, &byte, 1) == 1);
}

static void was_done(struct work_item *item)
{
	struct waiting *waiting = (struct waiting *)item;

	n_done++;
	if (waiting->told) {
		*waiting->told = true;
		loop_stop(&loop);
	}
}

#define THREADS 6
#define ITEMS	20

TEST(who_has_much_to_do_leaves_threads_to_others)
{
	static struct waiting mine[ITEMS];
	struct waiting theirs = {.fd = -1}, nobodys = {.fd = -1};
	bool is_theirs_done = false, is_nobodys_done = false;
	struct atoll_error err = {0};
	struct work *work;
	int ends[2];

	CHECK(loop_init(&loop) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	CHECK_INT(work_open(&loop, THREADS, &work, &err), 0);
	for (size_t i = 0; i < ITEMS; i++) {
		mine[i] = (struct waiting){
			.item = {.run = wait_for_it, .done = was_done, .owner = mine},
			.fd = ends[0]};
		work_submit(work, &mine[i].item, WORK_NOW);
	}
	theirs.item = (struct work_item){.run = wait_for_it, .done = was_done, .owner = &theirs};
	theirs.told = &is_theirs_done;
	work_submit(work, &theirs.item, WORK_NOW);
	loop_run(&loop);
	CHECK(is_theirs_done);
	nobodys.item = (struct work_item){.run = wait_for_it, .done = was_done};
	nobodys.told = &is_nobodys_done;
	work_submit(work, &nobodys.item, WORK_NOW);
	loop_run(&loop);
	CHECK(is_nobodys_done);
	CHECK_INT(n_done, 2);
	/* All of them have their turn, in the end. */
	mine[ITEMS - 1].told = &is_theirs_done;
	is_theirs_done = false;
	for (size_t i = 0; i < ITEMS; i++)
		CHECK(write(ends[1], "x", 1) == 1);
	while (!is_theirs_done)
		loop_run(&loop);
	work_close(work);
	CHECK_INT(n_done, ITEMS + 2);
	loop_done(&loop);
	close(ends[0]);
	close(ends[1]);
}
