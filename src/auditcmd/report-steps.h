/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct event;
struct report;

/* Add a step, and the end of one. */
int report_add_step(struct report *report, const struct event *event);
int report_end_step(struct report *report, const struct event *event);
