/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/layer.h"
#include "sandbox/holder-inner.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/*
 * How long kept steps are known
 *
 * While they live, for KEPT_NS after and until somebody has heard of their end, and the latest
 * KEPT_LATEST for ever; but never more than
 * KEPT_MAX that have ended, nor more than KEPT_BYTES of their output, of which the latest is always
 * kept. Numbers are not used twice in the life of a sandbox, whose holder may be killed: they
 * are reserved ahead, in records/ID/number. Behind the number there are the latest KEYS_MAX keys of
 * steps that were begun.
 */

#define KEPT_NS	    (30 * INT64_C(1000000000))
#define KEPT_LATEST 64
#define KEPT_MAX    1024
#define KEPT_BYTES  (64U << 20)

#define RESERVE 1000

#define KEYS_AT	 128
#define KEYS_MAX 512

/* ---- numbers ---- */

static uint32_t read_number(const struct holder *holder)
{
	cleanup_fd int fd = openat(holder->record->fd, "number", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	char text[16] = "";

	if (fd < 0 || read(fd, text, sizeof text - 1) <= 0)
		return 0;
	return (uint32_t)strtoul(text, NULL, 10);
}

static void reserve(const struct holder *holder, uint32_t number)
{
	cleanup_fd int fd = openat(holder->record->fd, "number",
				   O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	char text[16];
	int n = snprintf(text, sizeof text, "%010u\n", number);

	/* Over what is there, which is as long: it is whole at any time. */
	if (fd >= 0)
		fd_write_all(fd, text, (size_t)n);
}

uint32_t hold_number(struct holder *holder)
{
	if (holder->n_reserved == 0)
		holder->n_before = holder->n_reserved = read_number(holder);
	if (++holder->n_before > holder->n_reserved) {
		holder->n_reserved = holder->n_before + RESERVE - 1;
		reserve(holder, holder->n_reserved);
	}
	return holder->n_before;
}

/* ---- keys ---- */

static off_t place_of(size_t slot)
{
	return (off_t)(KEYS_AT + slot * ATOLL_STEP_KEY);
}

/* Of holders before us: we have written none yet. */
static void read_past(struct holder *holder)
{
	cleanup_fd int fd = openat(holder->record->fd, "number", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	size_t size;

	holder->knows_past = true;
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size <= KEYS_AT)
		return;
	size = (size_t)st.st_size - KEYS_AT;
	size = size < KEYS_MAX * ATOLL_STEP_KEY ? size : KEYS_MAX * ATOLL_STEP_KEY;
	holder->past = malloc(size);
	if (!holder->past || pread(fd, holder->past, size, KEYS_AT) != (ssize_t)size) {
		free(holder->past);
		holder->past = NULL;
		holder->knows_past = false; /* who cannot be sure begins nothing */
		return;
	}
	holder->n_past = size / ATOLL_STEP_KEY;
	holder->n_keys = holder->n_past % KEYS_MAX;
}

static bool is_past(const struct holder *holder, const char *key)
{
	for (size_t i = 0; i < holder->n_past; i++) {
		if (strncmp(holder->past[i], key, ATOLL_STEP_KEY) == 0)
			return true;
	}
	return false;
}

static int write_key(const struct holder *holder, size_t slot, const char *key)
{
	cleanup_fd int fd = openat(holder->record->fd, "number",
				   O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	char entry[ATOLL_STEP_KEY] = "";

	snprintf(entry, sizeof entry, "%s", key);
	if (fd < 0)
		return -errno;
	return pwrite(fd, entry, sizeof entry, place_of(slot)) == sizeof entry ? 0 : -errno;
}

int hold_key_note(struct holder *holder, const char *key, size_t *ret, struct atoll_error *err)
{
	int r;

	if (!holder->knows_past)
		read_past(holder);
	if (!holder->knows_past)
		return error_oom(err);
	if (is_past(holder, key))
		return error_set(err, ATOLL_FAULT_HOST, EALREADY,
				 "the step was begun before, by a holder that has ended, and is "
				 "not begun again; how it ended is not known");
	r = write_key(holder, holder->n_keys, key);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "note that the step is begun");
	*ret = holder->n_keys;
	holder->n_keys = (holder->n_keys + 1) % KEYS_MAX;
	return 0;
}

void hold_key_forget(const struct holder *holder, size_t slot)
{
	write_key(holder, slot, "");
}

/* ---- finding one ---- */

/* Of the memory that is not the holder's own. */
static uint64_t kept_bytes(const struct hold_kept *kept)
{
	uint64_t bytes = 0;

	for (int i = 0; i < HOLD_STREAMS; i++) {
		if (kept->streams[i].file >= 0)
			bytes += kept->streams[i].size - kept->streams[i].first;
	}
	return bytes;
}

static struct hold_kept *find_in(struct hold_kept *list, uint32_t number, const char *key)
{
	for (; list; list = list->next) {
		if (list->over_ns != INT64_MIN &&
		    (key ? streq(list->key, key) : list->number == number))
			return list;
	}
	return NULL;
}

struct hold_kept *hold_kept_find(struct holder *holder, uint32_t number, const char *key)
{
	struct hold_kept *found = find_in(holder->kept, number, key);

	return found ? found : find_in(holder->ended, number, key);
}

/* Somebody wants to be told of it. */
void hold_kept_recall(struct holder *holder, struct hold_kept *kept)
{
	struct hold_kept **at = &holder->ended;

	while (*at && *at != kept)
		at = &(*at)->next;
	if (!*at)
		return;
	*at = kept->next;
	if (!kept->next)
		holder->last_ended = at;
	holder->n_ended--;
	holder->ended_bytes -= kept_bytes(kept);
	kept->next = holder->kept;
	holder->kept = kept;
	holder->n_kept++;
}

/* ---- time ---- */

void hold_kept_check(struct holder *holder)
{
	const int64_t now_ns = holder->kept ? clock_monotonic_ns() : 0;

	for (struct hold_kept *kept = holder->kept; kept; kept = kept->next) {
		if (kept->left_until_ns && kept->left_until_ns <= now_ns) {
			kept->left_until_ns = 0;
			kept->streams[0].left = kept->streams[1].left = UINT64_MAX;
			hold_output_needs(kept);
		}
		if (!kept->client || kept->is_timed_out || kept->deadline_ns > now_ns ||
		    holder->is_frozen || holder->is_stuck)
			continue;
		kept->is_timed_out = true;
		hold_kept_kill(holder, kept->client);
	}
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int64_t hold_kept_deadline_ns(const struct holder *holder)
{
	int64_t until_ns = INT64_MAX;

	for (const struct hold_kept *kept = holder->kept; kept; kept = kept->next) {
		if (kept->tell_ns && kept->has_news)
			until_ns = earlier(until_ns, kept->tell_ns);
		if (kept->left_until_ns)
			until_ns = earlier(until_ns, kept->left_until_ns);
		if (kept->client && !kept->is_timed_out && !holder->is_frozen && !holder->is_stuck)
			until_ns = earlier(until_ns, kept->deadline_ns);
	}
	/* The first to be forgotten, where there are many. */
	if (holder->n_ended > KEPT_LATEST && holder->ended->was_heard)
		until_ns = earlier(until_ns, holder->ended->over_ns + KEPT_NS);
	return until_ns;
}

void hold_kept_shift(struct holder *holder, int64_t by_ns)
{
	for (struct hold_kept *kept = holder->kept; kept; kept = kept->next) {
		if (kept->client && kept->deadline_ns != INT64_MAX)
			kept->deadline_ns += by_ns;
	}
}

/* ---- forgetting ---- */

static void sweep_watchers(struct holder *holder, struct hold_kept *kept)
{
	for (struct hold_watcher **at = &kept->watchers; *at;) {
		struct hold_watcher *watcher = *at;

		if (watcher->fd >= 0) {
			at = &watcher->next;
			continue;
		}
		*at = watcher->next;
		free(watcher);
		holder->n_watchers--;
	}
}

static void free_kept(struct holder *holder, struct hold_kept *kept)
{
	for (struct hold_watcher *at = kept->watchers; at; at = at->next) {
		if (at->fd >= 0)
			close(take_fd(&at->fd));
	}
	sweep_watchers(holder, kept);
	hold_output_free(holder, kept);
	free(kept->words);
	free(kept->denials);
	free(kept->end);
	free(kept->room);
	free(kept);
}

static void put_aside(struct holder *holder, struct hold_kept *kept)
{
	kept->next = NULL;
	if (!holder->ended)
		holder->last_ended = &holder->ended;
	*holder->last_ended = kept;
	holder->last_ended = &kept->next;
	holder->n_ended++;
	holder->ended_bytes += kept_bytes(kept);
}

static bool has_too_many(const struct holder *holder, int64_t now_ns)
{
	if (holder->n_ended > KEPT_MAX || (holder->ended_bytes > KEPT_BYTES && holder->n_ended > 1))
		return true;
	return holder->n_ended > KEPT_LATEST && holder->ended->was_heard &&
	       now_ns - holder->ended->over_ns > KEPT_NS;
}

void hold_kept_sweep(struct holder *holder)
{
	const int64_t now_ns = holder->ended ? clock_monotonic_ns() : 0;

	for (struct hold_kept **at = &holder->kept; *at;) {
		struct hold_kept *kept = *at;

		sweep_watchers(holder, kept);
		if (kept->client || kept->has_news || kept->watchers) {
			/* One that was refused is nobody's. */
			if (kept->over_ns != INT64_MIN) {
				at = &kept->next;
				continue;
			}
		}
		*at = kept->next;
		holder->n_kept--;
		if (kept->over_ns == INT64_MIN)
			free_kept(holder, kept);
		else
			put_aside(holder, kept);
	}
	while (holder->ended && has_too_many(holder, now_ns)) {
		struct hold_kept *kept = holder->ended;

		holder->ended = kept->next;
		holder->n_ended--;
		holder->ended_bytes -= kept_bytes(kept);
		free_kept(holder, kept);
	}
}
