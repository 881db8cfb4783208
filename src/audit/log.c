/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/log.h"

#include "audit/audit-base.h"
#include "audit/audit.h"
#include "audit/key.h"
#include "audit/log-check.h"
#include "audit/log-line.h"
#include "audit/log-reopen.h"
#include "audit/merkle.h"
#include "audit/runs.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/state.h"
#include "base/str.h"
#include "base/uapi.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

/*
 * One log: lines, chain, heads, and the file
 *
 * Lines are formatted at the end of the pending buffer, so no line is copied. A committed line is
 * part of the chain and the tree. The file contains a prefix of the committed lines; on a full disk
 * it may end within a line. A committed line is never removed.
 */

#define PENDING_MAX ((size_t)64 << 20)

/* ---- events ---- */

static struct json *begin_line(struct audit_log *log, uint64_t seq, const char *kind,
			       uint64_t time_ns, uint32_t step)
{
	struct audit_line line = {.seq = seq, .step = step};

	memcpy(line.prev, log->place.prev, HASH_SIZE);
	audit_time_format(time_ns ? time_ns : clock_real_ns(), line.time);
	memcpy(line.run, log->id, sizeof line.run);
	snprintf(line.kind, sizeof line.kind, "%s", kind);
	if (step > log->last_step)
		log->last_step = step;
	log->line_start = log->pending.used;
	audit_line_format(&line, &log->pending);
	log->json = (struct json){&log->pending, true};
	return &log->json;
}

struct json *audit_begin(struct audit_log *log, const char *kind, uint64_t time_ns, uint32_t step)
{
	return begin_line(log, log->place.edge.size, kind, time_ns, step);
}

struct json *audit_begin_unlogged(struct audit_log *log, const char *kind, uint64_t time_ns,
				  uint32_t step)
{
	return begin_line(log, UINT64_MAX, kind, time_ns, step);
}

void audit_end_unlogged(struct audit_log *log)
{
	json_close(&log->json, '}');
	log->last_size = buf_error(&log->pending) < 0 ? 0 : log->pending.used - log->line_start;
	/* Keep the bytes in the buffer for audit_last_line(). */
	log->pending.used = log->line_start;
	log->pending.failed = 0;
}

uint64_t audit_bytes(const struct audit_log *log)
{
	return log->place.bytes;
}

int audit_space(const struct audit_log *log, uint64_t *ret_free, uint64_t *ret_floor)
{
	const uint64_t most = UINT64_C(1) << 30;
	struct statvfs st;
	uint64_t size;

	if (fstatvfs(log->state_fd, &st) < 0)
		return -errno;
	size = (uint64_t)st.f_blocks * st.f_frsize;
	*ret_free = (uint64_t)st.f_bavail * st.f_frsize;
	*ret_floor = size / 20 < most ? size / 20 : most; /* as init_space_floor() */
	return 0;
}

/* Adds the last line in the buffer to the chain, or drops it if it is too long or memory ran
 * out. */
static int commit_line(struct audit_log *log, struct atoll_error *err)
{
	size_t size = log->pending.used - log->line_start;
	int r;

	if (size > AUDIT_LINE_MAX && !log->pending.failed)
		log->pending.failed = E2BIG;
	/* Append the newline first: if that fails, the line can still be dropped. */
	buf_add_char(&log->pending, '\n');
	r = buf_error(&log->pending);
	if (r < 0) {
		log->pending.failed = 0;
		log->pending.used = log->line_start;
		log->last_size = 0;
		return error_set(err, ATOLL_FAULT_HOST, -r, "an event of run %s", log->id);
	}
	audit_leaf(log->pending.data + log->line_start, size, log->place.prev);
	audit_edge_add(&log->place.edge, log->place.prev);
	log->place.bytes += size + 1;
	log->last_size = size;
	log->is_sealed = log->is_closed = log->is_entered = false;
	return 0;
}

int audit_commit(struct audit_log *log, struct atoll_error *err)
{
	json_close(&log->json, '}');
	return commit_line(log, err);
}

uint32_t audit_last_step(const struct audit_log *log)
{
	return log->last_step;
}

const char *audit_last_line(const struct audit_log *log, size_t *ret_size)
{
	*ret_size = log->last_size;
	return log->last_size ? log->pending.data + log->line_start : NULL;
}

/* ---- the file ---- */

