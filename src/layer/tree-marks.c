/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "layer/draft.h"
#include "layer/layer-tree.h"
#include "layer/marks.h"
#include "layer/object.h"
#include "layer/vet.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * The marks of a whole tree
 *
 * An archive becomes a workspace, and everything in it is new. So each name is drafted as added, in
 * a stack of one layer, the tree, over nothing; marks.c does the rest. Called by atoll_import(),
 * when the tree is unpacked and nobody but the caller can reach it.
 */

/* Takes `path`, also on failure. */
static int draft_one(struct drafts *drafts, char *path, const struct stat *st)
{
	if (drafts->n == drafts->room) {
		size_t room = drafts->room ? 2 * drafts->room : 256;
		struct draft *more = reallocarray(drafts->items, room, sizeof *more);

		if (!more) {
			free(path);
			return -ENOMEM;
		}
		drafts->items = more;
		drafts->room = room;
	}
	drafts->items[drafts->n++] =
		(struct draft){.change = {.path = path, .kind = ATOLL_ADDED, .after = *st}};
	return 0;
}

/* A directory is drafted before what lies in it. */
static int draft_tree(struct drafts *drafts, int fd, const char *above)
{
	cleanup_with(tree_names_done) struct tree_names names = {0};
	int r = tree_list(fd, &names);
	const char *name = names.text;

	for (size_t i = 0; i < names.n && r == 0; i++, name += strlen(name) + 1) {
		cleanup_fd int inner = -1;
		struct stat st;
		char *path;

		r = tree_stat_at(fd, name, true, &st);
		if (r < 0)
			break;
		path = *above ? path_join(above, name) : strdup(name);
		r = path ? draft_one(drafts, path, &st) : -ENOMEM;
		if (r < 0 || !S_ISDIR(st.st_mode))
			continue;
		inner = tree_open_at(fd, name, O_RDONLY | O_DIRECTORY, true);
		r = inner < 0 ? inner : draft_tree(drafts, inner, path);
	}
	return r;
}

static void drafts_done(struct drafts *drafts)
{
	for (size_t i = 0; i < drafts->n; i++)
		free(drafts->items[i].change.path);
	free(drafts->items);
}

/* Where a path is: its directory, open, and its mode if that had to be changed, because even its
 * owner could not write there. */
struct above {
	int fd;
	mode_t mode; /* 0: as it was */
	const char *name;
};

static void above_done(struct above *above)
{
	if (above->fd >= 0 && above->mode)
		fchmod(above->fd, above->mode & 07777);
	if (above->fd >= 0)
		close(above->fd);
}

static int above_open(int top_fd, const char *path, struct above *ret)
{
	struct stat st;

	ret->fd = tree_open_parent(top_fd, path, true, &ret->name);
	if (ret->fd < 0)
		return ret->fd;
	if (fstat(ret->fd, &st) < 0)
		return -errno;
	if ((st.st_mode & 0700) == 0700)
		return 0;
	ret->mode = st.st_mode;
	return fchmod(ret->fd, 0700) < 0 ? -errno : 0;
}

static int remove_one(int top_fd, const char *path, bool is_dir)
{
	cleanup_with(above_done) struct above above = {.fd = -1};
	int r = above_open(top_fd, path, &above);

	if (r < 0)
		return r;
	return unlinkat(above.fd, above.name, is_dir ? AT_REMOVEDIR : 0) < 0 ? -errno : 0;
}

/* Of all files together that get a copy of their own: an archive of links to one large file must
 * not fill the disk. */
#define ALONE_MAX ((uint64_t)64 << 20)
#define ALONE	  ".atoll-alone"

/* A file that the host obeys has no other name in the tree: a later run that writes directly could
 * write it by that name, and nobody would look at what it writes. */
