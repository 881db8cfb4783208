/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/runs-read.h"

#include "audit/audit-base.h"
#include "audit/log-check.h"
#include "audit/log-line.h"
#include "audit/merkle.h"
#include "audit/note.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>

/* Reads and checks the store's tree of logs: each line, and the signed head */

#define CHECKPOINT_MAX 8192

struct reading {
	struct audit_runs *runs;
	size_t room;
	struct audit_place place;
	struct audit_head head; /* its size is 0 where there is none */
	char store[AUDIT_STORE_SIZE];
};

#define broken(reading, number, err, ...)                                                          \
	((reading)->runs->found.line = (number), error_set(err, ATOLL_FAULT_JOB, 0, __VA_ARGS__),  \
	 -EBADMSG)

/* ---- entries ---- */

static int add_entry(struct reading *reading, const struct audit_entry *entry)
{
	struct audit_runs *runs = reading->runs;

	if (runs->n == reading->room) {
		size_t room = reading->room ? 2 * reading->room : 64;
		void *more = reallocarray(runs->items, room, sizeof *runs->items);

		if (!more)
			return -ENOMEM;
		runs->items = more;
		reading->room = room;
	}
	runs->items[runs->n++] = *entry;
	return 0;
}

static int by_run(const void *a, const void *b)
{
	const struct audit_entry *x = a, *y = b;
	int order = strcmp(x->run, y->run);

	return order ? order : (x->line > y->line) - (x->line < y->line);
}

static int by_run_and_size(const void *a, const void *b)
{
	const struct audit_entry *x = a, *y = b;
	int order = strcmp(x->run, y->run);

	return order ? order : (x->size > y->size) - (x->size < y->size);
}

/* Sorts the entries. Entries before the removal of a run are dropped. */
static void sort_entries(struct audit_runs *runs)
{
	size_t n = 0;

	if (!runs->n)
		return;
	qsort(runs->items, runs->n, sizeof *runs->items, by_run);
	for (size_t i = 0; i < runs->n; i++) {
		while (n && streq(runs->items[n - 1].run, runs->items[i].run) &&
		       (runs->items[i].is_removed || runs->items[n - 1].is_removed))
			n--;
		runs->items[n++] = runs->items[i];
	}
	runs->n = n;
	qsort(runs->items, runs->n, sizeof *runs->items, by_run_and_size);
}

