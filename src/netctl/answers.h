/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

struct atoll_error;
struct network_rule;
struct spec;

/*
 * Answers "always" of a person to questions about the network
 *
 * ~/.config/atoll/answers has a line "DIGEST HOST:PORT DATE" for each. It holds for runs of the
 * contract with this digest (computed without the answers); deny lines still win. A list that the
 * job can read or write is ignored.
 */

/* The lines for this contract, as allow lines with the origin "answer of DATE"; free them with
 * answers_free(). None if the contract does not say `ask`. */
int answers_read(const struct spec *spec, struct network_rule **ret, size_t *ret_n,
		 struct atoll_error *err);
void answers_free(struct network_rule *rules, size_t n);

/* Store an answer. */
int answers_add(const struct spec *spec, const char *name, unsigned port, struct atoll_error *err);
