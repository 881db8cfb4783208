/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct top;
struct top_row;

/* Requests of `top` to the daemon. */

void top_fetch(struct top *top);
void top_fetch_steps(struct top *top);
void top_sort(struct top *top);
/* Pause or resume, and end the selected sandbox; the result is in top->said. */
void top_toggle(struct top *top);
void top_kill(struct top *top);
const struct top_row *top_row(const struct top *top); /* NULL: none is selected */
void top_free(struct top *top);
