/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * gzip, unpacked as it comes
 *
 * A kilobyte can become a megabyte. So what comes out is handed over in pieces of the caller's
 * size, nothing more is done until the next is asked for, and there is a limit to the sum.
 */

struct inflater;

/* NULL: out of memory. */
struct inflater *inflate_new(uint64_t max);
void inflate_free(struct inflater *inflater);

/* Unpacks some of `data` into `out`. Returns how many bytes came out; `*ret_used` of the input are
 * done with. 0 with all of it used: more is wanted. -EBADMSG: no gzip; -E2BIG: more than the limit;
 * -ENOMEM. Several members one behind the other are one, as gzip(1) has it; what is not one is bad.
 */
ssize_t inflate_step(struct inflater *inflater, const void *data, size_t size, size_t *ret_used,
		     void *out, size_t room);
/* Is there perhaps more to come out of what was used already? */
bool inflate_has_more(const struct inflater *inflater);
/* May it end here? */
bool inflate_is_complete(const struct inflater *inflater);
