/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "http/http.h"
#include "spec/network.h"

#include <stdbool.h>
#include <stddef.h>

struct atoll_error;
struct buf;

/*
 * Credentials that stay outside
 *
 * Inside there is a placeholder; here, and nowhere else, is the value that it stands for. In a
 * request to the secret's own host, over TLS that was verified, in the contract's header, the
 * placeholder becomes the value; everywhere else it stays what it is and is worth nothing. In what
 * that host answers the value becomes the placeholder, wherever it is seen.
 *
 * A placeholder has exactly its value's length. So lengths of messages hold, and a body can be
 * changed while it passes.
 *
 * In which forms it is seen: secret-screen.h. What no filter sees: a value in halves (two answers,
 * two messages), encrypted, compressed within the content, or in another code. doc/network.md has
 * the list.
 */
struct swap;

/* `placeholders` and `values` are in the order of network->secrets, and are copied. Refused:
 * lengths that differ, values under SWAP_LENGTH_MIN bytes, what may not stand in a header. */
#define SWAP_LENGTH_MIN 4
#define SWAP_LENGTH_MAX 8192
/* With a sign in it with which an escape begins ("%", "\", "&"): each byte of an answer is compared
 * with such a value at each depth of escapes, in time that grows with its length. */
#define SWAP_ESCAPED_MAX 256
int swap_new(const struct network *network, const char *const *placeholders,
	     const char *const *values, struct swap **ret, struct atoll_error *err);
void swap_free(struct swap *swap); /* wipes; takes NULL */

/* Does a secret belong to this host? Then answers are looked through, and must not be compressed.
 */
bool swap_concerns(const struct swap *swap, const char *host);

/* Write a field's value for `host` to `out`, swapped if it is the header of a secret of that host.
 * 0; -E2BIG: more different user names were used with a secret than can be kept apart. */
int swap_field(struct swap *swap, const char *host, struct http_slice name, struct http_slice value,
	       struct buf *out);

/* A secret that is set (network.h): what a program says in this field is dropped, and what we say
 * stands at the end. Over TLS alone, as above. */
bool swap_sets(const struct swap *swap, const char *host, struct http_slice name);
void swap_add_fields(const struct swap *swap, const char *host, struct buf *out);

/* Replace all values of the host's secrets in `data`, which is whole: a head. */
void swap_hide(const struct swap *swap, const char *host, char *data, size_t size);

/*
 * The same for a body that comes piece by piece: what could be the beginning of any value of that
 * length waits (screen_tail()), as it is to be passed on if nothing more comes (`held`) and as it
 * came (`raw`). The next piece is looked through behind the latter: a value may go on where a
 * shorter one was found already. Before it stand bytes that were passed on, where a value that was
 * found could begin with them.
 */
struct swap_bytes {
	char *at;
	size_t room;
};
struct swap_filter {
	struct swap_bytes held, raw;
	size_t n_held, n_passed; /* `raw` has n_passed + n_held bytes */
};

/* Put what was held and `data` to the end of `out`, without what now has to wait. */
int swap_filter(struct swap_filter *filter, const struct swap *swap, const char *host,
		const char *data, size_t size, struct buf *out);
/* No more comes: nothing has to wait any longer. */
void swap_filter_end(struct swap_filter *filter, struct buf *out);
void swap_filter_done(struct swap_filter *filter);
