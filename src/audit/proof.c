/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/key-trust.h"
#include "audit/log-check.h"
#include "audit/log-line.h"
#include "audit/merkle.h"
#include "audit/note.h"
#include "audit/verify.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/state.h"
#include "base/str.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * Proofs (RFC 6962): that a line is in a log, without the other lines; and that a head kept
 * elsewhere stands for the beginning of what there is now
 *
 *	{"proof":"inclusion","line":"...","seq":7,"hashes":["..."],"note":"..."}
 *	{"proof":"consistency","old":"...","hashes":["..."],"note":"..."}
 *
 * Hashes are in base64. What a proof says of sizes and roots stands in its notes, which are signed.
 */

#define PROOF_MAX ((size_t)2 << 20)
#define NOTE_MAX  8192

/* ---- leaves ---- */

/* The leaf hashes of a log or of the store's tree, one wanted line, and the latest head. */
struct leaves {
	unsigned char (*hashes)[HASH_SIZE];
	uint64_t n, room;
	uint64_t wanted; /* UINT64_MAX: none */
	char *line;
	char note[NOTE_MAX]; /* of the latest head, or "" */
	bool is_log;
};

static void leaves_done(struct leaves *leaves)
{
	free(leaves->hashes);
	free(leaves->line);
}

static int add_leaf(void *arg, const char *text, size_t size, struct atoll_error *err)
{
	struct leaves *leaves = arg;
	struct audit_line line;

	if (leaves->n == leaves->room) {
		uint64_t room = leaves->room ? 2 * leaves->room : 1024;
		void *more = reallocarray(leaves->hashes, room, HASH_SIZE);

		if (!more)
			return error_oom(err);
		leaves->hashes = more;
		leaves->room = room;
	}
	if (leaves->is_log && !audit_line_parse(text, size, &line) && streq(line.kind, "head"))
		audit_line_string(&line, "note", leaves->note, sizeof leaves->note);
	if (leaves->n == leaves->wanted && !(leaves->line = strndup(text, size)))
		return error_oom(err);
	audit_leaf(text, size, leaves->hashes[leaves->n++]);
	return 0;
}

/* Reads the leaves; `run` is "" for the store's tree. Does not check the log: finish() checks
 * the proof before it is printed. */
static int read_leaves(int state_fd, const char *run, struct leaves *leaves,
		       struct atoll_error *err)
{
	cleanup_fd int fd = -1, note_fd = -1;
	char path[64];
	uint64_t cut;
	ssize_t got;

	leaves->is_log = run[0];
	if (!leaves->is_log) {
		note_fd = openat(state_fd, "log/checkpoint", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		got = note_fd < 0 ? -1 : read(note_fd, leaves->note, sizeof leaves->note - 1);
		leaves->note[got < 0 ? 0 : got] = '\0';
	}
	snprintf(path, sizeof path, "log/%s.jsonl", leaves->is_log ? run : "runs");
	fd = openat(state_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, errno, "open '%s' in the store", path);
	return audit_each_line(fd, add_leaf, leaves, &cut, err);
}

static void add_hashes(struct json *json, unsigned char (*hashes)[HASH_SIZE], size_t n)
{
	json_open(json, "hashes", '[');
	for (size_t i = 0; i < n; i++) {
		buf_add_str(json->out, i ? ",\"" : "\"");
		audit_base64(hashes[i], HASH_SIZE, json->out);
		buf_add_char(json->out, '"');
	}
	json_close(json, ']');
}

/* ---- checking ---- */

static int bad_proof(struct atoll_verified *ret, const char *why)
{
	ret->finding = ATOLL_FINDING_BROKEN;
	snprintf(ret->text, sizeof ret->text, "the proof does NOT hold: %s", why);
	return 0;
}

static bool get_string(const char *text, size_t size, const char *key, char *ret, size_t room)
{
	const char *value;
	size_t length;

	return audit_json_member(text, size, key, &value, &length) == 0 &&
	       audit_json_string(value, length, ret, room) >= 0;
}

static bool get_hashes(const char *text, size_t size, unsigned char (*ret)[HASH_SIZE],
		       size_t *ret_n)
{
	const char *at, *end;
	size_t length;

	if (audit_json_member(text, size, "hashes", &at, &length) < 0 || *at != '[')
		return false;
	end = at + length - 1;
	*ret_n = 0;
	for (at++; at < end; at += 47) {
		/* "44 characters" and a comma, or the end */
		if (*ret_n == AUDIT_PROOF_MAX || end - at < 46 || at[0] != '"' || at[45] != '"' ||
		    (at + 46 < end && at[46] != ',') ||
		    !audit_from_base64(at + 1, 44, ret[(*ret_n)++], HASH_SIZE))
			return false;
	}
	return true;
}

/* Reads a head and checks that a trusted key has signed it under the name in its origin. */
static bool get_head(const char *note, const struct audit_trust *trust, struct audit_head *ret,
		     struct atoll_verified *found)
{
	char name[64];
	int signer;

