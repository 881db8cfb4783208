/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/runs.h"

#include "audit/audit-base.h"
#include "audit/key-trust.h"
#include "audit/key.h"
#include "audit/log-check.h"
#include "audit/log-line.h"
#include "audit/merkle.h"
#include "audit/note.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "base/uapi.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

/*
 * Adds to the store's tree of logs
 *
 * log/runs.jsonl has a line for each closed log. The lines are chained like those of a log and are
 * the leaves of a Merkle tree. Its signed head, log/checkpoint, contains the right edge of the tree
 * in an extension line, so a new leaf needs no other line. The head is replaced as a whole. A
 * process that adds a leaf has the lock of runs.jsonl.
 *
 * Nothing waits for the disk. After a power failure the end of runs.jsonl may be missing, while the
 * head includes it. Then a line of the kind "lost" states that, and the tree continues.
 */

#define CHECKPOINT_MAX 8192
#define CHECK_SIZE     32 /* crypto_auth_BYTES; its key is as long as a seed */
#define CHECK_TEXT     (1 + 2 * CHECK_SIZE + 1)

struct runs {
	int fd;
	struct audit_place place;
};

/* ---- where it stands ---- */

/* Accepts lines after the signed head, from a writer that was killed, unless they are removals. */
static int follow_line(void *arg, const char *text, size_t size, struct atoll_error *err)
{
	struct audit_place *place = arg;
	struct audit_line line;
	const char *fault = audit_line_parse(text, size, &line);

	if (!fault &&
	    (line.seq != place->edge.size || memcmp(line.prev, place->prev, HASH_SIZE) != 0))
		fault = "it does not follow from the line before";
	if (fault)
		return audit_refuse(err, ATOLL_FAULT_POLICY, EBADMSG,
				    "the list of runs (log/runs.jsonl in the store), line %" PRIu64
				    ": %s; see atoll verify --all",
				    place->edge.size + 1, fault);
	if (!streq(line.kind, "closed"))
		return -ECANCELED;
	audit_leaf(text, size, place->prev);
	audit_edge_add(&place->edge, place->prev);
	place->bytes += size + 1;
	return 0;
}

/* Appends a MAC, by the private key, to the text. The next process that adds a leaf has that
 * key, and checking a MAC takes a hundredth of the time of a signature. The signature is for all
 * others. */
static void add_check(const struct audit_key *key, struct buf *text)
{
	unsigned char sum[CHECK_SIZE];
	char hex[2 * CHECK_SIZE + 1];

	crypto_auth(sum, (const unsigned char *)text->data, text->used, key->secret);
	hash_to_hex(sum, sizeof sum, hex);
	buf_addf(text, " %s\n", hex);
}

/* Finds the MAC at the end of the text; it is not part of the position. */
static const char *find_check(const char *text, size_t size, unsigned char ret[CHECK_SIZE])
{
	const char *check = size > CHECK_TEXT ? text + size - CHECK_TEXT : NULL;

	return check && check[0] == ' ' && text[size - 1] == '\n' &&
			       hash_from_hex(check + 1, CHECK_SIZE, ret)
		       ? check
		       : NULL;
}

static bool has_check(const struct audit_key *key, const char *text, size_t size)
{
	unsigned char sum[CHECK_SIZE];
	const char *check = find_check(text, size, sum);

	return check && crypto_auth_verify(sum, (const unsigned char *)text, (size_t)(check - text),
					   key->secret) == 0;
}

/* Not inlined: a list of keys needs three pages of stack, and this is called after a key
 * rotation only. */
__attribute__((noinline)) static bool is_signed(int state_fd, const struct audit_key *key,
						const char *note, size_t size)
{
	struct audit_trust trust = {0};
	char name[32];

	snprintf(name, sizeof name, "atoll/%s", key->store);
	return audit_trust_load(state_fd, true, &trust, NULL) >= 0 &&
	       audit_note_signer(note, size, name, &trust) >= 0;
}

/* Checks the MAC; without a valid one, after a key rotation, the signature. */
static bool is_ours(int state_fd, const struct audit_key *key, const char *note, size_t size)
{
	return has_check(key, note, audit_note_text(note, size)) ||
	       is_signed(state_fd, key, note, size);
}

