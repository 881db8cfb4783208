/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "isolate/ns/cell.h"

#include <poll.h>

/*
 * Why the supervisor has the guard's listeners as well
 *
 * Once the last descriptor of a filter's listener is closed, the kernel answers ENOSYS to whoever
 * waits for the guard, and to whoever asks it from then on. A process that ends closes what it has
 * open before the kernel kills its pid namespace. So whenever the first process ended or was
 * killed, everybody else inside had a moment without a guard: nothing could be written, but a
 * shell heard that its next program cannot be executed, and went on with what needs none.
 *
 * With one more descriptor out here they wait instead, until they are killed with the rest. It is
 * kept until the first process has been reaped, which is when nobody is left; nothing is ever read
 * from it. Not chosen: that the first process kills everybody before it ends. It cannot where it is
 * killed itself, and that is how every run ends that is cut short.
 */

/* Those that nobody lives under tell so, and have nothing to keep for. */
static void drop_unused(struct cell *cell)
{
	for (size_t i = cell->n_listeners; i > 0; i--) {
		struct pollfd fd = {.fd = cell->listeners[i - 1]};

		if (poll(&fd, 1, 0) > 0 && fd.revents & POLLHUP) {
			close(fd.fd);
			cell->listeners[i - 1] = cell->listeners[--cell->n_listeners];
		}
	}
}

void cell_keep_listener(struct cell *cell, int fd)
{
	drop_unused(cell);
	/* The first process has no more of them than this. */
	if (fd >= 0 && cell->n_listeners < INIT_LISTENERS_MAX)
		cell->listeners[cell->n_listeners++] = fd;
	else if (fd >= 0)
		close(fd);
}

void cell_drop_listeners(struct cell *cell)
{
	while (cell->n_listeners)
		close(cell->listeners[--cell->n_listeners]);
}
