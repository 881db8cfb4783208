/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/log-check.h"

#include "audit/audit-base.h"
#include "audit/key-trust.h"
#include "audit/key.h"
#include "audit/log-line.h"
#include "audit/merkle.h"
#include "audit/note.h"
#include "audit/runs-read.h"
#include "base/error.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/str.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * Checks one log, line by line
 *
 * Each line must be exactly the line that the writer would have written: its number, the hash of
 * the line before, the run. A head signs the lines before it, but not itself. So all values in a
 * head must follow from signed data: the checker formats the head again and compares.
 */

#define READ_SIZE ((size_t)256 << 10)
#define NOTE_MAX  1024

#define wrong_at(check, number, err, ...)                                                          \
	((check)->bad_line = (number), error_set(err, ATOLL_FAULT_JOB, 0, __VA_ARGS__),            \
	 error_context(err, -EBADMSG, "line %" PRIu64, (check)->bad_line))
#define wrong(check, err, ...) wrong_at(check, (check)->place.edge.size + 1, err, __VA_ARGS__)

/* ---- heads ---- */

/* The extension lines of a head: its time, and whether it is the last one. */
static void format_more(const char *time, bool is_last, char ret[64])
{
	snprintf(ret, 64, "time %s\n%s", time, is_last ? "last\n" : "");
}

static void format_head_line(const struct audit_line *line, const struct audit_head *head,
			     const char *note, size_t note_size, bool is_last, struct buf *out)
{
	struct json json = {out, true};

	audit_line_format(line, out);
	json_uint(&json, "size", head->size);
	buf_add_str(out, ",\"root\":\"");
	audit_base64(head->root, HASH_SIZE, out);
	buf_add_char(out, '"');
	json_strn(&json, "note", note, note_size);
	if (is_last)
		json_bool(&json, "last", true);
	buf_add_char(out, '}');
}

void audit_head_line(const struct audit_place *place, const char *run, uint64_t time_ns,
		     bool is_last, const struct audit_key *key, struct buf *out)
{
	struct audit_line line = {.seq = place->edge.size, .kind = "head"};
	struct audit_head head = {.size = place->edge.size};
	AUDIT_STACK_BUF(text, NOTE_MAX);
	AUDIT_STACK_BUF(note, NOTE_MAX);
	char more[64];

	memcpy(line.prev, place->prev, HASH_SIZE);
	audit_time_format(time_ns, line.time);
	snprintf(line.run, sizeof line.run, "%s", run);
	snprintf(head.origin, sizeof head.origin, "atoll/%s - %s", key->store, run);
	audit_edge_root(&place->edge, head.root);
	format_more(line.time, is_last, more);
	head.more = more;
	head.more_size = strlen(more);
	audit_head_format(&head, &text);
	if (buf_error(&text) == 0)
		audit_note_sign(key, text.data, text.used, &note);
	if (buf_error(&text) < 0 || buf_error(&note) < 0) {
		out->failed = out->failed ? out->failed : ENOMEM;
		return;
	}
	format_head_line(&line, &head, note.data, note.used, is_last, out);
}

/* A head while it is checked. */
struct read_head {
	const struct audit_line *line;
	const char *text; /* the whole line */
	size_t size;
	char note[NOTE_MAX];
	struct audit_head head; /* parsed from the note */
	bool is_last;
};

/* Compares the head with the lines before it, and its line with the line that the writer would have
 * written for this head. */
static int compare_head(struct audit_check *check, struct read_head *read, struct atoll_error *err)
{
	AUDIT_STACK_BUF(again, 4096);
	const struct audit_head *head = &read->head;
	unsigned char root[HASH_SIZE];
	char origin[64], more[64];

	snprintf(origin, sizeof origin, "atoll/%s - %s", check->store, check->run);
	audit_edge_root(&check->place.edge, root);
	if (!streq(head->origin, origin))
		return wrong(check, err, "the head is of another log");
	if (head->size != check->place.edge.size)
		return wrong(check, err,
			     "the head stands for %" PRIu64 " lines, and there are %" PRIu64
			     " before it",
			     head->size, check->place.edge.size);
	if (memcmp(head->root, root, HASH_SIZE) != 0)
		return wrong(check, err, "the head was made of other lines than those before it");
	read->is_last =
		head->more_size > 5 && memcmp(head->more + head->more_size - 5, "last\n", 5) == 0;
	format_more(read->line->time, read->is_last, more);
	if (head->more_size != strlen(more) || memcmp(head->more, more, head->more_size) != 0)
		return wrong(check, err, "the head was made at another time");
	format_head_line(read->line, head, read->note, strlen(read->note), read->is_last, &again);
	/* The note does not contain a step, so a step in the line would not be signed. */
	if (read->line->step || buf_error(&again) < 0 || again.used != read->size ||
	    memcmp(again.data, read->text, read->size) != 0)
		return wrong(check, err, "the head's line was changed");
	return 0;
}