	if (!audit_head_parse(note, strlen(note), ret))
		return false;
	snprintf(name, sizeof name, "%s", ret->origin);
	name[strcspn(name, " ")] = '\0';
	signer = audit_note_signer(note, strlen(note), name, trust);
	if (signer < 0)
		return false;
	memcpy(found->key, trust->keys[signer].id, sizeof found->key);
	snprintf(found->store, sizeof found->store, "%.16s",
		 name + (starts_with(name, "atoll/") ? 6 : 0));
	if (strstr(ret->origin, " - "))
		snprintf(found->run, sizeof found->run, "%s", strstr(ret->origin, " - ") + 3);
	return true;
}

static int check_inclusion(const char *text, size_t size, const struct audit_trust *trust,
			   struct atoll_verified *ret, struct atoll_error *err)
{
	unsigned char hashes[AUDIT_PROOF_MAX][HASH_SIZE], leaf[HASH_SIZE];
	cleanup_free char *line = malloc(PROOF_MAX);
	struct audit_line parsed;
	struct audit_head head;
	char note[NOTE_MAX];
	size_t n;

	if (!line)
		return error_oom(err);
	if (!get_string(text, size, "line", line, PROOF_MAX) ||
	    audit_line_parse(line, strlen(line), &parsed))
		return bad_proof(ret, "it has no line");
	if (!get_hashes(text, size, hashes, &n))
		return bad_proof(ret, "it has no hashes");
	if (!get_string(text, size, "note", note, sizeof note) ||
	    !get_head(note, trust, &head, ret))
		return bad_proof(ret, "it has no head that is signed by a key that is trusted");
	audit_leaf(line, strlen(line), leaf);
	if (!audit_check_inclusion(leaf, parsed.seq, head.size, (const void *)hashes, n, head.root))
		return bad_proof(ret, "the line is not in what the head stands for");
	ret->n_lines = ret->n_signed = head.size;
	snprintf(ret->text, sizeof ret->text,
		 "proved: line %" PRIu64 " of %s is under the head of %" PRIu64
		 " lines, signed by key %s",
		 parsed.seq + 1, head.origin, head.size, ret->key);
	return 0;
}

static int check_consistency(const char *text, size_t size, const struct audit_trust *trust,
			     struct atoll_verified *ret)
{
	unsigned char hashes[AUDIT_PROOF_MAX][HASH_SIZE];
	struct audit_head old, head;
	char old_note[NOTE_MAX], note[NOTE_MAX];
	size_t n;

	if (!get_hashes(text, size, hashes, &n))
		return bad_proof(ret, "it has no hashes");
	if (!get_string(text, size, "old", old_note, sizeof old_note) ||
	    !get_string(text, size, "note", note, sizeof note) ||
	    !get_head(old_note, trust, &old, ret) || !get_head(note, trust, &head, ret))
		return bad_proof(ret,
				 "it has no two heads that are signed by a key that is trusted");
	if (!streq(old.origin, head.origin))
		return bad_proof(ret, "the heads are of two logs");
	if (!audit_check_consistency(old.size, old.root, head.size, head.root, (const void *)hashes,
				     n))
		return bad_proof(ret, "the old head is not the beginning of the new one");
	ret->n_lines = ret->n_signed = head.size;
	snprintf(ret->text, sizeof ret->text,
		 "proved: the first %" PRIu64 " lines of %s are the same under the head of %" PRIu64
		 ", signed by key %s",
		 old.size, head.origin, head.size, ret->key);
	return 0;
}

static int check_proof(const char *text, size_t size, const struct audit_trust *trust,
		       struct atoll_verified *ret, struct atoll_error *err)
{
	char kind[16];

	*ret = (struct atoll_verified){0};
	while (size && (text[size - 1] == '\n' || text[size - 1] == '\r'))
		size--;
	if (!audit_json_is_valid(text, size) || !get_string(text, size, "proof", kind, sizeof kind))
		return bad_proof(ret, "this is none");
	if (streq(kind, "inclusion"))
		return check_inclusion(text, size, trust, ret, err);
	if (streq(kind, "consistency"))
		return check_consistency(text, size, trust, ret);
	return bad_proof(ret, "this is none that is known here");
}

int atoll_check_proof(const char *path, const struct atoll_verify_options *options,
		      struct atoll_verified *ret, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(PROOF_MAX);
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC), state_fd = -1;
	struct audit_trust trust = {0};
	char store[PATH_MAX];
	int r = fd < 0 ? -errno : fd_read_all(fd, &text);

	if (r < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, -r, "read the proof '%s'", path);
	state_fd = state_open(false, store, NULL);
	r = audit_trust_for(state_fd, options, &trust, err);
	return r < 0 ? r : check_proof(text.data ? text.data : "", text.used, &trust, ret, err);
}

/* ---- making ---- */

/* Returns the proof if it is valid. */
static int finish(struct buf *out, const struct audit_trust *trust, char **ret,
		  struct atoll_error *err)
{
	struct atoll_verified found;
	int r;

