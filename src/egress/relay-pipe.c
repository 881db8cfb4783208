/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/relay-pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIPE_SIZE (1024 * 1024)

static int pipe_fds[2] = {-1, -1};

void relay_pipe_open(void)
{
	int fds[2];

	/* Larger than it is made: each turn of the pipe wakes the other side once, and on a CPU
	 * that is shared that costs more than the bytes do. */
	if (pipe2(fds, O_NONBLOCK | O_CLOEXEC) < 0)
		return;
	fcntl(fds[1], F_SETPIPE_SZ, PIPE_SIZE);
	memcpy(pipe_fds, fds, sizeof fds);
}

bool relay_pipe_exists(void)
{
	return pipe_fds[0] >= 0;
}

/* What the other side did not take must not stay in the pipe that all share; if it cannot be had
 * out of it, there is none from here on. */
static bool read_left(struct piped *piped, size_t size)
{
	piped->left = malloc(size);
	if (piped->left && read(pipe_fds[0], piped->left, size) == (ssize_t)size) {
		piped->n_left = size;
		return true;
	}
	free(piped->left);
	piped->left = NULL;
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	pipe_fds[0] = pipe_fds[1] = -1;
	return false;
}

int relay_pipe_move(int from, int to, size_t most, struct piped *ret)
{
	ssize_t got = splice(from, NULL, pipe_fds[1], NULL, most, SPLICE_F_NONBLOCK), sent = 0;
	size_t passed = 0;

	*ret = (struct piped){0};
	if (got < 0)
		return -errno;
	ret->got = (size_t)got;
	while (passed < ret->got) {
		sent = splice(pipe_fds[0], NULL, to, NULL, ret->got - passed, SPLICE_F_NONBLOCK);
		if (sent <= 0)
			break;
		passed += (size_t)sent;
	}
	if (passed < ret->got) {
		ret->is_failed = sent < 0 && errno != EAGAIN && errno != EINTR;
		if (!read_left(ret, ret->got - passed))
			ret->is_failed = true;
	}
	return 0;
}
