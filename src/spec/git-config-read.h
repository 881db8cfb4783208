/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Reading a git config the way git does
 *
 * A text is vetted as the list of entries that git would make of it, so reader and git must agree
 * to the letter. Where git's own versions differ, where a rule is obscure (a byte order mark,
 * [section.subsection], a carriage return alone, a NUL) or a part is too long for a buffer here,
 * the text is not understood, and what is not understood is refused.
 */

struct git_config_entry {
	char section[32]; /* lower case */
	char subsection[256];
	char key[64]; /* lower case */
	char value[4096];
	bool has_subsection;
	bool has_value; /* false for a key alone, which means true */
};

struct git_config_reader {
	const char *at, *end;
	unsigned line;
	unsigned started; /* line on which the entry or section began */
	unsigned entries;
	bool has_section;
};

/* The next entry: 1; 0 at the end; -1 if the text is not understood from reader->started on. The
 * reader begins with at, end and line = 1; `entry` carries the section from call to call. */
int git_config_read(struct git_config_reader *reader, struct git_config_entry *entry);
