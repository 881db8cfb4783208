/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct buf;

/* Parts of a description. */

/* A command line in shell syntax; cut at a length if `is_cut`. */
void describe_argv(const json_t *argv, bool is_cut, struct buf *out);
/* "120 ms", "1.2 s", "2 min 5 s". */
void describe_ms(uint64_t ms, struct buf *out);
void describe_size(uint64_t bytes, struct buf *out);
/* Any value: a text escaped, anything else as JSON. */
void describe_value(const json_t *value, struct buf *out);
/* "example.org:443 (192.0.2.7)". */
void describe_target(const json_t *object, struct buf *out);
/* The option that would allow it: the event's own, or a flag for a refused connection; nothing if
 * no option would. */
void describe_allow(const json_t *object, struct buf *out);
/* "exited with 0", "ended by signal 9 (KILL)", "stopped at the time limit". */
void describe_end(const json_t *object, struct buf *out);
