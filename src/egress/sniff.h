/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What the first bytes of a client look like. Pure functions.
 */

enum sniff {
	SNIFF_MORE, /* could still be any: hold what there is */
	SNIFF_TLS,
	SNIFF_HTTP, /* what a lenient server would take for a request, of whatever version */
	SNIFF_LINE, /* a line that is no usual request and has no end yet: it can be passed on, and
		     * sniff_line_add() looks at all of it */
	SNIFF_OTHER,
};
enum sniff sniff_read(const uint8_t *data, size_t size);
/* While there could be more to come: is the first word, whole or not, none of HTTP's known methods?
 * Then it may pass as SNIFF_LINE if nothing follows for a moment: there are protocols that send
 * words without an end of line. */
bool sniff_is_strange(const uint8_t *data, size_t size);

/* A first line that is passed on while it comes. Begins as {0}. */
struct sniff_line {
	size_t size;	  /* bytes so far, without blanks in front */
	unsigned n_words; /* up to 3 */
	uint8_t at;	  /* place in the present word, up to 6 */
	bool is_odd;	  /* the first word has a character that no method has */
	bool has_target;  /* the second word begins like a target */
	bool may_version; /* the present word is a version of HTTP so far */
	bool is_version;  /* the last word is one */
	bool had_version; /* a word was one */
};
/* The next bytes: SNIFF_MORE, SNIFF_HTTP as soon as the line's end is among them and it was a
 * request, SNIFF_OTHER: it was none, and nothing more has to be looked at. */
enum sniff sniff_line_add(struct sniff_line *line, const uint8_t *data, size_t size);
#define SNIFF_MAX 16384 /* more are never needed */
