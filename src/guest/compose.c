/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/inner.h"

#include "base/fd.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sendfile.h>

#define STEP_BYTES (4U << 20)

ssize_t copy_some(int from_fd, int to_fd)
{
	static char data[65536];
	int r;
	ssize_t n = copy_file_range(from_fd, NULL, to_fd, NULL, STEP_BYTES, 0);

	/* Between some file systems it cannot; and of files without a size it gives nothing. */
	if (n > 0)
		return n;
	n = sendfile(to_fd, from_fd, NULL, STEP_BYTES);
	if (n > 0)
		return n;
	n = read(from_fd, data, sizeof data);
	if (n <= 0)
		return n < 0 ? -errno : 0;
	r = fd_write_all(to_fd, data, (size_t)n);
	return r < 0 ? r : n;
}

/* Several files into one, which is made beside its place and put there at the end: it may be one
 * of the sources, and nobody sees a half. */
struct composition {
	struct work work;
	char to[PATH_SIZE], draft[PATH_SIZE + 48];
	struct owner owner;
	char **from;
	size_t n, next;
	int in_fd, out_fd;
};

static int open_next(struct composition *composition)
{
	struct stat st;

	if (composition->in_fd >= 0)
		close(composition->in_fd);
	composition->in_fd =
		open(composition->from[composition->next], O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (composition->in_fd < 0 || fstat(composition->in_fd, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	return S_ISREG(st.st_mode) ? 0 : -EINVAL;
}

static int finish(struct composition *composition)
{
	if (rename(composition->draft, composition->to) < 0)
		return -errno;
	composition->draft[0] = '\0';
	for (size_t i = 0; i < composition->n; i++)
		if (strcmp(composition->from[i], composition->to) != 0)
			unlink(composition->from[i]);
	return 1;
}

/* 1: all is done. */
static int go_on(struct composition *composition)
{
	ssize_t n =
		composition->in_fd >= 0 ? copy_some(composition->in_fd, composition->out_fd) : 0;
	int r;

	if (n != 0)
		return n < 0 ? (int)n : 0;
	if (composition->next == composition->n)
		return finish(composition);
	r = open_next(composition);
	composition->next++;
	return r;
}

static enum work_state step(struct work *work)
{
	struct composition *composition = (struct composition *)(void *)work;
	int r = go_on(composition);
	size_t at = composition->next ? composition->next - 1 : 0;

	if (r == 0)
		return WORK_ON;
	if (r == 1)
		answer_entry(work->server, work->id, composition->to);
	else
		answer(work->server, work->id, -r,
		       r == -ENOSPC || !composition->n ? composition->to : composition->from[at],
		       NULL, 0, -1);
	return WORK_DONE;
}

static void end(struct work *work)
{
	struct composition *composition = (struct composition *)(void *)work;

	if (composition->draft[0])
		unlink(composition->draft);
	if (composition->in_fd >= 0)
		close(composition->in_fd);
	if (composition->out_fd >= 0)
		close(composition->out_fd);
	for (size_t i = 0; i < composition->n; i++)
		free(composition->from[i]);
	free(composition->from);
	free(composition);
}

static int read_sources(struct composition *composition, const struct question *question)
{
	char path[PATH_SIZE];

	composition->from = calloc(question->n_args, sizeof *composition->from);
	if (!composition->from)
		return -ENOMEM;
	for (size_t i = 1; i < question->n_args; i++) {
		int r = path_of(question, question->args[i], path);

		if (r < 0)
			return r;
		composition->from[composition->n] = strdup(path);
		if (!composition->from[composition->n])
			return -ENOMEM;
		composition->n++;
	}
	return 0;
}

static int open_draft(struct composition *composition)
{
	char real[PATH_MAX];
	struct stat st;
	int r = make_parents(composition->to, &composition->owner);

	if (r < 0)
		return r;
	if (stat(composition->to, &st) == 0 && S_ISDIR(st.st_mode))
		return -EISDIR;
	/* Through a link, as writing would be. */
	if (realpath(composition->to, real))
		memcpy(composition->to, real, strlen(real) + 1);
	snprintf(composition->draft, sizeof composition->draft, "%s.part-%ld-%llx", composition->to,
		 (long)getpid(), (unsigned long long)composition->work.id);
	composition->out_fd = open(composition->draft,
				   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (composition->out_fd < 0) {
		composition->draft[0] = '\0';
		return -errno;
	}
	if (composition->owner.is_other &&
	    fchown(composition->out_fd, composition->owner.uid, composition->owner.gid) < 0)
		return 0;
	return 0;
}

void ask_compose(struct question *question)
{
	struct composition *composition = calloc(1, sizeof *composition);
	int r;

	if (!composition) {
		answer(question->server, question->id, ENOMEM, "", NULL, 0, -1);
		return;
	}
	composition->work =
		(struct work){.id = question->id, .is_question = true, .step = step, .end = end};
	composition->in_fd = composition->out_fd = -1;
	r = path_of(question, question->args[0], composition->to);
	if (r == 0)
		r = owner_of(question, &composition->owner);
	if (r == 0)
		r = read_sources(composition, question);
	if (r == 0)
		r = open_draft(composition);
	if (r == 0) {
		work_start(question->server, &composition->work);
		return;
	}
	answer(question->server, question->id, -r, composition->to, NULL, 0, -1);
	end(&composition->work);
}
