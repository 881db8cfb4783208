/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "setup/setup.h"

#include <errno.h>
#include <sys/file.h>
#include <sys/stat.h>

/*
 * The ledger: SETUP_DIR/SETUP_LEDGER, {"version": 1, "changes": [...]}
 *
 * Replaced as a whole by rename, and on disk when ledger_save() returns. A file beside it is what
 * is locked, and only root can open it: everybody can open the directory, and whoever can open a
 * file can lock it for ever.
 *
 * What stands in the ledger is done by root, at each boot and at an undo. So it is believed only if
 * nobody else can write it, and an entry only if it is one that setup makes (entries.c).
 */

#define LEDGER_NEW  SETUP_LEDGER ".new"
#define LEDGER_LOCK "setup.lock"

static bool is_roots(const struct stat *st)
{
	return st->st_uid == 0 && !(st->st_mode & 022);
}

static int refuse_writer(const char *path, struct atoll_error *err)
{
	return error_set(err, ATOLL_FAULT_HOST, 0,
			 "'%s' can be written by others than root; not trusted: look at what is in "
			 "it, then chown root and chmod go-w",
			 path);
}

/* Waits for the lock in an open directory; 1 if the file has been removed meanwhile. */
static int lock_in(int dir_fd, int *ret, struct atoll_error *err)
{
	cleanup_fd int fd =
		openat(dir_fd, LEDGER_LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct stat held, there;

	if (fd < 0 && errno == ENOENT)
		return 1; /* so has the directory */
	if (fd < 0 || fstat(fd, &held) < 0)
		return setup_fail(err, "open", SETUP_DIR "/" LEDGER_LOCK);
	if (!S_ISREG(held.st_mode) || held.st_uid != 0 || held.st_mode & 077)
		return error_set(err, ATOLL_FAULT_HOST, 0,
				 "'%s' can be opened by others than root, who could hold it for "
				 "ever: remove it",
				 SETUP_DIR "/" LEDGER_LOCK);
	if (flock(fd, LOCK_EX) < 0)
		return setup_fail(err, "lock", SETUP_DIR "/" LEDGER_LOCK);
	if (fstatat(dir_fd, LEDGER_LOCK, &there, AT_SYMLINK_NOFOLLOW) < 0 ||
	    there.st_ino != held.st_ino)
		return 1;
	*ret = take_fd(&fd);
	return 0;
}

/* The directory may be removed by an undo that we waited for: then begin again. */
static int lock_directory(int *ret_lock, struct atoll_error *err)
{
	for (;;) {
		cleanup_fd int fd = -1;
		struct stat held, there;
		int r;

		if (mkdir(SETUP_DIR, 0755) < 0 && errno != EEXIST)
			return setup_fail(err, "create", SETUP_DIR);
		fd = open(SETUP_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 && errno == ENOENT)
			continue;
		if (fd < 0)
			return setup_fail(err, "open", SETUP_DIR);
		if (fstat(fd, &held) < 0)
			return setup_fail(err, "look at", SETUP_DIR);
		if (!is_roots(&held))
			return refuse_writer(SETUP_DIR, err);
		r = lock_in(fd, ret_lock, err);
		if (r < 0)
			return r;
		if (r == 0 && lstat(SETUP_DIR, &there) == 0 && there.st_dev == held.st_dev &&
		    there.st_ino == held.st_ino)
			return take_fd(&fd);
		if (*ret_lock >= 0)
			close(take_fd(ret_lock));
	}
}

static int parse(struct ledger *ledger, const struct buf *text, struct atoll_error *err)
{
	json_error_t problem;
	json_t *root = json_loadb(text->data ? text->data : "", text->used, 0, &problem);
	json_t *changes = json_object_get(root, "changes");
	size_t i;
	json_t *change;
	int r = 0;

	if (json_integer_value(json_object_get(root, "version")) != 1 || !json_is_array(changes))
		r = error_set(err, ATOLL_FAULT_HOST, 0,
			      "%s/%s is damaged or of another version: put a copy of it back; "
			      "`atoll help setup` lists what was made",
			      SETUP_DIR, SETUP_LEDGER);
	json_array_foreach(changes, i, change)
	{
		if (r == 0 && !entry_is_ours(change))
			r = error_set(err, ATOLL_FAULT_POLICY, 0,
				      "%s/%s: entry %zu (kind '%.40s', path '%.100s') is none that "
				      "atoll setup makes; nothing is done",
				      SETUP_DIR, SETUP_LEDGER, i + 1, change_text(change, "kind"),
				      change_text(change, "path"));
	}
	if (r == 0) {
		json_decref(ledger->changes);
		ledger->changes = json_incref(changes);
	}
	json_decref(root);
	return r;
}

int ledger_open(struct ledger *ledger, bool to_change, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(16 << 20);
	struct stat st;
	int r;

	*ledger = (struct ledger){
		.dir_fd = -1, .lock_fd = -1, .is_readable = true, .changes = json_array()};
	if (to_change) {
		ledger->dir_fd = lock_directory(&ledger->lock_fd, err);
		if (ledger->dir_fd < 0)
			return ledger->dir_fd;
	}
	r = setup_read(SETUP_DIR "/" SETUP_LEDGER, &text, err);
	ledger->exists = r == 0 || r == -EACCES;
	ledger->is_readable = r != -EACCES;
	if (r == -ENOENT || (r == -EACCES && !to_change))
		return 0;
	if (r == 0 && (lstat(SETUP_DIR "/" SETUP_LEDGER, &st) < 0 || !is_roots(&st)))
		return refuse_writer(SETUP_DIR "/" SETUP_LEDGER, err);
	return r < 0 ? r : parse(ledger, &text, err);
}

int ledger_save(const struct ledger *ledger, struct atoll_error *err)
{
	json_t *root = json_pack("{s:i, s:O}", "version", 1, "changes", ledger->changes);
	cleanup_free char *text = json_dumps(root, JSON_INDENT(1));
	cleanup_fd int fd = -1;

	json_decref(root);
	if (!text)
		return error_oom(err);
	unlinkat(ledger->dir_fd, LEDGER_NEW, 0);
	fd = openat(ledger->dir_fd, LEDGER_NEW, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || fd_write_all(fd, text, strlen(text)) < 0 || fsync(fd) < 0 ||
	    renameat(ledger->dir_fd, LEDGER_NEW, ledger->dir_fd, SETUP_LEDGER) < 0 ||
	    fsync(ledger->dir_fd) < 0)
		return setup_fail(err, "write", SETUP_DIR "/" SETUP_LEDGER);
	return 0;
}

int ledger_remove(const struct ledger *ledger, struct atoll_error *err)
{
	unlinkat(ledger->dir_fd, LEDGER_NEW, 0);
	if (unlinkat(ledger->dir_fd, SETUP_LEDGER, 0) < 0 && errno != ENOENT)
		return setup_fail(err, "remove", SETUP_DIR "/" SETUP_LEDGER);
	/* Last, while it is held: whoever waits for it finds it gone, and begins again. */
	if (unlinkat(ledger->dir_fd, LEDGER_LOCK, 0) < 0 && errno != ENOENT)
		return setup_fail(err, "remove", SETUP_DIR "/" LEDGER_LOCK);
	/* Somebody else's files may lie there; they are not ours to remove. */
	if (rmdir(SETUP_DIR) < 0 && errno != ENOTEMPTY && errno != EEXIST)
		return setup_fail(err, "remove", SETUP_DIR);
	return setup_sync_parent(SETUP_DIR, err);
}

void ledger_close(struct ledger *ledger)
{
	json_decref(ledger->changes);
	if (ledger->lock_fd >= 0)
		close(ledger->lock_fd);
	if (ledger->dir_fd >= 0)
		close(ledger->dir_fd);
	*ledger = (struct ledger){.dir_fd = -1, .lock_fd = -1};
}

json_t *ledger_find(const struct ledger *ledger, const json_t *change)
{
	size_t i;
	json_t *entry;

	json_array_foreach(ledger->changes, i, entry)
	{
		/* A directory may switch several controllers on: those are told apart by text. */
		if (change_kind(entry) == change_kind(change) &&
		    streq(change_text(entry, "path"), change_text(change, "path")) &&
		    (change_kind(change) != &kind_controller ||
		     streq(change_text(entry, "text"), change_text(change, "text"))))
			return entry;
	}
	return NULL;
}
