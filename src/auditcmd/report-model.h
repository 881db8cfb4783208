/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdint.h>

struct atoll_error;
struct buf;
struct event;
struct events;
struct report;

/* Gathers the data: report_init(), report_add() for each event, report_finish(). */
int report_init(struct report *report, struct atoll_error *err);
void report_done(struct report *report);
int report_add(struct report *report, const struct event *event, struct atoll_error *err);
int report_finish(struct report *report, const struct events *events, struct atoll_error *err);

/* ms since the first event */
json_t *report_time(const struct report *report, uint64_t time_ns);
/* A text of an event, escaped by event_show(); JSON null if there is none. */
json_t *report_text(const json_t *object, const char *key);
/* The content of a buffer as a JSON string; empties the buffer. */
json_t *report_move_text(struct buf *text);
