/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest-parts.h"

#include "base/fd.h"
#include "base/path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* The question's, else what the sandbox set for this user. */
static const char *home_of(const struct question *question)
{
	const char *home = question->home;

	if (home[0] != '/')
		home = getenv("HOME");
	return home && home[0] == '/' ? home : "/";
}

int path_of(const struct question *question, const char *text, char ret[PATH_SIZE])
{
	const char *base = home_of(question);
	int n;

	if (text[0] == '~') {
		if (text[1] != '/' && text[1] != '\0')
			return -EINVAL;
		text++;
	} else if (text[0] == '/') {
		base = "";
	}
	n = snprintf(ret, PATH_SIZE, "%s/%s", base, text);
	if (n < 0 || n >= PATH_SIZE)
		return -ENAMETOOLONG;
	path_normalize(ret);
	return 0;
}

int owner_of(const struct question *question, struct owner *ret)
{
	*ret = (struct owner){.uid = geteuid(), .gid = getegid()};
	if (!question->owner[0])
		return 0;
	/* Not ESRCH, which /proc says of a process that is gone. */
	if (!user_find(question->owner, &ret->uid, &ret->gid))
		return -EKEYREJECTED;
	ret->is_other = ret->uid != geteuid();
	return 0;
}

int make_directory(const char *path, const struct owner *owner)
{
	if (mkdir(path, 0755) < 0)
		return -errno;
	/* May fail where it is not ours to give; then it is still there, and ours. */
	if (owner->is_other && lchown(path, owner->uid, owner->gid) < 0)
		return 0;
	return 0;
}

static bool is_directory(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int make_parents(const char *path, const struct owner *owner)
{
	char part[PATH_SIZE];
	char *slash;

	snprintf(part, sizeof part, "%s", path);
	slash = strrchr(part, '/');
	if (slash) {
		*slash = '\0';
		if (!part[0] || is_directory(part))
			return 0;
		*slash = '/';
	}
	for (slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		int r;

		*slash = '\0';
		r = is_directory(part) ? 0 : make_directory(part, owner);
		/* Somebody else may have made it meanwhile. */
		if (r == -EEXIST)
			r = is_directory(part) ? 0 : -ENOTDIR;
		if (r < 0)
			return r;
		*slash = '/';
	}
	return 0;
}

/* ---- the questions that need no more than this ---- */

void ask_stat(struct question *question)
{
	char path[PATH_SIZE];
	int r = path_of(question, question->args[0], path);

	if (r == 0)
		r = location_check(question, path, true);
	if (r < 0)
		answer(question->server, question->id, -r, question->args[0], NULL, 0, -1);
	else
		answer_entry(question->server, question->id, path);
}

static int make_in_place(struct location *place)
{
	int fd;

	if (!place->is_strict)
		return make_directory(place->name, &place->owner);
	fd = location_make(place, place->name, 0755);
	if (fd >= 0 && place->n_made < LOCATION_MADE_MAX)
		place->made[place->n_made++] = fd;
	else if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

static int make_whole(const struct question *question, const char *path)
{
	struct location place;
	int r = location_find(question, path, LOCATION_MAKES, &place);

	if (r == 0)
		r = make_in_place(&place);
	if (r == 0)
		location_give(&place);
	location_done(&place);
	return r == -EEXIST && !is_directory(path) ? -ENOTDIR : r;
}

void ask_make_dir(struct question *question)
{
	char path[PATH_SIZE];
	int r = path_of(question, question->args[0], path);

	if (r < 0) {
		answer(question->server, question->id, -r, question->args[0], NULL, 0, -1);
		return;
	}
	r = make_whole(question, path);
	if (r < 0)
		answer(question->server, question->id, -r, path, NULL, 0, -1);
	else
		answer_entry(question->server, question->id, path);
}

static int move_simply(const struct question *question, const char *from, struct location *source,
		       const char *to, struct location *target)
{
	struct stat st;
	int r = location_find(question, from, LOCATION_KEEPS_LINK, source);

	/* First, so that nothing is made for a source that is not there. */
	if (r == 0 && fstatat(source->fd, source->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	if (r == 0 && !location_may_take(source))
		r = -EACCES;
	if (r == 0)
		r = location_find(question, to, LOCATION_MAKES | LOCATION_KEEPS_LINK, target);
	if (r == 0 && renameat(source->fd, source->name, target->fd, target->name) < 0)
		r = -errno;
	if (r == 0)
		location_give(target);
	return r;
}

void ask_move(struct question *question)
{
	struct location source = {.fd = AT_FDCWD}, target = {.fd = AT_FDCWD};
	char from[PATH_SIZE], to[PATH_SIZE];
	int r = path_of(question, question->args[0], from);

	if (r == 0)
		r = path_of(question, question->args[1], to);
	if (r < 0) {
		answer(question->server, question->id, -r, question->args[0], NULL, 0, -1);
		return;
	}
	r = move_simply(question, from, &source, to, &target);
	/* A copy is given to the owners of what was copied, which may be many: root makes none on
	 * behalf of a user. */
	if (r == -EXDEV && geteuid() == 0 && question->owner[0])
		r = -EACCES;
	if (r == -EXDEV)
		move_by_copy(question, from, &source, to, &target);
	else if (r < 0)
		answer(question->server, question->id, -r, from, NULL, 0, -1);
	else
		answer_entry(question->server, question->id, to);
	location_done(&source);
	location_done(&target);
}
