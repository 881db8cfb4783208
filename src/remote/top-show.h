/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

struct top;

/* Shows a frame. */
void top_show(struct top *top);
/* Prints the whole table once, for `--once`. */
void top_print(const struct top *top);
/* The number of rows that fit on the screen. */
size_t top_room(const struct top *top);
