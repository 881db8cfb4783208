/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/secret-screen.h"
#include "base/scope.h"
#include "egress/unit.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

/*
 * Called by swap.c: screen_add_...() when secrets become known, screen_hide() and screen_tail() for
 * each piece of an answer.
 *
 * screen_hide() skips bytes that no match can have, reads the runs between them character by
 * character (unit.h) and keeps one rolling hash for each needle. Readings are taken from the start
 * of a run; a match that begins within an escape ("%" before a value that begins with "41") is
 * compared by itself.
 */

enum fold {
	FOLD_NONE,
	FOLD_CASE,   /* upper and lower case are the same */
	FOLD_BASE64, /* "-" is "+", "_" is "/" */
	FOLDS
};

struct needle {
	uint8_t *text;	      /* folded */
	uint8_t *placeholder; /* of the same size */
	size_t size;
	enum fold fold;
	bool has_escape; /* a character that could be taken for the beginning of an escape */
	uint64_t hash;
	uint64_t factor; /* to the power of `size` */
};

/* A character of the run at hand. */
struct place {
	uint8_t *at;
	struct unit unit;
	uint8_t folded[FOLDS];
};

/* The hashes of one run. */
struct run {
	const struct screen *screen;
	uint64_t *hashes;
	size_t n; /* characters so far */
};

#define NEEDLES_MAX 4096
#define BLOCK	    64 /* characters that are compared at once, right or wrong */

static uint8_t fold(enum fold how, uint8_t c)
{
	if (how == FOLD_CASE && c >= 'A' && c <= 'Z')
		return c | 0x20;
	if (how == FOLD_BASE64 && (c == '-' || c == '_'))
		return c == '-' ? '+' : '/';
	return c;
}

/* ---- needles ---- */

static void needle_done(struct needle *needle)
{
	if (needle->text)
		sodium_memzero(needle->text, needle->size);
	free(needle->text);
	free(needle->placeholder);
}

void screen_done(struct screen *screen)
{
	for (size_t i = 0; i < screen->n_needles; i++)
		needle_done(&screen->needles[i]);
	free(screen->needles);
	if (screen->ring)
		sodium_memzero(screen->ring, (screen->ring_mask + 1) * sizeof *screen->ring);
	free(screen->ring);
	*screen = (struct screen){0};
}

