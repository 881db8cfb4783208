/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

struct atoll_error;
struct buf;
struct sign_key;

/* Signs `data` as a file for `ssh-keygen -Y verify -n atoll-receipt`. */
int sshsig_sign(const void *data, size_t size, const struct sign_key *key, struct buf *ret,
		struct atoll_error *err);