/* Reads the signed head; false if it is missing, malformed or not signed. */
static bool read_checkpoint(int state_fd, const struct audit_key *key, struct audit_head *ret_head,
			    struct audit_place *ret)
{
	cleanup_fd int fd = openat(state_fd, "log/checkpoint", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	char text[CHECKPOINT_MAX];
	unsigned char root[HASH_SIZE], sum[CHECK_SIZE];
	const char *end;
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

	if (got <= 0)
		return false;
	text[got] = '\0';
	if (!is_ours(state_fd, key, text, (size_t)got) ||
	    !audit_head_parse(text, (size_t)got, ret_head))
		return false;
	if (ret_head->more_size < 1)
		return false;
	end = find_check(ret_head->more, ret_head->more_size, sum);
	end = end ? end : ret_head->more + ret_head->more_size - 1;
	if (!audit_place_parse(ret_head->more, (size_t)(end - ret_head->more), ret) ||
	    ret->edge.size != ret_head->size)
		return false;
	ret_head->more = NULL;
	ret_head->more_size = 0;
	audit_edge_root(&ret->edge, root);
	return memcmp(root, ret_head->root, HASH_SIZE) == 0;
}

/* Reads the lines after `place`, and cuts off an incomplete one. */
static int follow(struct runs *runs, uint64_t size, struct atoll_error *err)
{
	uint64_t cut;
	int r;

	if (size == runs->place.bytes)
		return 0;
	if (lseek(runs->fd, (off_t)runs->place.bytes, SEEK_SET) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "read the list of runs");
	r = audit_each_line(runs->fd, follow_line, &runs->place, &cut, err);
	if (r < 0 && r != -ECANCELED)
		return r;
	if ((cut || r < 0) && ftruncate(runs->fd, (off_t)runs->place.bytes) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno,
				 "cut what is not signed off the list of runs");
	return 0;
}

static int open_runs(int state_fd, const struct audit_key *key, struct runs *ret,
		     struct audit_head *ret_head, struct atoll_error *err)
{
	cleanup_fd int fd = openat(state_fd, "log/runs.jsonl",
				   O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct stat st;
	int r;

	if (fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "open the list of runs");
	while ((r = flock(fd, LOCK_EX)) < 0 && errno == EINTR)
		;
	if (r < 0 || fstat(fd, &st) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "lock the list of runs");
	*ret_head = (struct audit_head){0};
	if (!read_checkpoint(state_fd, key, ret_head, &ret->place)) {
		/* The lines have no signed head: continue after them with a line of the kind
		 * "lost". */
		*ret_head = (struct audit_head){.size = st.st_size > 0 ? UINT64_MAX : 0};
		ret->place = (struct audit_place){0};
	}
	if (ret->place.bytes > (uint64_t)st.st_size)
		ret->place = (struct audit_place){0};
	ret->fd = fd;
	r = follow(ret, (uint64_t)st.st_size, err);
	if (r < 0)
		return r;
	take_fd(&fd);
	return 0;
}

/* ---- one line more ---- */

/* Appends an entry to `out` and advances the position. */
static int add_entry(struct audit_place *place, const struct audit_run_entry *entry,
		     const struct audit_key *key, struct buf *out)
{
	struct audit_line line = {.seq = place->edge.size};
	struct json json = {out, true};
	size_t start = out->used;
	int r;

	memcpy(line.prev, place->prev, HASH_SIZE);
	audit_time_format(clock_real_ns(), line.time);
	snprintf(line.run, sizeof line.run, "%s", entry->run);
	snprintf(line.kind, sizeof line.kind, "%s", entry->kind);
	audit_line_format(&line, out);
	json_uint(&json, "size", entry->size);
	buf_add_str(out, ",\"root\":\"");
	audit_base64(entry->root, HASH_SIZE, out);
	buf_add_char(out, '"');
	json_str(&json, "key", key->id);
	json_close(&json, '}');
	r = buf_error(out);
	if (r < 0)
		return r;
	audit_leaf(out->data + start, out->used - start, place->prev);
	audit_edge_add(&place->edge, place->prev);
	buf_add_char(out, '\n');
	place->bytes += out->used - start;
	return buf_error(out);
}

/* The lock is held, so no other process uses checkpoint.old. Exchange the two names and
 * overwrite: a rename over a file, or O_TRUNC, makes ext4 flush it at once, which takes 20 times
 * as long as all other work here. */
static int replace_checkpoint(int state_fd, const struct buf *note, struct atoll_error *err)
{
	cleanup_fd int fd = openat(state_fd, "log/checkpoint.old",
				   O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct stat st;
	int r = fd < 0 ? -errno : fd_write_all(fd, note->data, note->used);

	/* On ext4 a truncate without effect costs more than fstat(). */
	if (r == 0 && (fstat(fd, &st) < 0 || st.st_size > (off_t)note->used) &&
	    ftruncate(fd, (off_t)note->used) < 0)
		r = -errno;
	if (r == 0 && renameat2(state_fd, "log/checkpoint.old", state_fd, "log/checkpoint",
				RENAME_EXCHANGE) < 0) {
		bool is_plain = errno == ENOENT || errno == EINVAL || errno == ENOSYS;

		/* There is no checkpoint yet, or the file system lacks RENAME_EXCHANGE. */
		if (!is_plain ||
		    renameat(state_fd, "log/checkpoint.old", state_fd, "log/checkpoint") < 0)
			r = -errno;
	}
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "write the store's checkpoint") : 0;
}

static int write_checkpoint(int state_fd, const struct audit_place *place,
			    const struct audit_key *key, struct atoll_error *err)
{
	AUDIT_STACK_BUF(more, CHECKPOINT_MAX);
	AUDIT_STACK_BUF(text, CHECKPOINT_MAX);
	AUDIT_STACK_BUF(note, CHECKPOINT_MAX);
	struct audit_head head = {.size = place->edge.size};

	snprintf(head.origin, sizeof head.origin, "atoll/%s", key->store);
	audit_edge_root(&place->edge, head.root);
	audit_place_format(place, &more);
	head.more = more.data;
	head.more_size = more.used;
	if (buf_error(&more) == 0)
		audit_head_format(&head, &text);
	if (buf_error(&more) == 0 && buf_error(&text) == 0)
		add_check(key, &text);
	if (buf_error(&more) < 0 || buf_error(&text) < 0)
		return error_oom(err);
	audit_note_sign(key, text.data, text.used, &note);
	if (buf_error(&note) < 0)
		return error_oom(err);
	return replace_checkpoint(state_fd, &note, err);
}

/* Appends the whole text; on failure truncates the file to its size before. */
static int append(const struct runs *runs, const struct buf *text, bool is_synced,
		  struct atoll_error *err)
{
	uint64_t before = runs->place.bytes - text->used;
	int r = fd_write_all(runs->fd, text->data, text->used);

