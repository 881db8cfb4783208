/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "spec/network.h"

#include <atoll/error.h>
#include <stdbool.h>
#include <stddef.h>

/* What box-network.c has understood of a request, for box-network-section.c. */
#define WISH_LINES 500 /* of what a contract may have */
#define WISH_NAMES 128
#define WISH_TEXT  (256U << 10)

struct block {
	struct network_address base;
	unsigned bits; /* 96 more for IPv4 */
};

struct blocks {
	struct block list[WISH_LINES];
	size_t n;
};

struct header {
	const char *host, *name, *value;
};

struct tenant;

struct wish {
	struct tenant *tenant; /* whose secrets are named; NULL: nobody's */
	struct blocks allowed, denied;
	const char *names[WISH_NAMES];
	size_t n_names;
	struct header headers[64];
	size_t n_headers;
	bool denies_all, allows_all;
	/* Of its files: rules never find values of others. A capital, as no secret's name has. */
	char stamp[10];
	struct atoll_error *err;
};

/* Writes it as JSON; values of headers are meant to be in `dir`. */
int wish_write(struct wish *wish, const char *dir, struct buf *out);
