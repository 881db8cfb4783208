/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * What looks like a secret
 *
 * By its name (redact-names.c): what stands behind "password=" is one whatever it is, what stands
 * behind "key=" only if it looks random, too. Or by its own form (redact-forms.c): services give
 * their tokens a known beginning so that they can be found. redact.c goes through a text once and
 * asks both.
 */

enum redact_telling {
	REDACT_PLAIN,  /* the name says nothing */
	REDACT_MAYBE,  /* a secret if it looks like one */
	REDACT_SECRET, /* a secret, whatever it looks like */
};

/* What a name says about its value: "PGPASSWORD", "--api-key", "clientSecret", "http.extraheader".
 */
enum redact_telling redact_name(const char *name, size_t size);

/* Is it long and random enough to be a key? No path, no plain word, no version. Only its first 256
 * bytes are looked at. */
bool redact_looks_random(const char *value, size_t size);

/* How many bytes at the beginning of `text` are a token of a known form; 0: none. `*ret_keep` of
 * them only say what it is, and can stay. */
size_t redact_form(const char *text, size_t size, size_t *ret_keep);

static inline bool redact_is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '-';
}
