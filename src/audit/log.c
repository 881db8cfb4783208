/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/inner.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/state.h"
#include "base/str.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

/*
 * One log: lines to the file, chained, and heads
 *
 * Lines are made at the end of what waits to be written, so that none is copied. A line counts from
 * its commit on: it is in the chain and in the tree. What the file has is a beginning of that, and
 * may end within a line while the disk is full; nothing is taken back.
 *
 * A run's log is written once, a sandbox's goes on with every step. So a sandbox's has a file
 * beside it, ID.edge, with the place where the chain and the tree stand, and is not read again
 * from its beginning. What came behind that place, or all where the file is missing, is checked
 * before it is gone on from: who continues a log signs what was there.
 */

#define PENDING_MAX ((size_t)64 << 20)
#define EDGE_MAX    8192

struct audit_log {
	int state_fd, fd;
	char id[ATOLL_ID_SIZE];
	struct audit_key key;
	struct audit_place place; /* `bytes`: with those that wait */
	struct buf pending;
	size_t line_start, last_size; /* in `pending` */
	struct json json;
	bool is_sandbox;
	bool is_sealed, is_closed; /* the last line is a head; and says that it is the last */
	bool is_entered;	   /* and the store's tree knows */
	uint64_t head_size;	   /* of the latest head, if `is_sealed` */
	unsigned char head_root[HASH_SIZE];
};

/* ---- events ---- */

struct json *audit_begin(struct audit_log *log, const char *kind, uint64_t time_ns, uint32_t step)
{
	struct audit_line line = {.seq = log->place.edge.size, .step = step};

	memcpy(line.prev, log->place.prev, HASH_SIZE);
	audit_time_format(time_ns ? time_ns : clock_real_ns(), line.time);
	memcpy(line.run, log->id, sizeof line.run);
	snprintf(line.kind, sizeof line.kind, "%s", kind);
	log->line_start = log->pending.used;
	audit_line_format(&line, &log->pending);
	log->json = (struct json){&log->pending, true};
	return &log->json;
}

/* The line that waits at the end becomes part of the chain, or is dropped. */
static int commit_line(struct audit_log *log, struct atoll_error *err)
{
	size_t size = log->pending.used - log->line_start;
	int r;

	if (size > AUDIT_LINE_MAX && !log->pending.failed)
		log->pending.failed = E2BIG;
	/* Its end, while it can still be dropped. */
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
	return error_set(err, ATOLL_FAULT_HOST, -r, "write the record of run %s", log->id);
}

/* ---- the place, beside the log ---- */

static void edge_check(const char *text, size_t size, char ret[HASH_HEX_SIZE])
{
	hash_sha256_hex(text, size, ret);
}

/* Not told if it fails: without it the log is read again. */
static void save_place(const struct audit_log *log)
{
	AUDIT_STACK_BUF(text, EDGE_MAX);
	cleanup_fd int fd = -1;
	char path[64], check[HASH_HEX_SIZE];

	audit_place_format(&log->place, &text);
	buf_addf(&text, "\nkey %s\n", log->key.id);
	if (buf_error(&text) < 0)
		return;
	edge_check(text.data, text.used, check);
	buf_addf(&text, "check %s\n", check);
	snprintf(path, sizeof path, "log/%s.edge", log->id);
	/* Written over, not cut to nothing first: ext4 would wait for the disk. */
	fd = openat(log->state_fd, path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0 && (buf_error(&text) < 0 || fd_write_all(fd, text.data, text.used) < 0 ||
			ftruncate(fd, (off_t)text.used) < 0))
		unlinkat(log->state_fd, path, 0);
}

