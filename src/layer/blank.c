/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/str.h"
#include "layer/layer-tree.h"
#include "layer/store.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>

/*
 * Emptying a sandbox's record
 *
 * What stays is what each of them has: the files that are locked, those that are written over, and
 * an empty top. All else goes to the trash, under whatever name it is. The record is at a place
 * where nobody looks for it, and locked; a kill leaves it half emptied, and whoever takes it sees
 * that (spare.c).
 */

/* ---- files ---- */

/* A byte is left, for the sake of ext4. What somebody else has under another name is his. */
static void blank_file(const struct layer_record *record, const char *name)
{
	cleanup_fd int fd = openat(record->fd, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1 ||
	    pwrite(fd, "", 1, 0) != 1 || ftruncate(fd, 1) < 0)
		unlinkat(record->fd, name, 0);
}

void record_blank_meta(const struct layer_record *record)
{
	renameat(record->fd, "meta", record->fd, "meta.new");
	blank_file(record, "meta.new");
}

static bool is_among(const char *name, const char *const *names)
{
	while (*names && !streq(*names, name))
		names++;
	return *names != NULL;
}

/* Throw away what is in a directory but for these. */
static bool keep_only(const struct layer_record *record, int dir_fd, const char *const *names)
{
	cleanup_with(tree_names_done) struct tree_names all = {0};
	const char *at;

	if (lseek(dir_fd, 0, SEEK_SET) < 0 || tree_list(dir_fd, &all) < 0)
		return false;
	at = all.text;
	for (size_t i = 0; i < all.n; i++, at += strlen(at) + 1) {
		if (!is_among(at, names) && store_throw_away(&record->store, dir_fd, at, NULL) < 0)
			return false;
	}
	return true;
}

/* ---- the top ---- */

/* As it was made: a directory that had many names stays long. */
static bool is_new(int upper_fd, int top_fd)
{
	struct stat upper, top;

	/* By this number two mounts could be told to be one after the other. */
	fremovexattr(upper_fd, "user.overlay.uuid");
	return fstat(upper_fd, &upper) == 0 && fstat(top_fd, &top) == 0 &&
	       upper.st_size <= top.st_size && store_dir_is_empty(upper_fd) &&
	       record_has_usual_xattrs(upper_fd);
}

static bool blank_upper(const struct layer_record *record, int top_fd)
{
	cleanup_fd int fd =
		openat(top_fd, "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0 && is_new(fd, top_fd))
		return true;
	/* Who moves a directory writes to it, too, and a command may have shut it. */
	return (fchmodat(top_fd, "upper", 0700, 0) == 0 || errno == ENOENT) &&
	       store_throw_away(&record->store, top_fd, "upper", NULL) == 0 &&
	       mkdirat(top_fd, "upper", 0700) == 0;
}

/* What a mount usually leaves is known, and gone quickly. */
static bool blank_work(const struct layer_record *record, int top_fd)
{
	static const char *const none[] = {NULL};
	cleanup_fd int fd = openat(top_fd, "work", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return false;
	unlinkat(fd, "work/incompat/volatile/dirty", 0);
	unlinkat(fd, "work/incompat/volatile", AT_REMOVEDIR);
	unlinkat(fd, "work/incompat", AT_REMOVEDIR);
	unlinkat(fd, "work", AT_REMOVEDIR);
	return keep_only(record, fd, none);
}

bool record_blank(const struct layer_record *record)
{
	static const char *const in_record[] = {"lock", "held",	  "meta.new", "top",
						"job",	"number", NULL};
	static const char *const in_top[] = {"upper", "work", NULL};
	cleanup_fd int top =
		openat(record->fd, "top", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	record_blank_meta(record);
	blank_file(record, "job");
	blank_file(record, "number");
	unlinkat(record->fd, "socket", 0);
	return top >= 0 && keep_only(record, record->fd, in_record) &&
	       keep_only(record, top, in_top) && blank_upper(record, top) &&
	       blank_work(record, top);
}
