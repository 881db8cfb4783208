/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

struct atoll_error;
struct sign_key;

/* Adds an envelope to the store's log of receipts, and writes a sigstore bundle with the proof of
 * that to `path`. `key` has signed the envelope. `root_path`, if not NULL, gets the trusted root
 * for verifiers: the key of the log of receipts. */
int bundle_write(const json_t *envelope, const struct sign_key *key, const char *path,
		 const char *root_path, struct atoll_error *err);