static int check_signature(struct audit_check *check, const char *note, struct atoll_error *err)
{
	char name[32];
	int signer;

	snprintf(name, sizeof name, "atoll/%s", check->store);
	/* Exactly one signature line: another line would not be signed. */
	if (strlen(note) != audit_note_text(note, strlen(note)) + 1 + strlen(name) + 98)
		return wrong(check, err, "the head has not one signature");
	if (!check->trust)
		return 0;
	signer = audit_note_signer(note, strlen(note), name, check->trust);
	if (signer < 0 && audit_note_is_hinted(note, strlen(note), name, check->trust))
		return wrong(check, err, "the head's signature is wrong");
	if (signer < 0) {
		wrong(check, err, "the head is signed by a key that is not trusted");
		return -EKEYREJECTED;
	}
	memcpy(check->key, check->trust->keys[signer].id, AUDIT_KEY_SIZE);
	return 0;
}

static int check_head(struct audit_check *check, const struct audit_line *line, const char *text,
		      size_t size, struct atoll_error *err)
{
	struct read_head read = {.line = line, .text = text, .size = size};
	int r = audit_line_string(line, "note", read.note, sizeof read.note);

	if (r < 0 || strlen(read.note) != (size_t)r ||
	    !audit_head_parse(read.note, (size_t)r, &read.head))
		return wrong(check, err, "the head has no note");
	r = compare_head(check, &read, err);
	if (r == 0)
		r = check_signature(check, read.note, err);
	if (r < 0)
		return r;
	check->n_signed = check->place.edge.size + 1;
	check->head_size = read.head.size;
	memcpy(check->head_root, read.head.root, HASH_SIZE);
	check->is_closed = read.is_last;
	return 0;
}

/* ---- lines ---- */

static int check_first(struct audit_check *check, const struct audit_line *line,
		       struct atoll_error *err)
{
	unsigned char ignored[8];
	char store[AUDIT_STORE_SIZE];

	if (!streq(line->kind, "open"))
		return wrong(check, err, "the first line is not the one that opens a log");
	if (audit_line_string(line, "store", store, sizeof store) != AUDIT_STORE_SIZE - 1 ||
	    !hash_from_hex(store, 8, ignored))
		return wrong(check, err, "it names no store");
	if (check->store[0] && !streq(check->store, store))
		return wrong(check, err, "this is a log of another store (%s)", store);
	if (audit_line_string(line, "what", check->what, sizeof check->what) < 0)
		return wrong(check, err, "it does not say what the log is of");
	memcpy(check->store, store, sizeof store);
	if (!check->run[0])
		memcpy(check->run, line->run, sizeof check->run);
	return 0;
}

static int check_place(struct audit_check *check, const struct audit_line *line,
		       struct atoll_error *err)
{
	uint64_t n = check->place.edge.size;

	if (check->run[0] && !streq(line->run, check->run))
		return wrong(check, err, "it belongs to another run (%s, not %s)", line->run,
			     check->run);
	if (line->seq != n)
		return wrong(check, err,
			     "its number is %" PRIu64 ", not %" PRIu64
			     ": lines were taken out, put in or moved",
			     line->seq, n);
	if (n == 0 && memcmp(line->prev, check->place.prev, HASH_SIZE) != 0)
		return wrong(check, err, "there was a line before it");
	return 0;
}

/* The next line contains the original hash of the suspect line. If the suspect line still has
 * that hash, the line before it was changed. */
static int blame(struct audit_check *check, const char *text, size_t size, struct atoll_error *err)
{
	struct audit_line line;
	uint64_t n = check->place.edge.size;

	if (!audit_line_parse(text, size, &line) && line.seq == n + 1 &&
	    memcmp(line.prev, check->suspect, HASH_SIZE) == 0)
		return wrong_at(check, n, err,
				"it was changed: the next line names another hash of it");
	return wrong_at(check, n + 1, err,
			"it was changed: it does not follow from the line before");
}

