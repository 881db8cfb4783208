/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/ids.h"
#include "base/str.h"
#include "base/uapi.h"
#include "layer/applied-files.h"
#include "layer/draft.h"
#include "layer/layer-tree.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/xattr.h>

/*
 * Two sides of one path, and what the host did with its own meanwhile
 *
 * Every change of a file moves its ctime, which nobody can set; so the host's is as the run saw it
 * if its ctime is not later than the run's beginning. A directory's moves with every name in it,
 * and tells nothing: what is in it is asked about instead, and whether it was born later.
 */

static bool is_same_link(const struct side *before, const struct side *after)
{
	char a[PATH_MAX], b[PATH_MAX];

	return tree_read_link(before->dir_fd, before->name, before->is_ours, a, sizeof a) == 0 &&
	       tree_read_link(after->dir_fd, after->name, after->is_ours, b, sizeof b) == 0 &&
	       streq(a, b);
}

static bool is_same_time(const struct stat *a, const struct stat *b)
{
	return a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Content and attributes of files and directories, which have to be opened for that. */
static unsigned compare_inside(const struct side *before, const struct side *after)
{
	cleanup_fd int a = tree_open_object(before->dir_fd, before->name, before->is_ours);
	cleanup_fd int b = tree_open_object(after->dir_fd, after->name, after->is_ours);
	bool is_file = S_ISREG(after->st.st_mode);
	unsigned parts = 0;

	if (a < 0 || b < 0)
		return is_file ? ATOLL_PART_CONTENT : 0;
	if (is_file && (before->st.st_size != after->st.st_size ||
			!tree_same_content(a, b, (uint64_t)after->st.st_size)))
		parts |= ATOLL_PART_CONTENT;
	if (!tree_same_xattrs(a, b))
		parts |= ATOLL_PART_XATTRS;
	return parts;
}

unsigned draft_compare(const struct side *before, const struct side *after)
{
	const struct stat *a = &before->st, *b = &after->st;
	unsigned parts = 0;

	if ((a->st_mode & S_IFMT) != (b->st_mode & S_IFMT))
		return ATOLL_PART_TYPE;
	/* An id of the sandbox's own says nothing on the host. */
	if ((a->st_uid != b->st_uid && !ids_is_kept(b->st_uid)) ||
	    (a->st_gid != b->st_gid && !ids_is_kept(b->st_gid)))
		parts |= ATOLL_PART_OWNER;
	/* A link's mode means nothing, and its time as little: it is made, never written. */
	if (S_ISLNK(b->st_mode))
		return parts | (is_same_link(before, after) ? 0 : ATOLL_PART_CONTENT);
	if ((a->st_mode ^ b->st_mode) & 07777)
		parts |= ATOLL_PART_MODE;
	if (S_ISREG(b->st_mode) || S_ISDIR(b->st_mode))
		parts |= compare_inside(before, after);
	else if ((S_ISCHR(b->st_mode) || S_ISBLK(b->st_mode)) && a->st_rdev != b->st_rdev)
		parts |= ATOLL_PART_CONTENT;
	if (parts == 0 && S_ISREG(b->st_mode) && !is_same_time(a, b))
		parts = ATOLL_PART_TIME;
	return parts;
}

static uint64_t birth_ns(const struct side *side)
{
	struct statx stx;

	if (statx(side->dir_fd, side->name, AT_SYMLINK_NOFOLLOW, STATX_BTIME, &stx) < 0 ||
	    !(stx.stx_mask & STATX_BTIME))
		return 0;
	return (uint64_t)stx.stx_btime.tv_sec * 1000000000U + stx.stx_btime.tv_nsec;
}

/* Our own doing is no change of the host's. */
static bool is_known(const struct drafts *drafts, const char *dir, const struct side *side)
{
	cleanup_free char *path = NULL;

	if (asprintf(&path, "%s%s%s", dir, *dir ? "/" : "", side->name) < 0)
		return false;
	return known_has(drafts->known, path, &side->st);
}

const char *host_changed(const struct drafts *drafts, const char *dir, const struct side *before,
			 bool is_after)
{
	uint64_t base_ns = drafts->record->base_time_ns;

	bool is_young;

	if (tree_ctime_ns(&before->st) <= base_ns || is_known(drafts, dir, before))
		return NULL;
	is_young = birth_ns(before) > base_ns;
	if (!is_young)
		return S_ISDIR(before->st.st_mode) ? NULL : "changed on the host since";
	return is_after ? "added on the host as well" : "added on the host since";
}

/* The copy that was kept for merges; a negative errno. */
static int open_kept(const struct drafts *drafts, const char *path)
{
	cleanup_fd int dir =
		openat(drafts->record->fd, "base", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const char *name;
	cleanup_fd int parent = dir < 0 ? -errno : tree_open_parent(dir, path, true, &name);

	return parent < 0 ? parent : tree_open_object(parent, name, true);
}

bool host_had(const struct drafts *drafts, const char *path)
{
	cleanup_fd int fd = open_kept(drafts, path);

	return fd >= 0;
}

bool host_is_as_kept(const struct drafts *drafts, const char *dir, const struct side *before)
{
	cleanup_free char *path = NULL;
	cleanup_fd int kept = -1, now = -1;
	struct stat st;

	if (!S_ISREG(before->st.st_mode) ||
	    asprintf(&path, "%s%s%s", dir, *dir ? "/" : "", before->name) < 0)
		return false;
	kept = open_kept(drafts, path);
	if (kept < 0 || fstat(kept, &st) < 0 || st.st_size != before->st.st_size)
		return false;
	now = tree_open_object(before->dir_fd, before->name, false);
	return now >= 0 && tree_same_content(kept, now, (uint64_t)st.st_size);
}

/*
 * What the overlay notes: a version, a magic byte, the length of all, flags, the handle's type, the
 * file system's id, and behind these 21 bytes the handle. Nothing at all where it could not open
 * such a handle again, as in a user namespace.
 */
#define ORIGIN_HEAD 21

bool origin_read(int fd, struct draft_origin *ret)
{
	unsigned char noted[ORIGIN_HEAD + sizeof ret->data];
	ssize_t size = tree_get_xattr(fd, "user.overlay.origin", noted, sizeof noted);

	if (size < 0 && errno != ERANGE)
		return false;
	*ret = (struct draft_origin){0};
	if (size > ORIGIN_HEAD && noted[1] == 0xfb && noted[2] == size) {
		ret->type = noted[4];
		ret->size = (unsigned)size - ORIGIN_HEAD;
		memcpy(ret->data, noted + ORIGIN_HEAD, ret->size);
	}
	return true;
}

bool origin_of(int dir_fd, const char *name, struct draft_origin *ret)
{
	union {
		struct file_handle handle;
		unsigned char room[sizeof(struct file_handle) + sizeof ret->data];
	} got = {.handle = {.handle_bytes = sizeof ret->data}};
	int mount_id;

	if (name_to_handle_at(dir_fd, name, &got.handle, &mount_id, 0) < 0)
		return false;
	*ret = (struct draft_origin){.type = got.handle.handle_type,
				     .size = got.handle.handle_bytes};
	memcpy(ret->data, got.room + sizeof got.handle, ret->size);
	return true;
}

bool origin_same(const struct draft_origin *a, const struct draft_origin *b)
{
	return a->type == b->type && a->size == b->size && memcmp(a->data, b->data, a->size) == 0;
}
