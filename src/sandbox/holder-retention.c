/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/holder-retention.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/layer.h"
#include "sandbox/holder-detached-end.h"
#include "sandbox/holder-detached.h"
#include "sandbox/holder-output.h"
#include "sandbox/holder-protocol.h"
#include "sandbox/holder.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/*
 * Numbers, keys and retention of detached steps
 *
 * A step is kept while it lives or has watchers, for RETAIN_NS after its end, and until a watcher
 * got its end; the latest RETAIN_LATEST are always kept. But never more than RETAIN_MAX ended steps
 * or RETAIN_BYTES of their output are kept; the latest ended one always is.
 *
 * Numbers are not used twice in the life of a sandbox, whose holder may be killed: RESERVE numbers
 * at a time are reserved in records/ID/number. Behind the number, at KEYS_AT, the file has the
 * latest KEYS_MAX keys of started steps.
 */

#define RETAIN_NS     (30 * INT64_C(1000000000))
#define RETAIN_LATEST 64
#define RETAIN_MAX    1024
#define RETAIN_BYTES  (64U << 20)

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

	/* The text has a fixed length, so a write over the old one is never incomplete. */
	if (fd >= 0)
		fd_write_all(fd, text, (size_t)n);
}

uint32_t detached_next_number(struct holder *holder)
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

/* The keys of earlier holders; this holder has written none yet. */
static void read_old_keys(struct holder *holder)
{
	cleanup_fd int fd = openat(holder->record->fd, "number", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	size_t size;

	holder->has_old_keys = true;
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size <= KEYS_AT)
		return;
	size = (size_t)st.st_size - KEYS_AT;
	size = size < KEYS_MAX * ATOLL_STEP_KEY ? size : KEYS_MAX * ATOLL_STEP_KEY;
	holder->old_keys = malloc(size);
	if (!holder->old_keys || pread(fd, holder->old_keys, size, KEYS_AT) != (ssize_t)size) {
		free(holder->old_keys);
		holder->old_keys = NULL;
		holder->has_old_keys =
			false; /* without the old keys no step with a key may start */
		return;
	}
	holder->n_old_keys = size / ATOLL_STEP_KEY;
	holder->next_key_slot = holder->n_old_keys % KEYS_MAX;
}

