/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"

#include <atoll/error.h>
#include <stddef.h>

struct daemon;
/* XChaCha20-Poly1305, by libsodium: a random nonce, then what is sealed. */
#define SEAL_KEY   32
#define SEAL_NONCE 24
#define SEAL_EXTRA 16

int seal_value(const struct daemon *daemon, const char *tenant, const char *name, const char *value,
	       struct buf *ret, struct atoll_error *err);
/* With a NUL at its end; wipe it. */
int seal_open(const struct daemon *daemon, const char *tenant, const char *name, const void *data,
	      size_t size, char *ret, size_t room, struct atoll_error *err);
