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
 * The tree of logs
 *
 * runs.jsonl has a line for every log that was closed, chained as the lines of a log are, and they
 * are the leaves of a tree. Its signed head, `checkpoint`, also has the tree's right edge, in an
 * extension line, so that one more leaf needs neither the other lines nor a file more; it is
 * replaced as a whole. Whoever adds holds the lock of runs.jsonl.
 *
 * Nothing waits for the disk. A power loss may take the end of runs.jsonl and leave a checkpoint
 * that knows more: then a line says what was lost, and the tree goes on.
 */

#define CHECKPOINT_MAX 8192
#define CHECK_SIZE     32 /* crypto_auth_BYTES; its key is as long as a seed */
#define CHECK_TEXT     (1 + 2 * CHECK_SIZE + 1)

struct runs {
	int fd;
	struct audit_place place;
};

/* ---- where it stands ---- */

/* What is not signed yet, because its writer was interrupted, is taken for what it says only if
 * that takes nothing away. */
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

/*
 * At the end of the text: a sum over what stands before, by the private key. Whoever adds a leaf
 * has that key at hand, and each would check a signature otherwise, which takes a hundred times as
 * long; the signature is for all others.
 */
static void add_check(const struct audit_key *key, struct buf *text)
{
	unsigned char sum[CHECK_SIZE];
	char hex[2 * CHECK_SIZE + 1];

	crypto_auth(sum, (const unsigned char *)text->data, text->used, key->secret);
	hash_to_hex(sum, sizeof sum, hex);
	buf_addf(text, " %s\n", hex);
}

/* Where it begins, if the text ends with one: then it is not part of the place. */
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

/* Not part of others: a list of keys is three pages of stack, and is needed once in a store's life.
 */
__attribute__((noinline)) static bool is_signed(int state_fd, const struct audit_key *key,
						const char *note, size_t size)
{
	struct audit_trust trust = {0};
	char name[32];

	snprintf(name, sizeof name, "atoll/%s", key->store);
	return audit_trust_load(state_fd, true, &trust, NULL) >= 0 &&
	       audit_note_signer(note, size, name, &trust) >= 0;
}

/* By the store's key? After it was replaced, and without a sum, by the signature. */
static bool is_ours(int state_fd, const struct audit_key *key, const char *note, size_t size)
{
	return has_check(key, note, audit_note_text(note, size)) ||
	       is_signed(state_fd, key, note, size);
}

/* What the checkpoint says, or false where there is none, it makes no sense, or is not signed. */
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

/* Read what has been added behind `place`, and cut off a half line. */
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
		/* Nobody has signed what is there: it goes on behind a line that says so. */
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

/* To `out`, and to the place. */
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

/*
 * We hold the lock, so nobody else uses the other name. The two files change places, and each is
 * written over: replacing one by the other, or cutting it to nothing, would make ext4 write it to
 * the disk at once, which takes twenty times as long as all the rest.
 */
static int replace_checkpoint(int state_fd, const struct buf *note, struct atoll_error *err)
{
	cleanup_fd int fd = openat(state_fd, "log/checkpoint.old",
				   O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct stat st;
	int r = fd < 0 ? -errno : fd_write_all(fd, note->data, note->used);

	/* ext4 takes longer for a cut that cuts nothing than for the look. */
	if (r == 0 && (fstat(fd, &st) < 0 || st.st_size > (off_t)note->used) &&
	    ftruncate(fd, (off_t)note->used) < 0)
		r = -errno;
	if (r == 0 && renameat2(state_fd, "log/checkpoint.old", state_fd, "log/checkpoint",
				RENAME_EXCHANGE) < 0) {
		bool is_plain = errno == ENOENT || errno == EINVAL || errno == ENOSYS;

		/* The first one, or a file system that cannot. */
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

/* All of the text or nothing. */
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