/* Compares the root with the entry of the store's tree for this number of lines. */
static int compare_known(struct audit_check *check, struct atoll_error *err)
{
	unsigned char root[HASH_SIZE];

	for (; check->n_known && check->known->size <= check->place.edge.size;
	     check->known++, check->n_known--) {
		if (check->known->size != check->place.edge.size)
			continue;
		audit_edge_root(&check->place.edge, root);
		if (memcmp(root, check->known->root, HASH_SIZE) != 0)
			return wrong_at(check, check->known->size, err,
					"up to here it is not what the store's tree knows of this "
					"run: it was replaced");
	}
	return 0;
}

/* A hand-over line in the log: trust the other key if one of them is trusted. */
static void note_key(struct audit_check *check, const struct audit_line *line)
{
	char note[NOTE_MAX];
	int size = audit_line_string(line, "note", note, sizeof note);

	if (check->trust && size > 0)
		audit_trust_hand_over(check->trust, note, (size_t)size);
}

int audit_check_line(struct audit_check *check, const char *text, size_t size,
		     struct atoll_error *err)
{
	struct audit_line line;
	const char *fault;
	int r;

	if (check->is_suspect)
		return blame(check, text, size, err);
	r = compare_known(check, err);
	if (r < 0)
		return r;
	if (size > AUDIT_LINE_MAX)
		return wrong(check, err, "it is too long");
	fault = audit_line_parse(text, size, &line);
	if (fault)
		return wrong(check, err, "%s", fault);
	if (!audit_json_is_valid(text, size))
		return wrong(check, err, "it is not JSON");
	r = check_place(check, &line, err);
	if (r == 0 && memcmp(line.prev, check->place.prev, HASH_SIZE) != 0) {
		check->is_suspect = true;
		audit_leaf(text, size, check->suspect);
		return 0;
	}
	if (r == 0 && check->place.edge.size == 0)
		r = check_first(check, &line, err);
	check->is_closed = false;
	if (r == 0 && streq(line.kind, "head"))
		r = check_head(check, &line, text, size, err);
	if (r < 0)
		return r;
	if (streq(line.kind, "key"))
		note_key(check, &line);
	if (line.step > check->last_step)
		check->last_step = line.step;
	audit_leaf(text, size, check->place.prev);
	audit_edge_add(&check->place.edge, check->place.prev);
	check->place.bytes += size + 1;
	return 0;
}

int audit_check_end(struct audit_check *check, struct atoll_error *err)
{
	if (check->is_suspect)
		return wrong(check, err,
			     "it does not follow from the line before, as that is now: one of the "
			     "two was changed");
	return compare_known(check, err);
}

/* Calls line() for all complete lines in `data`; `ret_used` is their size. */
static int check_lines(const char *data, size_t size,
		       int (*line)(void *, const char *, size_t, struct atoll_error *), void *arg,
		       size_t *ret_used, struct atoll_error *err)
{
	size_t at = 0;
	const char *end;
	int r = 0;

	while (r == 0 && (end = memchr(data + at, '\n', size - at))) {
		size_t length = (size_t)(end - data) - at;

		r = line(arg, data + at, length, err);
		at += length + 1;
	}
	*ret_used = at;
	return r;
}

int audit_each_line(int fd, int (*line)(void *, const char *, size_t, struct atoll_error *),
		    void *arg, uint64_t *ret_cut, struct atoll_error *err)
{
	size_t room = READ_SIZE, have = 0, used;
	cleanup_free char *data = malloc(room);
	int r = 0;

	if (!data)
		return error_oom(err);
	for (;;) {
		ssize_t got = read(fd, data + have, room - have);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return error_set(err, ATOLL_FAULT_HOST, errno, "read the log");
		if (got == 0)
			break;
		have += (size_t)got;
		r = check_lines(data, have, line, arg, &used, err);
		if (r < 0)
			return r;
		memmove(data, data + used, have -= used);
		if (have > AUDIT_LINE_MAX)
			return line(arg, data, have, err); /* which says so */
		if (have == room) {
			char *more = realloc(data, room *= 2);

			if (!more)
				return error_oom(err);
			data = more;
		}
	}
	*ret_cut = have;
	return 0;
}

static int one_line(void *arg, const char *line, size_t size, struct atoll_error *err)
{
	return audit_check_line(arg, line, size, err);
}

int audit_check_fd(struct audit_check *check, int fd, uint64_t *ret_cut, struct atoll_error *err)
{
	int r = audit_each_line(fd, one_line, check, ret_cut, err);

	return r < 0 ? r : audit_check_end(check, err);
}
