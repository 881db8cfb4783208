/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/hash.h"

struct atoll_error;
struct spec;

/*
 * What a run begins with
 *
 * A digest of the workspace as the command will see it, for receipts: the SHA-256 of one entry for
 * each object beneath it, in the order of their paths as bytes, each ended by a NUL:
 *
 *	f MODE SHA256 PATH	a file; MODE is octal without leading zeros, as in 644
 *	d MODE - PATH		a directory, not the workspace itself
 *	l - SHA256 PATH		a link, and the hash of where it points
 *	o - - PATH		anything else, and what lies on another file system
 *
 * PATH is relative. A file that cannot be read has "?" for its hash. Times and owners do not count.
 * Left out is what the contract hides, and every `.git` with what is in it: two clones of a commit
 * are the same input, and git itself writes there when it only looks.
 */
int input_digest(const struct spec *spec, char ret_hex[HASH_HEX_SIZE], struct atoll_error *err);

/* Of the contract's image, which it has: made in the same way, and nothing is left out. */
int input_image_digest(const struct spec *spec, char ret_hex[HASH_HEX_SIZE],
		       struct atoll_error *err);

/* The commit that the workspace's own git directory is at, in hexadecimal; "" where that cannot be
 * told at a glance. A hint: whether the files are that commit's is not looked at. */
void input_commit(const char *workspace, char ret_hex[HASH_HEX_SIZE]);