	if (r == 0 && is_synced && fdatasync(runs->fd) < 0)
		r = -errno;
	if (r == 0)
		return 0;
	if (ftruncate(runs->fd, (off_t)before) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "cut the list of runs");
	return error_set(err, ATOLL_FAULT_HOST, -r, "write the list of runs");
}

int audit_runs_enter(int state_fd, const struct audit_key *key, const struct audit_run_entry *entry,
		     bool is_synced, struct atoll_error *err)
{
	AUDIT_STACK_BUF(text, 4096);
	struct audit_head head;
	struct runs runs;
	cleanup_fd int fd = -1;
	int r = open_runs(state_fd, key, &runs, &head, err);

	if (r < 0)
		return r;
	fd = runs.fd; /* closed with the scope; NOLINT(clang-analyzer-deadcode.DeadStores) */
	if (runs.place.edge.size < head.size) {
		struct audit_run_entry lost = {
			.run = entry->run, .kind = "lost", .size = head.size, .root = head.root};

		if (head.size == UINT64_MAX)
			lost.size = 0;
		if (add_entry(&runs.place, &lost, key, &text) < 0)
			return error_oom(err);
	}
	if (add_entry(&runs.place, entry, key, &text) < 0)
		return error_oom(err);
	r = append(&runs, &text, is_synced, err);
	return r < 0 ? r : write_checkpoint(state_fd, &runs.place, key, err);
}