/* Where the log stood, and which key had signed it. */
static bool load_place(int state_fd, const char *id, struct audit_place *ret,
		       char ret_key[AUDIT_KEY_SIZE])
{
	cleanup_fd int fd = -1;
	char path[64], text[EDGE_MAX], check[HASH_HEX_SIZE];
	const char *second, *third;
	ssize_t got;

	snprintf(path, sizeof path, "log/%s.edge", id);
	fd = openat(state_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (got <= 0)
		return false;
	text[got] = '\0';
	second = strchr(text, '\n');
	third = second ? strchr(second + 1, '\n') : NULL;
	if (!third || third - second != 1 + 4 + 16 || strlen(third) != 1 + 6 + 64 + 1)
		return false;
	edge_check(text, (size_t)(third + 1 - text), check);
	if (memcmp(third + 7, check, 64) != 0 ||
	    !audit_place_parse(text, (size_t)(second - text), ret))
		return false;
	snprintf(ret_key, AUDIT_KEY_SIZE, "%.16s", second + 5);
	return true;
}

/* ---- heads ---- */

/* A line for each hand-over since the key that signed last. */
static int add_hand_overs(struct audit_log *log, const char *key, struct atoll_error *err)
{
	char id[AUDIT_KEY_SIZE], to[AUDIT_KEY_SIZE], note[AUDIT_HAND_OVER_MAX];
	int r = 0;

	snprintf(id, sizeof id, "%s", key);
	for (unsigned i = 0; r == 0 && i < AUDIT_TRUST_MAX && !streq(id, log->key.id); i++) {
		int size = audit_hand_over_read(log->state_fd, id, note, to);
		struct json *json;

		if (size < 0)
			break; /* then it is for the store's hand-overs to say who signs now */
		json = audit_begin(log, "key", 0, 0);
		json_str(json, "old", id);
		json_str(json, "new", to);
		json_strn(json, "note", note, (size_t)size);
		r = audit_commit(log, err);
		snprintf(id, sizeof id, "%s", to);
	}
	return r;
}

/*
 * The private key is in memory only while it signs: whoever writes the log of a run also clones
 * what becomes its sandbox, with all that is in memory then. It may have been replaced meanwhile.
 */
static void put_key_away(struct audit_log *log)
{
	sodium_memzero(log->key.secret, sizeof log->key.secret);
}

static int take_key(struct audit_log *log, struct atoll_error *err)
{
	char before[AUDIT_KEY_SIZE];
	int r;

	memcpy(before, log->key.id, sizeof before);
	r = audit_key_read(log->state_fd, &log->key, err);
	if (r == -ENOENT)
		error_set(err, ATOLL_FAULT_HOST, ENOENT,
			  "the signing key (keys/key.pem in the store)");
	if (r == 0 && !streq(before, log->key.id))
		r = add_hand_overs(log, before, err);
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
	int r = audit_runs_enter(log->state_fd, &log->key, log->id, "closed", log->head_size,
				 log->head_root, is_synced, err);

	if (r == 0)
		log->is_entered = true;
	return r < 0 ? error_context(err, r, "enter run %s", log->id) : 0;
}

static int seal(struct audit_log *log, bool is_last, bool is_synced, struct atoll_error *err)
{
	int r = take_key(log, err);

	if (r < 0)
		return r;
	if (!log->is_sealed || (is_last && !log->is_closed))
		r = add_head(log, is_last, err);
	if (r == 0)
		r = audit_flush(log, err);
	if (r == 0 && is_synced && fdatasync(log->fd) < 0)
		r = error_set(err, ATOLL_FAULT_HOST, errno,
			      "write the record of run %s to the disk", log->id);
	if (r < 0)
		return r;
	if (log->is_sandbox)
		save_place(log);
	return log->is_closed && !log->is_entered ? enter(log, is_synced, err) : 0;
}

int audit_seal(struct audit_log *log, bool is_last, bool is_synced, struct atoll_error *err)
{
	int r = seal(log, is_last, is_synced, err);

	put_key_away(log);
	return r;
}

/* ---- opening and closing ---- */

/* The machine's boot: one cannot tell the order of times in two of them. */
static void add_boot(struct json *json)
{
	cleanup_fd int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	char text[64];
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text);

	if (got < 1)
		json_null(json, "boot");
	else
		json_strn(json, "boot", text,
			  strcspn(text, "\n") < (size_t)got ? strcspn(text, "\n") : (size_t)got);
}

