/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

struct atoll_error;
struct network_rule;
struct spec;

/*
 * What a person has allowed always
 *
 * One line "DIGEST HOST:PORT DATE" each in ~/.config/atoll/answers. It holds for runs of exactly
 * the contract with this digest, which does not count the answers themselves; deny lines still
 * beat it. A list that the job can read or write is not believed.
 */

/* The lines for this contract, as allow lines with the origin "answer of DATE"; `*ret` is the
 * caller's to free with answers_free(). None where the contract does not ask. */
int answers_read(const struct spec *spec, struct network_rule **ret, size_t *ret_n,
		 struct atoll_error *err);
void answers_free(struct network_rule *rules, size_t n);

/* Note one down. */
int answers_add(const struct spec *spec, const char *name, unsigned port, struct atoll_error *err);