size_t audit_pending(const struct audit_log *log)
{
	return log->pending.used;
}

int audit_flush(struct audit_log *log, struct atoll_error *err)
{
	struct buf *pending = &log->pending;
	size_t at = 0;
	int r = 0;

	while (at < pending->used) {
		ssize_t done = write(log->fd, pending->data + at, pending->used - at);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0) {
			r = done < 0 ? -errno : -EIO;
			break;
		}
		at += (size_t)done;
	}
	if (r == 0) {
		/* The text stays where it is, for audit_last_line(). */
		pending->used = 0;
		return 0;
	}
	memmove(pending->data, pending->data + at, pending->used -= at);
	log->line_start = log->last_size = 0;
	return error_set(err, ATOLL_FAULT_HOST, -r, "write the event log of run %s", log->id);
}

/* ---- heads ---- */

/* The private key is in memory only while it signs. The process that writes the log of a run
 * also clones the sandbox, and a clone inherits its memory. The key may have been replaced since
 * the last use. */
static void put_key_away(struct audit_log *log)
{
	sodium_memzero(log->key.secret, sizeof log->key.secret);
	log->has_key = false;
}

static int load_key(struct audit_log *log, struct atoll_error *err)
{
	char before[AUDIT_KEY_SIZE];
	int r;

	if (log->has_key)
		return 0;
	memcpy(before, log->key.id, sizeof before);
	r = audit_key_read(log->state_fd, &log->key, err);
	if (r == -ENOENT)
		error_set(err, ATOLL_FAULT_HOST, ENOENT,
			  "the signing key (keys/key.pem in the store)");
	if (r == 0 && !streq(before, log->key.id))
		r = audit_add_hand_overs(log, before, err);
	log->has_key = r == 0;
	return r;
}

static int add_head(struct audit_log *log, bool is_last, struct atoll_error *err)
{
	int r;

	log->head_size = log->place.edge.size;
	audit_edge_root(&log->place.edge, log->head_root);
	log->line_start = log->pending.used;
	audit_head_line(&log->place, log->id, clock_real_ns(), is_last, &log->key, &log->pending);
	r = commit_line(log, err);
	if (r < 0)
		return r;
	log->is_sealed = true;
	log->is_closed = is_last;
	return 0;
}

static int enter(struct audit_log *log, bool is_synced, struct atoll_error *err)
{
	const struct audit_run_entry entry = {
		.run = log->id, .kind = "closed", .size = log->head_size, .root = log->head_root};
	int r = audit_runs_enter(log->state_fd, &log->key, &entry, is_synced, err);

	if (r == 0)
		log->is_entered = true;
	return r < 0 ? error_context(err, r, "enter run %s", log->id) : 0;
}

static int seal(struct audit_log *log, bool is_last, bool is_synced, struct atoll_error *err)
{
	int r = load_key(log, err);

	if (r < 0)
		return r;
	if (!log->is_sealed || (is_last && !log->is_closed))
		r = add_head(log, is_last, err);
	if (r == 0)
		r = audit_flush(log, err);
	if (r == 0 && is_synced && fdatasync(log->fd) < 0)
		r = error_set(err, ATOLL_FAULT_HOST, errno,
			      "write the event log of run %s to the disk", log->id);
	if (r < 0)
		return r;
	if (log->is_sandbox)
		audit_save_place(log);
	return log->is_closed && !log->is_entered ? enter(log, is_synced, err) : 0;
}

void audit_prepare_seal(struct audit_log *log)
{
	struct atoll_error unheard;

	/* Ignore failures: audit_seal() tries again and reports them. */
	if (audit_flush(log, &unheard) == 0 && load_key(log, &unheard) < 0)
		put_key_away(log);
}

int audit_seal(struct audit_log *log, bool is_last, bool is_synced, struct atoll_error *err)
{
	int r = seal(log, is_last, is_synced, err);

	put_key_away(log);
	return r;
}

/* An empty file for the next log. */
#define SPARE "log/spare"

/* ---- opening and closing ---- */

/* The boot id: clocks of two boots cannot be compared. */
static void add_boot(struct json *json)
{
	cleanup_fd int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	char text[64];
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text);

	if (got < 1)
		json_none(json, "boot");
	else
		json_strn(json, "boot", text,
			  strcspn(text, "\n") < (size_t)got ? strcspn(text, "\n") : (size_t)got);
}