static int add_open(struct audit_log *log, const char *what, const char *parent,
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

/* The store and the key. */
static int new_log(const char *id, struct audit_log **ret, struct atoll_error *err)
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

static int open_file(struct audit_log *log, int flags, struct atoll_error *err)
{
	char path[64];
	int r;

	snprintf(path, sizeof path, "log/%s.jsonl", log->id);
	flags |= O_RDWR | O_APPEND | O_NOFOLLOW | O_CLOEXEC;
	log->fd = openat(log->state_fd, path, flags, 0600);
	if (log->fd < 0 && errno == ENOENT && flags & O_CREAT) {
		if (mkdirat(log->state_fd, "log", 0700) < 0 && errno != EEXIST)
			return error_set(err, ATOLL_FAULT_HOST, errno, "create 'log' in the store");
		log->fd = openat(log->state_fd, path, flags, 0600);
	}
	if (log->fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "open the record of run %s",
				 log->id);
	while ((r = flock(log->fd, LOCK_EX)) < 0 && errno == EINTR)
		;
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, errno, "lock the record of run %s", log->id)
		     : 0;
}

int audit_create(const char *id, const char *what, const char *parent, struct audit_log **ret,
		 struct atoll_error *err)
{
	struct audit_log *log;
	struct stat st;
	int r = new_log(id, &log, err);

	if (r < 0)
		return r;
	log->is_sandbox = streq(what, "sandbox");
	r = open_file(log, O_CREAT | O_EXCL, err);
	/* Somebody may have gone on with it before we had the lock. */
	if (r == 0 && (fstat(log->fd, &st) < 0 || st.st_size > 0))
		r = error_set(err, ATOLL_FAULT_HOST, EEXIST, "the record of run %s", id);
	if (r == 0)
		r = add_open(log, what, parent, err);
	if (r < 0) {
		audit_close(log);
		return r;
	}
	*ret = log;
	return 0;
}

/* ---- going on ---- */

/* Check what is there, from where we know it on. */
static int catch_up(struct audit_log *log, struct audit_check *check, uint64_t size,
		    uint64_t *ret_rest, struct atoll_error *err)
{
	struct audit_trust trust = {0};
	int r;

	*ret_rest = 0;
	if (check->place.bytes == size)
		return 0;
	audit_trust_add(&trust, log->key.public);
	r = audit_trust_load(log->state_fd, false, &trust, err);
	if (r < 0)
		return r;
	check->trust = &trust;
	if (lseek(log->fd, (off_t)check->place.bytes, SEEK_SET) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "read the record of run %s",
				 log->id);
	r = audit_check_fd(check, log->fd, ret_rest, err);
	check->trust = NULL;
	return r < 0 ? error_context(
			       err, r,
			       "the record of run %s was changed and is not gone on with (see "
			       "atoll verify)",
			       log->id)
		     : 0;
}

static int add_cut(struct audit_log *log, uint64_t rest, struct atoll_error *err)
{
	struct json *json = audit_begin(log, "cut", 0, 0);

	json_uint(json, "bytes", rest);
	return audit_commit(log, err);
}

static int go_on(struct audit_log *log, struct atoll_error *err)
{
	struct audit_check check = {0};
	struct stat st;
	uint64_t rest;
	int r;

	if (fstat(log->fd, &st) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "look at the record of run %s",
				 log->id);
	if (st.st_nlink == 0)
		return error_set(err, ATOLL_FAULT_HOST, ENOENT, "the record of run %s", log->id);
	memcpy(check.run, log->id, sizeof check.run);
	memcpy(check.store, log->key.store, sizeof check.store);
	if (!load_place(log->state_fd, log->id, &check.place, check.key) ||
	    check.place.bytes > (uint64_t)st.st_size) {
		check.place = (struct audit_place){0};
		check.key[0] = '\0';
	}
	r = catch_up(log, &check, (uint64_t)st.st_size, &rest, err);
	if (r < 0)
		return r;
	log->place = check.place;
	if (rest && ftruncate(log->fd, (off_t)log->place.bytes) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno,
				 "cut a half line off the record of run %s", log->id);
	if (log->place.edge.size == 0)
		r = add_open(log, "sandbox", NULL, err);
	if (r == 0 && rest)
		r = add_cut(log, rest, err);
	if (r == 0 && check.key[0])
		r = add_hand_overs(log, check.key, err);
	return r;
}

int audit_reopen(const char *id, struct audit_log **ret, struct atoll_error *err)
{
	struct audit_log *log;
	int r = new_log(id, &log, err);

	if (r < 0)
		return r;
	log->is_sandbox = true;
	r = open_file(log, 0, err);
	if (r == 0)
		r = go_on(log, err);
	if (r < 0) {
		audit_close(log);
		return r;
	}
	*ret = log;
	return 0;
}