static void learn_bytes(struct screen *screen, const struct needle *needle)
{
	static const char always[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_%\\&#;";

	/* With the NUL at the end. */
	for (size_t i = 0; i < sizeof always; i++)
		screen->may_run[(uint8_t)always[i]] = true;
	for (size_t i = 0; i < needle->size; i++)
		screen->may_run[needle->text[i]] = true;
}

static int grow_ring(struct screen *screen, size_t size)
{
	size_t room = 16;
	struct place *ring;

	while (room <= size)
		room *= 2;
	if (screen->ring && room <= screen->ring_mask + 1)
		return 0;
	ring = calloc(room, sizeof *ring);
	if (!ring)
		return -ENOMEM;
	free(screen->ring);
	screen->ring = ring;
	screen->ring_mask = room - 1;
	return 0;
}

static void set_hash(struct screen *screen, struct needle *needle)
{
	/* Odd: no power of it is 0. */
	while (screen->factor == 0) {
		randombytes_buf(&screen->factor, sizeof screen->factor);
		screen->factor |= 1;
	}
	needle->factor = 1;
	for (size_t i = 0; i < needle->size; i++) {
		needle->hash = needle->hash * screen->factor + needle->text[i];
		needle->factor *= screen->factor;
	}
}

static int add(struct screen *screen, const char *text, const char *placeholder, size_t size,
	       enum fold how)
{
	struct needle *grown, needle = {.size = size, .fold = how};

	if (size == 0)
		return 0;
	grown = reallocarray(screen->needles, screen->n_needles + 1, sizeof *grown);
	if (!grown || screen->n_needles == NEEDLES_MAX)
		return -ENOMEM;
	screen->needles = grown;
	needle.text = malloc(size);
	needle.placeholder = malloc(size);
	if (!needle.text || !needle.placeholder || grow_ring(screen, size) < 0) {
		needle_done(&needle);
		return -ENOMEM;
	}
	memcpy(needle.placeholder, placeholder, size);
	for (size_t i = 0; i < size; i++) {
		needle.text[i] = fold(how, (uint8_t)text[i]);
		needle.has_escape = needle.has_escape || unit_begins_escape(needle.text[i]);
	}
	set_hash(screen, &needle);
	grown[screen->n_needles++] = needle;
	learn_bytes(screen, &needle);
	screen->is_ambiguous = screen->is_ambiguous || needle.has_escape;
	if (screen->shortest == 0 || size < screen->shortest)
		screen->shortest = size;
	if (size > screen->longest)
		screen->longest = size;
	return 0;
}

int screen_add_text(struct screen *screen, const char *text, const char *placeholder, size_t size)
{
	return add(screen, text, placeholder, size, FOLD_NONE);
}

static int add_hex(struct screen *screen, const char *value, const char *placeholder, size_t size)
{
	cleanup_free char *text = malloc(size * 2 + 1), *shown = malloc(size * 2 + 1);
	int r;

	if (!text || !shown)
		return -ENOMEM;
	sodium_bin2hex(text, size * 2 + 1, (const unsigned char *)value, size);
	sodium_bin2hex(shown, size * 2 + 1, (const unsigned char *)placeholder, size);
	r = add(screen, text, shown, size * 2, FOLD_CASE);
	sodium_memzero(text, size * 2 + 1);
	return r;
}

/* base64 of `offset` unknown bytes and the value; returns how much of it the value alone decides,
 * from `*ret_start` on. */
static size_t encode_at(size_t offset, const char *value, size_t size, char *ret, size_t *ret_start)
{
	cleanup_free unsigned char *whole = calloc(1, offset + size);
	size_t end = (offset + size) * 8 / 6;

	if (!whole)
		return 0;
	memcpy(whole + offset, value, size);
	sodium_bin2base64(ret, sodium_base64_encoded_len(offset + size, 1), whole, offset + size,
			  sodium_base64_VARIANT_ORIGINAL);
	sodium_memzero(whole, offset + size);
	*ret_start = (offset * 8 + 5) / 6;
	return end - *ret_start;
}

/* Characters of neither alphabet alone, so that it fits wherever it stands. */
static void make_plain(char *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (text[i] == '+' || text[i] == '/')
			text[i] = 'A';
}

static int add_base64(struct screen *screen, const char *value, const char *placeholder,
		      size_t size)
{
	const size_t room = size * 2 + 16;
	cleanup_free char *text = malloc(room), *shown = malloc(room);
	int r = text && shown ? 0 : -ENOMEM;

	for (size_t offset = 0; r == 0 && offset < 3; offset++) {
		size_t start, n = encode_at(offset, placeholder, size, shown, &start);

		if (n == 0 || encode_at(offset, value, size, text, &start) != n)
			r = -ENOMEM;
		else
			make_plain(shown + start, n);
		if (r == 0)
			r = add(screen, text + start, shown + start, n, FOLD_BASE64);
	}
	if (text)
		sodium_memzero(text, room);
	return r;
}

int screen_add_value(struct screen *screen, const char *value, const char *placeholder, size_t size)
{
	/* Some servers change the case of what they show. */
	int r = add(screen, value, placeholder, size, FOLD_CASE);

	if (r == 0)
		r = add_hex(screen, value, placeholder, size);
	return r == 0 ? add_base64(screen, value, placeholder, size) : r;
}

bool screen_has(const struct screen *screen, const char *text, size_t size)
{
	for (size_t i = 0; i < screen->n_needles; i++)
		if (screen->needles[i].size == size && screen->needles[i].fold == FOLD_NONE &&
		    memcmp(screen->needles[i].text, text, size) == 0)
			return true;
	return false;
}

/* ---- matches ---- */

/* UTF-16 and UTF-32 have NUL bytes between characters of ASCII. */
static uint8_t *skip_wide(uint8_t *at, const uint8_t *end)
{
	for (int i = 0; i < 3 && at < end && *at == 0; i++)
		at++;
	return at;
}

/* The character of a needle at `at`: as it is spelled, or as it stands there. The second reading
 * can only be right for the few characters with which escapes begin; these are escaped `depth`
 * times. */
static struct unit read_wanted(const struct needle *needle, unsigned depth, size_t i,
			       const uint8_t *at, const uint8_t *end)
{
	const uint8_t wanted = needle->text[i];
	struct unit unit = {.c = *at, .size = 1};

	if (!unit_begins_escape(*at) ||
	    (*at == wanted && (depth == 0 || unit_read_own(at, end, depth, &unit))))
		return unit;
	unit_read(at, end, wanted, &unit);
	if (unit_begins_escape(wanted) && unit.c != wanted)
		unit = (struct unit){.c = *at, .size = 1};
	return unit;
}

/* Where a match of the needle at this byte ends, or NULL. A whole block is compared before any
 * character decides: else the time would tell how many of them were right. */
static uint8_t *follow(const struct screen *screen, const struct needle *needle, unsigned depth,
		       uint8_t *at, const uint8_t *end)
{
	uint8_t differs = 0;

	if ((size_t)(end - at) < needle->size)
		return NULL;
	for (size_t i = 0; i < needle->size; i++) {
		struct unit unit;

		if (at == end || !screen->may_run[*at] || (differs && i % BLOCK == 0))
			return NULL;
		unit = read_wanted(needle, depth, i, at, end);
		differs |= fold(needle->fold, unit.c) ^ needle->text[i];
		at = skip_wide(at + unit.size, end);
	}
	return differs ? NULL : at;
}

/* Put the placeholder over a match. */
static void overwrite(const struct needle *needle, unsigned depth, uint8_t *at, const uint8_t *end)
{
	for (size_t i = 0; i < needle->size; i++) {
		struct unit unit = read_wanted(needle, depth, i, at, end);

		unit_write(at, &unit, needle->placeholder[i]);
		at = skip_wide(at + unit.size, end);
	}
}

/* A value with "%" in it may have been escaped several times: each number of times is tried. */
static void hide_needle_at(const struct screen *screen, const struct needle *needle, uint8_t *at,
			   const uint8_t *end)
{
	const unsigned most = needle->has_escape ? UNIT_DEPTH_MAX : 0;

	for (unsigned depth = 0; depth <= most; depth++)
		if (follow(screen, needle, depth, at, end)) {
			overwrite(needle, depth, at, end);
			return;
		}
}

/* The next characters, each in all ways to fold it. */
struct block {
	uint8_t folded[FOLDS][BLOCK];
	size_t n;
};

static void read_block(const struct screen *screen, uint8_t *at, const uint8_t *end,
		       struct block *ret)
{
	size_t n = 0;

	while (n < BLOCK && at < end && screen->may_run[*at]) {
		struct unit unit = {.c = *at, .size = 1};

		if (unit_begins_escape(*at))
			unit_read(at, end, -1, &unit);
		ret->folded[FOLD_NONE][n++] = unit.c;
		at = skip_wide(at + unit.size, end);
	}
	ret->n = n;
	for (size_t i = 0; i < n; i++)
		ret->folded[FOLD_CASE][i] = fold(FOLD_CASE, ret->folded[FOLD_NONE][i]);
	for (size_t i = 0; i < n; i++)
		ret->folded[FOLD_BASE64][i] = fold(FOLD_BASE64, ret->folded[FOLD_NONE][i]);
}

static bool begins_with_block(const struct needle *needle, const struct block *block)
{
	const size_t size = needle->size < BLOCK ? needle->size : BLOCK;
	const uint8_t *folded = block->folded[needle->fold];
	uint8_t differs = 0;

	for (size_t i = 0; i < size && block->n >= size; i++)
		differs |= folded[i] ^ needle->text[i];
	return block->n >= size && !differs;
}

/* Each needle at this byte. The first block is read once for all of them; how it is read depends
 * on needles with an escape in them alone. */
static void hide_at(const struct screen *screen, uint8_t *at, const uint8_t *end)
{
	struct block block;

	if (!screen->may_run[*at])
		return;
	read_block(screen, at, end, &block);
	for (size_t i = 0; i < screen->n_needles; i++) {
		const struct needle *needle = &screen->needles[i];

		if (needle->has_escape || begins_with_block(needle, &block))
			hide_needle_at(screen, needle, at, end);
	}
}

/* The same bytes, compared in blocks. */
static bool is_as_it_is(const struct needle *needle, const uint8_t *at, const uint8_t *end)
{
	size_t n = 0, size = needle->size;

	if ((size_t)(end - at) < size)
		return false;
	while (n < size) {
		size_t part = size - n < BLOCK ? size - n : BLOCK;

		if (sodium_memcmp(at + n, needle->text + n, part) != 0)
			return false;
		n += part;
	}
	return true;
}

/* Those with "%", "\" or "&" in them, as they are and in other spellings: characters that are read
 * without knowing which one is wanted could be others. `distance`: bytes to the next of these
 * signs; each character before it is one byte, or up to four (UTF-32). */
static void hide_ambiguous(const struct screen *screen, uint8_t *at, const uint8_t *end,
			   size_t distance)
{
	for (size_t i = 0; i < screen->n_needles; i++) {
		const struct needle *needle = &screen->needles[i];

		if (!needle->has_escape || distance / 4 >= needle->size)
			continue;
		if (is_as_it_is(needle, at, end))
			memcpy(at, needle->placeholder, needle->size);
		else
			hide_needle_at(screen, needle, at, end);
	}
}

static struct place *place_at(const struct run *run, size_t i)
{
	return &run->screen->ring[i & run->screen->ring_mask];
}

/* The needle ends with the run's last character. Its characters were kept as they were read, so
 * that matches that overlap are all found. */
static void hide_last(const struct run *run, const struct needle *needle)
{
	size_t start = run->n - needle->size;

	for (size_t i = 0; i < needle->size; i++)
		if (place_at(run, start + i)->folded[needle->fold] != needle->text[i])
			return;
	for (size_t i = 0; i < needle->size; i++) {
		const struct place *place = place_at(run, start + i);

		unit_write(place->at, &place->unit, needle->placeholder[i]);
	}
}

/* The same work for every character, whatever it is. */
static void run_add(struct run *run, uint8_t *at, const struct unit *unit)
{
	const struct screen *screen = run->screen;
	struct place *place = place_at(run, run->n++);
	bool is_found = false;

	place->at = at;
	place->unit = *unit;
	for (int i = 0; i < FOLDS; i++)
		place->folded[i] = fold((enum fold)i, unit->c);
	for (size_t i = 0; i < screen->n_needles; i++) {
		const struct needle *needle = &screen->needles[i];
		uint64_t hash = run->hashes[i] * screen->factor + place->folded[needle->fold];

		if (run->n > needle->size)
			hash -= needle->factor *
				place_at(run, run->n - 1 - needle->size)->folded[needle->fold];
		run->hashes[i] = hash;
		is_found |= hash == needle->hash;
	}
	for (size_t i = 0; is_found && i < screen->n_needles; i++)
		if (run->hashes[i] == screen->needles[i].hash && run->n >= screen->needles[i].size)
			hide_last(run, &screen->needles[i]);
}

/* Characters until a byte that no match can have. Returns that place. */
static uint8_t *hide_run(const struct screen *screen, uint8_t *at, const uint8_t *end)
{
	uint64_t hashes[NEEDLES_MAX];
	struct run run = {screen, hashes, 0};

	const uint8_t *sign = at; /* the next one with which an escape begins */

	memset(hashes, 0, screen->n_needles * sizeof *hashes);
	while (at < end && *at && screen->may_run[*at]) {
		struct unit unit = {.c = *at, .size = 1};

		while (screen->is_ambiguous && sign < end &&
		       (sign < at || !unit_begins_escape(*sign)))
			sign++;
		if (screen->is_ambiguous)
			hide_ambiguous(screen, at, end, (size_t)(sign - at));
		if (unit_begins_escape(*at))
			unit_read(at, end, -1, &unit);
		run_add(&run, at, &unit);
		for (size_t i = 1; i < unit.size; i++)
			hide_at(screen, at + i, end);
		at = skip_wide(at + unit.size, end);
	}
	while (at < end && *at == 0)
		at++;
	return at;
}

/* Where `screen->shortest` bytes in a row begin that could all be of a match; `end` if nowhere. */
static uint8_t *find_run(const struct screen *screen, uint8_t *at, const uint8_t *end)
{
	while ((size_t)(end - at) >= screen->shortest) {
		uint8_t *probe = at + screen->shortest;

		while (probe > at && screen->may_run[probe[-1]])
			probe--;
		if (probe == at)
			return at;
		at = probe;
	}
	return (uint8_t *)end;
}

void screen_hide(const struct screen *screen, char *data, size_t size)
{
	uint8_t *at = (uint8_t *)data, *end;

	/* An empty answer has no memory: nothing is added to its pointer. */
	if (screen->n_needles == 0 || size == 0 || size < screen->shortest)
		return;
	end = at + size;
	while ((at = find_run(screen, at, end)) < end)
		at = hide_run(screen, at, end);
}

/* ---- what waits ---- */

size_t screen_tail_max(const struct screen *screen)
{
	return screen->n_needles ? (screen->longest + 2) * UNIT_MAX : 0;
}

size_t screen_tail(const struct screen *screen, const char *data, size_t size)
{
	size_t most = screen_tail_max(screen), n = 0;

	while (n < size && n < most && screen->may_run[(uint8_t)data[size - 1 - n]])
		n++;
	return n;
}