const struct audit_entry *audit_runs_find(const struct audit_runs *runs, const char *run)
{
	size_t low = 0, high = runs->n;

	while (low < high) {
		size_t middle = (low + high) / 2;
		int order = strcmp(run, runs->items[middle].run);

		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return high && streq(runs->items[high - 1].run, run) ? &runs->items[high - 1] : NULL;
}

size_t audit_runs_known(const struct audit_runs *runs, const char *run,
			const struct audit_entry **ret)
{
	const struct audit_entry *last = audit_runs_find(runs, run), *first = last;

	if (!last || last->is_removed)
		return 0;
	while (first > runs->items && streq(first[-1].run, run))
		first--;
	*ret = first;
	return (size_t)(last - first) + 1;
}

void audit_runs_done(struct audit_runs *runs)
{
	free(runs->items);
	free(runs->note);
	*runs = (struct audit_runs){0};
}

/* ---- lines ---- */

static bool parse_entry(const struct audit_line *line, struct audit_entry *ret)
{
	cleanup_free char *object = NULL;
	const char *size;
	char root[64], *end;
	size_t length;
	int got = audit_line_string(line, "root", root, sizeof root);

	/* Make an object of the members after the kind. */
	if (got < 0 || !audit_from_base64(root, (size_t)got, ret->root, HASH_SIZE) ||
	    asprintf(&object, "{\"\":0%.*s", (int)line->members_size, line->members) < 0)
		return false;
	if (audit_json_member(object, strlen(object), "size", &size, &length) < 0)
		return false;
	errno = 0;
	ret->size = strtoull(size, &end, 10);
	memcpy(ret->run, line->run, sizeof ret->run);
	ret->is_removed = streq(line->kind, "removed");
	ret->line = line->seq + 1;
	return errno == 0 && end == size + length;
}

static int compare_head(struct reading *reading, struct atoll_error *err)
{
	unsigned char root[HASH_SIZE];

	if (reading->head.size == 0 || reading->place.edge.size != reading->head.size)
		return 0;
	audit_edge_root(&reading->place.edge, root);
	if (memcmp(root, reading->head.root, HASH_SIZE) != 0)
		return broken(reading, 0, err,
			      "the first %" PRIu64 " lines are not those that were signed",
			      reading->head.size);
	return 0;
}

static int read_line(void *arg, const char *text, size_t size, struct atoll_error *err)
{
	struct reading *reading = arg;
	struct audit_place *place = &reading->place;
	uint64_t number = place->edge.size + 1;
	struct audit_entry entry;
	struct audit_line line;
	const char *fault = audit_line_parse(text, size, &line);

	if (fault)
		return broken(reading, number, err, "%s", fault);
	if (line.seq != place->edge.size)
		return broken(reading, number, err, "lines were taken out, put in or moved");
	if (memcmp(line.prev, place->prev, HASH_SIZE) != 0)
		return broken(
			reading, number, err,
			"it does not follow from the line before: one of the two was changed");
	if (!audit_json_is_valid(text, size) || !parse_entry(&line, &entry))
		return broken(reading, number, err, "it is no entry");
	/* A removal counts only if a head has signed it. */
	if (streq(line.kind, "lost"))
		reading->runs->n_lost += entry.size > line.seq ? entry.size - line.seq : 1;
	else if ((!entry.is_removed || line.seq < reading->head.size) &&
		 add_entry(reading, &entry) < 0)
		return error_oom(err);
	audit_leaf(text, size, place->prev);
	audit_edge_add(&place->edge, place->prev);
	place->bytes += size + 1;
	return compare_head(reading, err);
}

/* ---- the head ---- */

static int read_head(struct reading *reading, int state_fd, const struct audit_trust *trust,
		     struct atoll_error *err)
{
	cleanup_fd int fd = openat(state_fd, "log/checkpoint", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_buf struct buf text = BUF_INIT(CHECKPOINT_MAX);
	struct atoll_verified *found = &reading->runs->found;
	char name[32];
	int signer, r;

	if (fd < 0 && errno == ENOENT)
		return 0;
	r = fd < 0 ? -errno : fd_read_all(fd, &text);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "read the store's checkpoint");
	if (!text.used || strlen(text.data) != text.used ||
	    !audit_head_parse(text.data, text.used, &reading->head) ||
	    strlen(reading->head.origin) != 22 || !starts_with(reading->head.origin, "atoll/"))
		return broken(reading, 0, err, "the checkpoint is none");
	snprintf(name, sizeof name, "%s", reading->head.origin);
	snprintf(found->store, sizeof found->store, "%s", name + 6);
	signer = audit_note_signer(text.data, text.used, name, trust);
	if (signer < 0)
		return broken(reading, 0, err,
			      "the checkpoint is not signed by a key that is trusted");
	memcpy(found->key, trust->keys[signer].id, sizeof found->key);
	reading->head.more = NULL;
	reading->head.more_size = 0;
	reading->runs->note = buf_take(&text);
	return reading->runs->note ? 0 : error_oom(err);
}

static int check_end(struct reading *reading, struct atoll_error *err)
{
	uint64_t n = reading->place.edge.size;

	if (n < reading->head.size)
		return broken(reading, n + 1, err, "%" PRIu64 " lines are gone that were signed",
			      reading->head.size - n);
	if (n && reading->head.size == 0)
		return broken(reading, 0, err, "the checkpoint is gone");
	return 0;
}

static int read_all(struct reading *reading, int state_fd, const struct audit_trust *trust,
		    struct atoll_error *err)
{
	cleanup_fd int fd = openat(state_fd, "log/runs.jsonl", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	uint64_t cut = 0;
	int r = 0;

	if (fd < 0 && errno != ENOENT)
		return error_set(err, ATOLL_FAULT_HOST, errno, "open the list of runs");
	while (fd >= 0 && (r = flock(fd, LOCK_SH)) < 0 && errno == EINTR)
		;
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "lock the list of runs");
	r = read_head(reading, state_fd, trust, err);
	if (r == 0 && fd >= 0)
		r = audit_each_line(fd, read_line, reading, &cut, err);
	return r < 0 ? r : check_end(reading, err);
}

int audit_runs_read(int state_fd, const struct audit_trust *trust, struct audit_runs *ret,
		    struct atoll_error *err)
{
	struct reading reading = {.runs = ret};
	struct atoll_verified *found = &ret->found;
	struct atoll_error message = {0};
	int r;

	*ret = (struct audit_runs){.time_ns = clock_real_ns()};
	r = read_all(&reading, state_fd, trust, &message);
	found->n_lines = reading.place.edge.size;
	sort_entries(ret);
	if (r < 0 && r != -EBADMSG) {
		*err = message;
		audit_runs_done(ret);
		return r;
	}
	if (r < 0) {
		char where[40] = "";

		if (found->line)
			snprintf(where, sizeof where, " at line %" PRIu64, found->line);
		found->finding = ATOLL_FINDING_BROKEN;
		snprintf(found->text, sizeof found->text, "tree of logs: BROKEN%s: %s", where,
			 message.text);
		return 0;
	}
	found->n_signed = reading.head.size;
	if (ret->n_lost || found->n_signed < found->n_lines) {
		found->finding = ATOLL_FINDING_OPEN;
		snprintf(found->text, sizeof found->text,
			 "tree of logs: good, %" PRIu64 " lines, %" PRIu64 " signed%s",
			 found->n_lines, found->n_signed,
			 ret->n_lost ? "; earlier ones were lost, as by a power loss" : "");
		return 0;
	}
	snprintf(found->text, sizeof found->text,
		 "tree of logs: good, %" PRIu64 " lines, all signed by key %s", found->n_lines,
		 found->n_lines ? found->key : "-");
	return 0;
}