int audit_add_open(struct audit_log *log, const char *what, const char *parent,
		   struct atoll_error *err)
{
	struct json *json = audit_begin(log, "open", 0, 0);

	json_uint(json, "schema", 1);
	json_str(json, "atoll", ATOLL_VERSION);
	json_str(json, "store", log->key.store);
	json_str(json, "key", log->key.id);
	add_boot(json);
	json_str(json, "what", what);
	if (parent)
		json_str(json, "parent", parent);
	return audit_commit(log, err);
}

void audit_close(struct audit_log *log)
{
	if (!log)
		return;
	if (log->fd >= 0) {
		/* A child may still have the descriptor. */
		flock(log->fd, LOCK_UN);
		close(log->fd);
	}
	if (log->state_fd >= 0)
		close(log->state_fd);
	audit_key_done(&log->key);
	buf_done(&log->pending);
	free(log);
}

/* Opens the store and its key. */
int audit_new_log(const char *id, struct audit_log **ret, struct atoll_error *err)
{
	struct audit_log *log;
	char path[PATH_MAX];
	int r;

	if (!audit_is_id(id))
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL, "the id of a run '%s'", id);
	log = calloc(1, sizeof *log);
	if (!log)
		return error_oom(err);
	log->fd = -1;
	log->pending.limit = PENDING_MAX;
	snprintf(log->id, sizeof log->id, "%s", id);
	r = log->state_fd = state_open(true, path, err);
	if (r >= 0)
		r = audit_key_load(log->state_fd, &log->key, err);
	if (r < 0) {
		audit_close(log);
		return r;
	}
	put_key_away(log);
	*ret = log;
	return 0;
}

void audit_make_spare(const struct audit_log *log)
{
	int fd = openat(log->state_fd, SPARE, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			0600);

	if (fd >= 0)
		close(fd);
}

/* Renames log/spare to the log's name and opens it; -1 if there is no spare file, or it is not
 * an empty file of this user. */
static int open_spare(int state_fd, const char *path, int flags)
{
	struct stat st;
	int fd;

	if (renameat2(state_fd, SPARE, state_fd, path, RENAME_NOREPLACE) < 0)
		return -1;
	fd = openat(state_fd, path, flags & ~(O_CREAT | O_EXCL));
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0 &&
	    st.st_nlink == 1 && st.st_uid == geteuid() && (st.st_mode & 0777) == 0600)
		return fd;
	if (fd >= 0)
		close(fd);
	unlinkat(state_fd, path, 0);
	return -1;
}

int audit_open_file(struct audit_log *log, int flags, struct atoll_error *err)
{
	char path[64];
	int r;

	snprintf(path, sizeof path, "log/%s.jsonl", log->id);
	flags |= O_RDWR | O_APPEND | O_NOFOLLOW | O_CLOEXEC;
	log->fd = flags & O_EXCL ? open_spare(log->state_fd, path, flags) : -1;
	if (log->fd < 0)
		log->fd = openat(log->state_fd, path, flags, 0600);
	if (log->fd < 0 && errno == ENOENT && flags & O_CREAT) {
		if (mkdirat(log->state_fd, "log", 0700) < 0 && errno != EEXIST)
			return error_set(err, ATOLL_FAULT_HOST, errno, "create 'log' in the store");
		log->fd = openat(log->state_fd, path, flags, 0600);
	}
	if (log->fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "open the event log of run %s",
				 log->id);
	while ((r = flock(log->fd, LOCK_EX)) < 0 && errno == EINTR)
		;
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, errno, "lock the event log of run %s",
				 log->id)
		     : 0;
}

int audit_create(const char *id, const char *what, const char *parent, struct audit_log **ret,
		 struct atoll_error *err)
{
	struct audit_log *log;
	struct stat st;
	int r = audit_new_log(id, &log, err);

	if (r < 0)
		return r;
	log->is_sandbox = streq(what, "sandbox");
	r = audit_open_file(log, O_CREAT | O_EXCL, err);
	/* Another process may have written to the log before this one had the lock. */
	if (r == 0 && (fstat(log->fd, &st) < 0 || st.st_size > 0))
		r = error_set(err, ATOLL_FAULT_HOST, EEXIST, "the event log of run %s", id);
	if (r == 0)
		r = audit_add_open(log, what, parent, err);
	if (r < 0) {
		audit_close(log);
		return r;
	}
	*ret = log;
	return 0;
}
