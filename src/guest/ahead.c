/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest-parts.h"

#include "base/fd.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Looking at a large directory's files in two processes
 *
 * Most of the time of a list goes into asking the kernel about one name after the other. A child
 * begins with the last one, and puts what it finds into memory that both have; where the two meet
 * it ends. Nobody waits for it: what it has not done is done here. So somebody inside who stops it,
 * or a limit that refuses it, makes a list slow, and nothing else. A process and not a thread,
 * because it needs a current directory of its own; one at a time.
 */

#define NAMES_MIN 512	/* for fewer a process is not worth its while */
#define NAMES_MAX 65536 /* the last ones of more: what is found takes memory */

enum {
	LOOK_FREE,
	LOOK_TAKEN, /* here, or in the child, which has not finished */
	LOOK_DONE,
};

struct shared {
	_Atomic int state;
	struct look look;
};

struct ahead {
	struct shared *items;
	size_t first, n; /* which of the names */
};

static pid_t child; /* 0: there is none */

static bool has_child(void)
{
	if (child && waitpid(child, NULL, WNOHANG) != 0)
		child = 0;
	return child;
}

static bool take(struct shared *item)
{
	int expected = LOOK_FREE;

	return atomic_compare_exchange_strong(&item->state, &expected, LOOK_TAKEN);
}

/* Nothing of the loop's is used here, and nothing is allocated. */
static _Noreturn void look_backwards(struct ahead *ahead, int dir_fd, ahead_name *name,
				     const void *names, pid_t parent)
{
	/* What is on its way to the daemon is not to be held open by us. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent || fchdir(dir_fd) < 0 ||
	    fd_close_range(0, ~0U, false) < 0)
		_exit(1);
	for (size_t i = ahead->n; i-- > 0;) {
		struct shared *item = &ahead->items[i];

		if (!take(item))
			break;
		if (entry_look(name(names, ahead->first + i), &item->look) == 0)
			atomic_store(&item->state, LOOK_DONE);
	}
	_exit(0);
}

struct ahead *ahead_start(int dir_fd, ahead_name *name, const void *names, size_t n)
{
	struct ahead *ahead = n >= NAMES_MIN && !has_child() ? calloc(1, sizeof *ahead) : NULL;
	pid_t parent = getpid();

	if (!ahead)
		return NULL;
	ahead->n = n < NAMES_MAX ? n : NAMES_MAX;
	ahead->first = n - ahead->n;
	ahead->items = mmap(NULL, ahead->n * sizeof *ahead->items, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	child = ahead->items == MAP_FAILED ? -1 : fork();
	if (child == 0)
		look_backwards(ahead, dir_fd, name, names, parent);
	if (child > 0)
		return ahead;
	child = 0;
	ahead_free(ahead);
	return NULL;
}

const struct look *ahead_take(struct ahead *ahead, size_t i)
{
	struct shared *item;

	if (!ahead || i < ahead->first)
		return NULL;
	item = &ahead->items[i - ahead->first];
	return !take(item) && atomic_load(&item->state) == LOOK_DONE ? &item->look : NULL;
}

void ahead_free(struct ahead *ahead)
{
	if (!ahead)
		return;
	/* Ours still: it was not waited for. If it has not ended yet the next one finds out. */
	if (has_child())
		kill(child, SIGKILL);
	has_child();
	if (ahead->items != MAP_FAILED)
		munmap(ahead->items, ahead->n * sizeof *ahead->items);
	free(ahead);
}
