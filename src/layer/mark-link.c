/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "layer/layer-tree.h"
#include "layer/marks.h"
#include "spec/common.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

/*
 * Where a link leads to once the changes are made
 *
 * Somebody on the host follows it: an editor, an upload, a backup. So it is walked as the kernel
 * would, through links that are there already, in the tree as it will be; out of the workspace, or
 * to what is trusted, is marked. A place that every sandbox sees is ordinary (spec/common.h). The
 * guard has the same rule for runs that write directly (init/links.c).
 *
 * A link with ".." behind a name is marked wherever it leads now: a later layer, or a run that
 * writes directly, can make that name a link to another directory, and that change is judged
 * alone.
 */

#define LINKS_MAX 40 /* as the kernel has it */

static const char what_outside[] = "link out of the workspace";
static const char what_late[] = "link whose target depends on other names";
static const char what_store[] = "link into atoll's own store";
static const char what_trusted[] = "link to a trusted file";

static bool read_target(const struct marker *marker, const char *path, char ret[PATH_MAX])
{
	cleanup_fd int fd = layer_stack_open_after(marker->drafts->stack, path);
	ssize_t length = fd < 0 ? -1 : readlinkat(fd, "", ret, PATH_MAX - 1);

	if (length <= 0)
		return false;
	ret[length] = '\0';
	return true;
}

/* A way that is being walked: `done` is plain and beneath the workspace, `rest` is still to go. */
struct way {
	struct buf done;
	char *rest;
	unsigned n_links;
};

static bool go_up(struct way *way)
{
	char *slash;

	if (way->done.used == 0)
		return false;
	slash = memrchr(way->done.data, '/', way->done.used);
	way->done.used = slash ? (size_t)(slash - way->done.data) : 0;
	way->done.data[way->done.used] = '\0';
	return true;
}

/* Put a link's target in front of what is still to go. False if that leads out. */
static bool turn(const struct marker *marker, struct way *way, const char *target,
		 const char *behind)
{
	char *rest;

	if (target[0] == '/') {
		if (!path_is_within(target, marker->root)) {
			way->done.used = 0;
			way->rest[0] = '\0';
			return common_has(target);
		}
		target += strlen(marker->root);
		way->done.used = 0;
		if (way->done.data)
			way->done.data[0] = '\0';
	}
	if (asprintf(&rest, "%s/%s", target, behind) < 0)
		return false;
	free(way->rest);
	way->rest = rest;
	return true;
}

static void add(struct way *way, const char *name, size_t length)
{
	if (way->done.used)
		buf_add_char(&way->done, '/');
	buf_add(&way->done, name, length);
}

/* To the end of the way; false if it leads out. What is not there is walked by name. */
static bool follow(const struct marker *marker, struct way *way)
{
	char target[PATH_MAX];
	char *name = way->rest;

	for (;;) {
		size_t length;
		struct stat st;

		name += strspn(name, "/");
		length = strcspn(name, "/");
		if (length == 0)
			return true;
		if (length == 2 && name[0] == '.' && name[1] == '.') {
			if (!go_up(way))
				return false;
		} else if (length != 1 || name[0] != '.') {
			add(way, name, length);
			if (buf_error(&way->done) < 0)
				return false;
			if (mark_stat_after(marker, way->done.data, &st) && S_ISLNK(st.st_mode) &&
			    read_target(marker, way->done.data, target)) {
				if (++way->n_links > LINKS_MAX)
					return true; /* leads nowhere */
				go_up(way);
				if (!turn(marker, way, target, name + length))
					return false;
				name = way->rest;
				continue;
			}
		}
		name += length;
	}
}

static bool is_trusted(const struct marker *marker, const char *path)
{
	cleanup_free char *whole = path_join(marker->root, path);

	return !whole || names_refuse(marker->root, whole, NAMES_WRITE) ||
	       mark_is_in_git_dir(marker, path);
}

/* Seen from the link's own directory; relative links that climb out are walked by their text. */
static bool leads_to_common(const struct marker *marker, const char *path)
{
	cleanup_free char *whole = path_join(marker->root, path);
	char *slash = whole ? strrchr(whole, '/') : NULL;
	char target[PATH_MAX];

	/* Of a workspace in such a place, what lies in it is no other's. */
	if (!slash || common_has(marker->root) || !read_target(marker, path, target))
		return false;
	*slash = '\0';
	return common_has_target(whole, target);
}

const char *mark_link(struct marker *marker, const char *path)
{
	struct way way = {.done = BUF_INIT(1 << 20), .rest = strdup(path)};
	const char *what = NULL;
	char target[PATH_MAX];
	bool is_read = read_target(marker, path, target);

	if (is_read && git_leads_to_store(target, NULL))
		what = what_store;
	else if (!way.rest || (!leads_to_common(marker, path) && !follow(marker, &way)))
		what = what_outside;
	else if (way.done.used && is_trusted(marker, way.done.data))
		what = what_trusted;
	else if (is_read && path_has_late_dots(target))
		what = what_late;
	buf_done(&way.done);
	free(way.rest);
	return what;
}

bool mark_is_outside_link(const char *mark)
{
	return mark == what_outside || mark == what_late;
}