static int make_alone(int top_fd, const char *path, uint64_t *left, struct atoll_error *err)
{
	cleanup_with(above_done) struct above above = {.fd = -1};
	struct object_copier copier = {.is_alone = true, .is_passing = true};
	cleanup_fd int fd = -1;
	struct stat st;
	int r = above_open(top_fd, path, &above);

	if (r < 0)
		return r;
	if (fstatat(above.fd, above.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno; /* held back */
	if (!S_ISREG(st.st_mode) || st.st_nlink < 2)
		return 0;
	if ((uint64_t)st.st_size > *left)
		return -EFBIG;
	*left -= (uint64_t)st.st_size;
	copier.to_fd = above.fd;
	fd = tree_open_object(above.fd, above.name, true);
	r = fd < 0 ? fd : object_copy(&copier, fd, ALONE, false, true, path, err);
	if (r == 0 && renameat(above.fd, ALONE, above.fd, above.name) < 0)
		r = -errno;
	return r;
}

static int make_all_alone(const struct drafts *drafts, int top_fd)
{
	uint64_t left = ALONE_MAX;
	int r = 0;

	for (size_t i = 0; i < drafts->n && r == 0; i++) {
		const struct atoll_change *change = &drafts->items[i].change;

		if (!S_ISREG(change->after.st_mode) || change->after.st_nlink < 2)
			continue;
		if (!change->mark && !vet_is_guarded(drafts->record->info.workspace, change->path))
			continue;
		r = make_alone(top_fd, change->path, &left, drafts->err);
		if (r < 0)
			error_set(drafts->err, ATOLL_FAULT_POLICY, -r,
				  "'%.200s' is trusted by the host and has other names in the "
				  "archive; a copy of its own failed",
				  change->path);
	}
	return r;
}

struct holder {
	bool (*is_held)(const struct atoll_change *change, bool is_outside_link, void *data);
	void (*note)(const struct atoll_change *change, void *data);
	void *data;
	size_t n; /* held back in this round */
};

static int hold_back(const struct drafts *drafts, int top_fd, struct holder *holder)
{
	int r = 0;

	for (size_t i = drafts->n; i-- > 0 && r == 0;) {
		const struct atoll_change *change = &drafts->items[i].change;

		if (!change->mark ||
		    !holder->is_held(change, mark_is_outside_link(change->mark), holder->data))
			continue;
		r = remove_one(top_fd, change->path, S_ISDIR(change->after.st_mode));
		if (r == 0) {
			holder->note(change, holder->data);
			holder->n++;
		} else if (r == -ENOTEMPTY || r == -EEXIST) {
			r = 0; /* something in it stays, and so does the directory */
		} else {
			error_set(drafts->err, ATOLL_FAULT_HOST, -r, "hold '%.200s' back",
				  change->path);
		}
	}
	return r;
}

/* One look at the whole tree. */
static int look(int dir_fd, const char *root, struct holder *holder, struct atoll_error *err)
{
	int fds[] = {dir_fd};
	void *gone[] = {NULL};
	const struct layer_stack stack = {.base_fd = -1, .layer_fds = fds, .gone = gone, .n = 1};
	struct layer_record record = {.info = {.workspace = (char *)root}};
	cleanup_with(drafts_done) struct drafts drafts = {
		.record = &record, .stack = &stack, .err = err};
	/* Opened anew: a descriptor that was listed once is at its end. */
	cleanup_fd int top = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = top < 0 ? -errno : draft_tree(&drafts, top, "");

	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "read what was unpacked");
	holder->n = 0;
	r = drafts_mark(&drafts);
	if (r == 0)
		r = hold_back(&drafts, dir_fd, holder);
	return r < 0 || holder->n ? r : make_all_alone(&drafts, dir_fd);
}

/* Without what was held back the rest may mean something else: an index is read by what the config
 * says. So it is looked at until nothing goes. */
int layer_tree_hold_back(int dir_fd, const char *root,
			 bool (*is_held)(const struct atoll_change *change, bool is_outside_link,
					 void *data),
			 void (*note)(const struct atoll_change *change, void *data), void *data,
			 struct atoll_error *err)
{
	struct holder holder = {.is_held = is_held, .note = note, .data = data};
	int r;

	do
		r = look(dir_fd, root, &holder, err);
	while (r == 0 && holder.n);
	return r;
}
