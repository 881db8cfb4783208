/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "base/uapi.h"
#include "init/guard.h"
#include "spec/common.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

/*
 * Symbolic links that lead out of a writable root
 *
 * Somebody on the host follows a link that a run has left: an editor, an upload, a backup. So a
 * link in a guarded root leads to something in the same root, or to a place that every sandbox sees
 * (spec/common.h). Layers have the same rule as a mark (layer/mark-link.c). Asked by call-names.c
 * after guard_permit(), for a new link and for a link that gets another name, and by moved.c for
 * links in a directory that moves.
 *
 * A link does not lead into a git directory either: core.worktree of a submodule may name it, and a
 * checkout on the host would write hooks there. Files of git-annex are links to .git/annex, and
 * nothing there is executed or obeyed.
 *
 * A later change must not turn a link that was inside into one that is not. So ".." stands only at
 * the beginning of a new link's text, where it means the real directories above the link: behind a
 * name it would depend on what that name is by then.
 */

#define LINKS_MAX 40 /* as in the kernel */

static const char what_outside[] = "link out of the workspace";
static const char what_into_git[] = "link into a git directory";

/* Where a walk is: `done` is beneath the root, without links, "" for the root itself. */
struct way {
	int root_fd;
	const char *host_root; /* the root's name on the host, which is what links speak of */
	unsigned n_links;
	size_t used;
	char done[PATH_MAX];
	char rest[2 * PATH_MAX];
};

static bool go_up(struct way *way)
{
	if (way->used == 0)
		return false;
	while (way->used > 0 && way->done[way->used - 1] != '/')
		way->used--;
	if (way->used > 0)
		way->used--;
	way->done[way->used] = '\0';
	return true;
}

static bool go_down(struct way *way, const char *name, size_t length)
{
	if (way->used + length + 2 > sizeof way->done)
		return false;
	if (way->used)
		way->done[way->used++] = '/';
	memcpy(way->done + way->used, name, length);
	way->used += length;
	way->done[way->used] = '\0';
	return true;
}

/* Put a link's text in front of what is left. 1: goes on, 0: ends in a common place, -1: out. */
static int turn(struct way *way, const char *text, const char *behind)
{
	char rest[sizeof way->rest];

	if (text[0] == '/') {
		if (!path_is_within(text, way->host_root))
			return common_has(text) ? 0 : -1;
		text += strlen(way->host_root);
		way->used = 0;
		way->done[0] = '\0';
	}
	if ((size_t)snprintf(rest, sizeof rest, "%s/%s", text, behind) >= sizeof rest)
		return -1;
	memcpy(way->rest, rest, strlen(rest) + 1);
	return 1;
}

/* One name: 1: there, or nothing is; -1: out; 0: the walk ends. `*at` is what follows the name. */
static int step(struct way *way, const char *name, size_t length, const char **at)
{
	char text[PATH_MAX];
	ssize_t got;
	int r;

	if (!go_down(way, name, length))
		return -1;
	got = readlinkat(way->root_fd, way->done, text, sizeof text - 1);
	if (got < 0)
		return 1;
	text[got] = '\0';
	if (++way->n_links > LINKS_MAX)
		return 0; /* leads nowhere */
	go_up(way);
	r = turn(way, text, name + length);
	*at = way->rest;
	return r;
}

static bool stays_inside(struct way *way)
{
	const char *at = way->rest;

	for (;;) {
		const char *name = at + strspn(at, "/");
		size_t length = strcspn(name, "/");
		int r = 1;

		if (length == 0)
			return true;
		at = name + length;
		if (length == 2 && memcmp(name, "..", 2) == 0)
			r = go_up(way) ? 1 : -1;
		else if (length != 1 || name[0] != '.')
			r = step(way, name, length, &at);
		if (r <= 0)
			return r == 0;
	}
}

/* Does a link outside of git directories end in one? `done` is beneath the root. */
static bool ends_in_git(const struct init_zone *zone, const char *path, const char *done)
{
	char place[2 * PATH_MAX];
	const char *inside;

	snprintf(place, sizeof place, "%s/%s", zone->path[1] ? zone->path : "", done);
	inside = names_git_inside(zone->path, place);
	if (inside && starts_with(inside, "annex/"))
		return false;
	return done[0] && !names_git_inside(zone->path, path) && guard_is_in_git_dir(zone, place);
}

const char *guard_judge_link(const struct call *call, const struct init_zone *zone,
			     const char *path, const char *text)
{
	static char host[3 * PATH_MAX], dir[3 * PATH_MAX];
	struct way way = {.root_fd = -1};
	cleanup_fd int root = open(zone->path, O_PATH | O_CLOEXEC);
	const char *inside = path + (streq(zone->path, "/") ? 0 : strlen(zone->path));
	const char *slash = strrchr(inside, '/');
	int r;

	if (!spec_host_path(call->guard->config->spec, zone->path, host, sizeof host))
		snprintf(host, sizeof host, "%s", zone->path);
	snprintf(dir, sizeof dir, "%s%.*s", host, slash ? (int)(slash - inside) : 0, inside);
	/* Of a root in such a place, what lies in it is no other's. */
	if (!common_has(host) && common_has_target(dir, text))
		return NULL;
	/* git opens HEAD in every directory while it looks for a repository, also at the end of a
	 * link, and waits where that is a FIFO. "refs/..." it does not open. */
	if (streq(path_name(path), "HEAD") && !starts_with(text, "refs/"))
		return "link called HEAD, which git would open";
	if (root < 0 || !slash || path_has_late_dots(text))
		return what_outside;
	way.root_fd = root;
	way.host_root = host;
	inside += strspn(inside, "/");
	if (slash > inside && !go_down(&way, inside, (size_t)(slash - inside)))
		return what_outside;
	r = turn(&way, text, "");
	if (r < 0 || (r > 0 && !stays_inside(&way)))
		return what_outside;
	return r > 0 && ends_in_git(zone, path, way.done) ? what_into_git : NULL;
}

const struct init_zone *guard_guarded_zone(const struct call *call, const struct target *target)
{
	const struct init_zone *zone = guard_zone(call->guard, target->path);

	return zone && zone->kind == INIT_ZONE_GUARDED ? zone : NULL;
}

int guard_permit_link(struct call *call, const struct target *target, const char *text)
{
	const struct init_zone *zone = guard_guarded_zone(call, target);
	const char *wrong = zone ? guard_judge_link(call, zone, target->path, text) : NULL;

	if (!wrong)
		return 0;
	memcpy(call->path, target->path, strlen(target->path) + 1);
	return guard_refuse(call, EPERM, wrong);
}

int guard_permit_same_link(struct call *call, const struct target *from, const struct target *to)
{
	char text[PATH_MAX];
	ssize_t got = readlinkat(from->parent, from->name, text, sizeof text - 1);

	if (got < 0)
		return -errno;
	text[got] = '\0';
	return guard_permit_link(call, to, text);
}

int guard_confirm_place(struct call *call, const struct target *target)
{
	const size_t length = (size_t)(strrchr(target->path, '/') - target->path);
	char dir[PATH_MAX];

	if (!guard_guarded_zone(call, target))
		return 0;
	if (resolve_fd_path(target->parent, dir, sizeof dir) == 0 &&
	    strlen(dir) == (length ? length : 1) && memcmp(dir, target->path, length) == 0)
		return 0;
	return guard_refuse(call, EPERM, "directory moved meanwhile");
}
