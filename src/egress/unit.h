/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * One character of an answer, in the ways in which encoders write it
 *
 *	A            as it is; up to three NUL bytes may follow (UTF-16, UTF-32)
 *	%41          a URL; also encoded several times: %2541
 *	\u0041 \x41 \101 \U00000041  JSON, C, Python; also with several backslashes
 *	\/ \" "\ "   JSON, a shell
 *	&#65; &#x41; &#65 &amp; &lowbar;  HTML, XML
 *
 * Pure functions. secret-screen.c compares and replaces with them.
 */
struct unit {
	uint8_t c;	   /* the character */
	uint8_t size;	   /* bytes of the text */
	uint8_t digits_at; /* of its number */
	uint8_t n_digits;  /* 0: the character stands there as it is (size 1), or cannot be replaced
			    */
	uint8_t base;
};

#define UNIT_MAX       17 /* bytes of the longest */
#define UNIT_DEPTH_MAX 4  /* how often a text may have been escaped */

/* Can a longer spelling begin with this byte? */
static inline bool unit_begins_escape(uint8_t byte)
{
	return byte == '%' || byte == '\\' || byte == '&';
}

/* Read the unit at `at`, before `end`. Where several readings are possible (%2541), `wanted`
 * chooses; -1: the longest one. Falls back to the byte itself. */
void unit_read(const uint8_t *at, const uint8_t *end, int wanted, struct unit *ret);

/* Read a character with which escapes begin, which was escaped so often: "%2525", "&amp;amp;",
 * four backslashes. False: it is not there. */
bool unit_read_own(const uint8_t *at, const uint8_t *end, unsigned depth, struct unit *ret);

/* Write another character in the same spelling and size; '*' where it does not fit. Named and
 * backslashed punctuation stays. */
void unit_write(uint8_t *at, const struct unit *unit, uint8_t c);
