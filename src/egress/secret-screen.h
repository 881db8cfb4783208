/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Texts that must not come back from one host
 *
 * A screen finds the values of a host's secrets in its answers and writes placeholders of the same
 * size over them: as they are (in either case), in hexadecimal, in base64 at each of its three
 * offsets (both alphabets), and each of these in every spelling of unit.h, also mixed.
 *
 * Neither what waits at the end of a piece (screen_tail()) nor the time of the search tells how
 * much of a value a text has in common with it:
 * - What waits is the run of bytes at the end that could belong to any value of that length and
 *   with that punctuation. Letters and digits always belong to it, line ends never do.
 * - Runs are compared by a rolling hash with a random factor, so each character costs the same.
 *   Where a match may begin within an escape, a block of 64 characters costs the same.
 */
struct needle;

struct screen {
	struct needle *needles;
	size_t n_needles;
	bool may_run[256];	  /* bytes that can be a part of a match */
	size_t shortest, longest; /* characters of needles */
	struct place *ring;	  /* the last characters of a run, `longest` of them and more */
	size_t ring_mask;
	uint64_t factor;   /* of the hashes; random */
	bool is_ambiguous; /* a needle has a character with which escapes begin */
};

/* A value in all its forms. 0 or -ENOMEM. */
int screen_add_value(struct screen *screen, const char *value, const char *placeholder,
		     size_t size);
/* A text in this form alone: base64 of something with a value in it. */
int screen_add_text(struct screen *screen, const char *text, const char *placeholder, size_t size);
bool screen_has(const struct screen *screen, const char *text, size_t size);
void screen_done(struct screen *screen); /* wipes */

/* Write placeholders over all matches in `data`. */
void screen_hide(const struct screen *screen, char *data, size_t size);

/* How many bytes at the end may not be passed on before more is there. */
size_t screen_tail(const struct screen *screen, const char *data, size_t size);
/* The most that this can be. */
size_t screen_tail_max(const struct screen *screen);
