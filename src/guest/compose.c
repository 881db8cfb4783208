/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest-parts.h"

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
	char to[PATH_SIZE]; /* as it is told */
	struct location place;
	char draft[PATH_SIZE + 48]; /* in the place's directory; "": none */
	char owner[64];		    /* as in the question */
	char **from;
	size_t n, next;
	int in_fd, out_fd;
	bool has_private; /* a source that not everybody may read: `private_to` may, or nobody */
	uid_t private_to;
};

#define NOBODY ((uid_t)-1)

/* For location_find(), when the question itself is gone. */
static struct question question_of(const struct composition *composition)
{
	return (struct question){.owner = composition->owner};
}

/* Root would copy what this user may not read into a file that this user may read. A user can put
 * any file of a directory of his in the place of a source, by another name. */
static bool is_given_away(const struct composition *composition, const struct stat *st)
{
	const struct owner *owner = &composition->place.owner;

	return composition->place.is_strict && owner->is_other && st->st_uid != owner->uid &&
	       !(st->st_mode & S_IROTH);
}

/* Who reads the composition must have been able to read each source. */
static void keep_readers(struct composition *composition, const struct stat *st)
{
	if (st->st_mode & S_IROTH)
		return;
	composition->private_to = !composition->has_private || composition->private_to == st->st_uid
					  ? st->st_uid
					  : NOBODY;
	composition->has_private = true;
}

static int open_next(struct composition *composition)
{
	const struct question question = question_of(composition);
	struct location place;
	struct stat st;
	int r = location_find(&question, composition->from[composition->next], 0, &place);

	if (composition->in_fd >= 0)
		close(composition->in_fd);
	composition->in_fd = r < 0 ? r : location_open(&place, O_RDONLY | O_NONBLOCK, 0);
	location_done(&place);
	if (composition->in_fd < 0)
		return composition->in_fd;
	if (fstat(composition->in_fd, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	keep_readers(composition, &st);
	return is_given_away(composition, &st) ? -EACCES : 0;
}

static void remove_source(const struct composition *composition, const char *path)
{
	const struct question question = question_of(composition);
	struct location place;

	if (location_find(&question, path, LOCATION_KEEPS_LINK, &place) == 0)
		unlinkat(place.fd, place.name, 0);
	location_done(&place);
}

/* A new file is the owner's; one that takes another's place has that one's owner and mode. Root's
 * draft is closed to everybody until here: a source may be one that few may read, and a user who
 * can rename files of root's in a directory of his chooses what root reads under a name. */
static int set_owner(const struct composition *composition)
{
	const struct location *place = &composition->place;
	uid_t uid = place->owner.uid;
	gid_t gid = place->owner.gid;
	mode_t mask = umask(0), mode = 0666 & ~mask;
	struct stat st;

	umask(mask);
	if (fstatat(place->fd, place->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode)) {
		uid = st.st_uid;
		gid = st.st_gid;
		mode = st.st_mode & 0777;
	}
	if (composition->has_private && uid != 0 && uid != composition->private_to)
		return -EACCES;
	if (composition->has_private)
		mode &= 0700;
	/* Where the contract has only one user it stays root's. */
	if (fchown(composition->out_fd, uid, gid) < 0 && errno != EPERM && errno != EINVAL)
		return -errno;
	return fchmod(composition->out_fd, mode) < 0 ? -errno : 0;
}

static int finish(struct composition *composition)
{
	struct location *place = &composition->place;
	int r = place->is_strict ? set_owner(composition) : 0;

	if (r < 0)
		return r;
	if (renameat(place->fd, composition->draft, place->fd, place->name) < 0)
		return -errno;
	composition->draft[0] = '\0';
	location_give(place);
	for (size_t i = 0; i < composition->n; i++)
		if (strcmp(composition->from[i], composition->to) != 0)
			remove_source(composition, composition->from[i]);
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
		unlinkat(composition->place.fd, composition->draft, 0);
	location_done(&composition->place);
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

/* Through a link, as writing would be; root follows none by now. */
static int find_place(struct composition *composition, const struct question *question)
{
	struct location *place = &composition->place;
	char real[PATH_MAX];
	struct stat st;
	int r = location_find(question, composition->to, LOCATION_MAKES, place);

	if (r < 0)
		return r;
	if (fstatat(place->fd, place->name, &st, place->is_strict ? AT_SYMLINK_NOFOLLOW : 0) == 0) {
		if (S_ISDIR(st.st_mode))
			return -EISDIR;
		if (S_ISLNK(st.st_mode))
			return -ELOOP;
	}
	if (!place->is_strict && realpath(composition->to, real))
		snprintf(place->name, sizeof place->name, "%s", real);
	return 0;
}

static int open_draft(struct composition *composition, const struct question *question)
{
	struct location *place = &composition->place;
	int r = find_place(composition, question);

	if (r < 0)
		return r;
	snprintf(composition->draft, sizeof composition->draft, "%s.part-%ld-%llx", place->name,
		 (long)getpid(), (unsigned long long)composition->work.id);
	composition->out_fd = openat(place->fd, composition->draft,
				     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
				     place->is_strict ? 0600 : 0666);
	if (composition->out_fd < 0) {
		composition->draft[0] = '\0';
		return -errno;
	}
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
	composition->place.fd = AT_FDCWD;
	snprintf(composition->owner, sizeof composition->owner, "%s", question->owner);
	r = path_of(question, question->args[0], composition->to);
	if (r == 0)
		r = read_sources(composition, question);
	if (r == 0)
		r = open_draft(composition, question);
	if (r == 0) {
		work_start(question->server, &composition->work);
		return;
	}
	answer(question->server, question->id, -r, composition->to, NULL, 0, -1);
	end(&composition->work);
}