static bool is_old_key(const struct holder *holder, const char *key)
{
	for (size_t i = 0; i < holder->n_old_keys; i++) {
		if (strncmp(holder->old_keys[i], key, ATOLL_STEP_KEY) == 0)
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

int detached_key_add(struct holder *holder, const char *key, size_t *ret, struct atoll_error *err)
{
	int r;

	if (!holder->has_old_keys)
		read_old_keys(holder);
	if (!holder->has_old_keys)
		return error_oom(err);
	if (is_old_key(holder, key))
		return error_set(err, ATOLL_FAULT_HOST, EALREADY,
				 "an earlier holder has started this step; it is not started "
				 "again, and how it ended is not known");
	r = write_key(holder, holder->next_key_slot, key);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "write the step's key");
	*ret = holder->next_key_slot;
	holder->next_key_slot = (holder->next_key_slot + 1) % KEYS_MAX;
	return 0;
}

void detached_key_remove(const struct holder *holder, size_t slot)
{
	write_key(holder, slot, "");
}

/* ---- find ---- */

/* Bytes in memory files. */
static uint64_t count_output_bytes(const struct detached_step *step)
{
	uint64_t bytes = 0;

	for (int i = 0; i < STEP_STREAMS; i++) {
		if (step->streams[i].file >= 0)
			bytes += step->streams[i].size - step->streams[i].first;
	}
	return bytes;
}

static struct detached_step *find_in(struct detached_step *list, uint32_t number, const char *key)
{
	for (; list; list = list->next) {
		if (list->over_ns != INT64_MIN &&
		    (key ? streq(list->key, key) : list->number == number))
			return list;
	}
	return NULL;
}

struct detached_step *detached_find(struct holder *holder, uint32_t number, const char *key)
{
	struct detached_step *found = find_in(holder->detached, number, key);

	return found ? found : find_in(holder->ended, number, key);
}

/* An ended step has got a watcher. */
void detached_revive(struct holder *holder, struct detached_step *step)
{
	struct detached_step **at = &holder->ended;

	while (*at && *at != step)
		at = &(*at)->next;
	if (!*at)
		return;
	*at = step->next;
	if (!step->next)
		holder->last_ended = at;
	holder->n_ended--;
	holder->ended_bytes -= count_output_bytes(step);
	step->next = holder->detached;
	holder->detached = step;
	holder->n_detached++;
}

/* ---- deadlines ---- */

void detached_check_times(struct holder *holder)
{
	const int64_t now_ns = holder->detached ? clock_monotonic_ns() : 0;

	for (struct detached_step *step = holder->detached; step; step = step->next) {
		if (step->lost_until_ns && step->lost_until_ns <= now_ns) {
			step->lost_until_ns = 0;
			step->streams[0].left = step->streams[1].left = UINT64_MAX;
			holder_output_needs(step);
		}
		if (!step->client || step->is_timed_out || step->deadline_ns > now_ns ||
		    holder->is_frozen || holder->is_stuck)
			continue;
		step->is_timed_out = true;
		detached_kill(holder, step->client);
	}
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int64_t detached_deadline_ns(const struct holder *holder)
{
	int64_t until_ns = INT64_MAX;

	for (const struct detached_step *step = holder->detached; step; step = step->next) {
		if (step->report_ns && step->has_changed)
			until_ns = earlier(until_ns, step->report_ns);
		if (step->lost_until_ns)
			until_ns = earlier(until_ns, step->lost_until_ns);
		if (step->client && !step->is_timed_out && !holder->is_frozen && !holder->is_stuck)
			until_ns = earlier(until_ns, step->deadline_ns);
	}
	/* The next step to free. */
	if (holder->n_ended > RETAIN_LATEST && holder->ended->is_end_sent)
		until_ns = earlier(until_ns, holder->ended->over_ns + RETAIN_NS);
	return until_ns;
}

void detached_shift_deadlines(struct holder *holder, int64_t by_ns)
{
	for (struct detached_step *step = holder->detached; step; step = step->next) {
		if (step->client && step->deadline_ns != INT64_MAX)
			step->deadline_ns += by_ns;
	}
}

/* ---- free ---- */

static void sweep_watchers(struct holder *holder, struct detached_step *step)
{
	for (struct step_watcher **at = &step->watchers; *at;) {
		struct step_watcher *watcher = *at;

		if (watcher->fd >= 0) {
			at = &watcher->next;
			continue;
		}
		*at = watcher->next;
		free(watcher);
		holder->n_watchers--;
	}
}

static void free_step(struct holder *holder, struct detached_step *step)
{
	for (struct step_watcher *at = step->watchers; at; at = at->next) {
		if (at->fd >= 0)
			close(take_fd(&at->fd));
	}
	sweep_watchers(holder, step);
	holder_output_free(holder, step);
	free(step->invocation);
	free(step->denials);
	free(step->end);
	free(step->room);
	free(step);
}

static void put_aside(struct holder *holder, struct detached_step *step)
{
	step->next = NULL;
	if (!holder->ended)
		holder->last_ended = &holder->ended;
	*holder->last_ended = step;
	holder->last_ended = &step->next;
	holder->n_ended++;
	holder->ended_bytes += count_output_bytes(step);
}

static bool has_too_many(const struct holder *holder, int64_t now_ns)
{
	if (holder->n_ended > RETAIN_MAX ||
	    (holder->ended_bytes > RETAIN_BYTES && holder->n_ended > 1))
		return true;
	return holder->n_ended > RETAIN_LATEST && holder->ended->is_end_sent &&
	       now_ns - holder->ended->over_ns > RETAIN_NS;
}

void detached_sweep(struct holder *holder)
{
	const int64_t now_ns = holder->ended ? clock_monotonic_ns() : 0;

	for (struct detached_step **at = &holder->detached; *at;) {
		struct detached_step *step = *at;

		sweep_watchers(holder, step);
		if (step->client || step->has_changed || step->watchers) {
			/* A refused step has no client and no watcher that matters: free it. */
			if (step->over_ns != INT64_MIN) {
				at = &step->next;
				continue;
			}
		}
		*at = step->next;
		holder->n_detached--;
		if (step->over_ns == INT64_MIN)
			free_step(holder, step);
		else
			put_aside(holder, step);
	}
	while (holder->ended && has_too_many(holder, now_ns)) {
		struct detached_step *step = holder->ended;

		holder->ended = step->next;
		holder->n_ended--;
		holder->ended_bytes -= count_output_bytes(step);
		free_step(holder, step);
	}
}
