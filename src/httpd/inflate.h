/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * gzip, unpacked in pieces
 *
 * A kilobyte can become a megabyte. So the output comes in pieces of the caller's size, one for
 * each call, and its sum is limited.
 */

struct inflater;

/* NULL: out of memory. */
struct inflater *inflate_new(uint64_t max);
void inflate_free(struct inflater *inflater);

/* Unpacks some of `data` into `out`. Returns the number of bytes in `out`; `*ret_used` bytes of the
 * input were used. 0 with all input used: more input is needed. -EBADMSG: the input is not gzip;
 * -E2BIG: more than the limit; -ENOMEM. Several members are unpacked as one, as gzip(1) does. */
ssize_t inflate_step(struct inflater *inflater, const void *data, size_t size, size_t *ret_used,
		     void *out, size_t room);
/* Can there be more output without more input? */
bool inflate_has_more(const struct inflater *inflater);
/* Is the input complete? */
bool inflate_is_complete(const struct inflater *inflater);
