/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/json.h"
#include "box/box.h"
#include "v1/v1-state.h"

void v1_write_box(struct json *json, const char *key, struct box *box, bool with_usage);
void v1_write_pairs(struct json *json, const char *key, const struct box_pairs *pairs);
void v1_write_time(struct json *json, const char *key, int64_t ms);
/* `with_data`: also the output, at most V1_INLINE bytes of each stream. */
void v1_write_step(struct json *json, const char *key, struct process *process, bool with_data);
/* The same with this end; NULL: the step has not ended. */
void v1_write_step_as(struct json *json, const char *key, struct process *process,
		      const struct process_end *end, int64_t end_ms, bool with_data);
void v1_write_base64(struct json *json, const char *key, const void *data, size_t size);
void v1_answer_box(struct api_call *call, unsigned status, struct box *box);
/* The label of the box with that name, or NULL. Names that begin with "atoll." belong to the
 * daemon. */
const char *v1_label(const struct box *box, const char *name);
bool v1_label_is_reserved(const char *name);

#define V1_INLINE 65536

/* "SIGTERM", "TERM" or "15"; 0: unknown. */
int v1_signal_number(const char *name);
/* "SIGTERM", or NULL. */
const char *v1_signal_name(int number);

api_handler v1_usage;