	buf_add_str(out, "}\n");
	if (buf_error(out) < 0)
		return error_oom(err);
	r = check_proof(out->data, out->used, trust, &found, err);
	if (r == 0 && found.finding != ATOLL_FINDING_GOOD)
		r = error_set(err, ATOLL_FAULT_POLICY, 0, "%s; see atoll verify", found.text);
	if (r == 0 && !(*ret = buf_take(out)))
		r = error_oom(err);
	return r;
}

static int open_for_proof(const struct atoll_verify_options *options, struct audit_trust *ret,
			  struct atoll_error *err)
{
	char path[PATH_MAX];
	int fd = state_open(false, path, err), r;

	if (fd == -ENOENT)
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "there is no record here");
	if (fd < 0)
		return fd;
	r = audit_trust_for(fd, options, ret, err);
	if (r < 0) {
		close(fd);
		return r;
	}
	return fd;
}

static int prove_line(struct leaves *leaves, const struct audit_trust *trust, char **ret,
		      struct atoll_error *err)
{
	unsigned char hashes[AUDIT_PROOF_MAX][HASH_SIZE];
	cleanup_buf struct buf out = BUF_INIT(PROOF_MAX);
	struct json json = {&out, false};
	struct audit_head head = {0};
	size_t n;

	if (!leaves->line)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "the log has %" PRIu64 " lines, numbered from 0", leaves->n);
	if (!audit_head_parse(leaves->note, strlen(leaves->note), &head) ||
	    head.size <= leaves->wanted || head.size > leaves->n)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "no head stands for line %" PRIu64 " yet", leaves->wanted);
	n = audit_prove_inclusion((const void *)leaves->hashes, head.size, leaves->wanted, hashes);
	json_open(&json, NULL, '{');
	json_str(&json, "proof", "inclusion");
	json_str(&json, "line", leaves->line);
	json_uint(&json, "seq", leaves->wanted);
	add_hashes(&json, hashes, n);
	json_str(&json, "note", leaves->note);
	return finish(&out, trust, ret, err);
}

int atoll_prove(const char *id, uint64_t seq, const struct atoll_verify_options *options,
		char **ret_json, struct atoll_error *err)
{
	struct audit_trust trust = {0};
	struct leaves leaves = {.wanted = seq};
	cleanup_fd int state_fd = open_for_proof(options, &trust, err);
	char run[ATOLL_ID_SIZE];
	int r = state_fd < 0 ? state_fd : audit_find_log(state_fd, id, run, err);

	if (r == -ENOENT)
		r = error_set(err, ATOLL_FAULT_REQUEST, 0, "there is no log of '%s'",
			      id ? id : "a run");
	if (r >= 0)
		r = read_leaves(state_fd, run, &leaves, err);
	if (r >= 0)
		r = prove_line(&leaves, &trust, ret_json, err);
	leaves_done(&leaves);
	return r;
}

static int prove_old(struct leaves *leaves, const char *old_note, const struct audit_head *old,
		     const struct audit_trust *trust, char **ret, struct atoll_error *err)
{
	unsigned char hashes[AUDIT_PROOF_MAX][HASH_SIZE];
	cleanup_buf struct buf out = BUF_INIT(PROOF_MAX);
	struct json json = {&out, false};
	struct audit_head head = {0};
	size_t n;

	if (!audit_head_parse(leaves->note, strlen(leaves->note), &head) || head.size > leaves->n)
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "there is no head now; see atoll verify");
	if (old->size > head.size)
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "the head stands for %" PRIu64 " lines, and now there are %" PRIu64
				 ": lines are gone",
				 old->size, head.size);
	n = audit_prove_consistency((const void *)leaves->hashes, head.size, old->size, hashes);
	json_open(&json, NULL, '{');
	json_str(&json, "proof", "consistency");
	json_str(&json, "old", old_note);
	add_hashes(&json, hashes, n);
	json_str(&json, "note", leaves->note);
	return finish(&out, trust, ret, err);
}

int atoll_prove_consistency(const char *head_path, const struct atoll_verify_options *options,
			    char **ret_json, struct atoll_error *err)
{
	struct audit_trust trust = {0};
	struct leaves leaves = {.wanted = UINT64_MAX};
	cleanup_buf struct buf text = BUF_INIT(NOTE_MAX - 1);
	cleanup_fd int fd = open(head_path, O_RDONLY | O_CLOEXEC), state_fd = -1;
	struct audit_head old;
	const char *run;
	int r = fd < 0 ? -errno : fd_read_all(fd, &text);

	if (r < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, -r, "read the head '%s'", head_path);
	if (!text.used || strlen(text.data) != text.used ||
	    !audit_head_parse(text.data, text.used, &old))
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "'%s' is no signed note of a head",
				 head_path);
	run = strstr(old.origin, " - ");
	if (run && !audit_is_id(run + 3))
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "'%s' is of no log of ours",
				 head_path);
	r = state_fd = open_for_proof(options, &trust, err);
	if (r >= 0)
		r = read_leaves(state_fd, run ? run + 3 : "", &leaves, err);
	if (r >= 0)
		r = prove_old(&leaves, text.data, &old, &trust, ret_json, err);
	leaves_done(&leaves);
	return r;
}
