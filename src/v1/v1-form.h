/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "v1/v1-state.h"

/* A body that is read member by member. The first mistake is kept, and form_fails() answers it. */
struct form {
	struct api_call *call;
	json_t *body;
	bool is_bad;
	char why[200];
};

/* Every member has to be one of `keys`, which end with NULL. The next ones return `usual` for a
 * member that is missing. */
void form_known(struct form *form, const char *const *keys);
const char *form_str(struct form *form, const char *key, const char *usual);
uint64_t form_uint(struct form *form, const char *key, uint64_t usual, uint64_t least,
		   uint64_t most);
bool form_bool(struct form *form, const char *key, bool usual);
/* {"name": "value"}; form_free_pairs() frees the pairs, also after a mistake. */
void form_pairs(struct form *form, const char *key, struct box_pairs *ret);
void form_free_pairs(struct box_pairs *pairs);
/* A list of strings, NULL-terminated; NULL: missing. One free() frees the list with its strings. */
char **form_words(struct form *form, const char *key);
/* A mistake; the first one counts. */
void form_bad(struct form *form, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* True: there was a mistake, and 400 was answered. */
bool form_fails(struct form *form);

/* A number of the query, `usual` if it is missing. False: 400 was answered. */
bool v1_query_uint(struct api_call *call, const char *name, uint64_t usual, uint64_t most,
		   uint64_t *ret);
/* "true" or "1" is true; missing, "false" and "0" is false. False: 400 was answered. */
bool v1_query_bool(struct api_call *call, const char *name, bool *ret);
