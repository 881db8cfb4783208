/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "init/init.h"

#include <stdbool.h>

struct holder;
struct parsed_notice;

/* Build the cell if there is none. The caller has not locked the record. */
int holder_open_cell(struct holder *holder, struct atoll_error *err);
/* End everything inside, and end all steps: by `limit` or for an unknown reason (NULL). Without a
 * cell nothing happens. */
void holder_close_cell(struct holder *holder, const struct init_message *limit);
/* Fill holder->layer with the paths of the record's present layers. */
int holder_find_layers(struct holder *holder, struct atoll_error *err);
/* Handle a notice of pid 1: log it, and send a denial to its step. `data` is the holder. */
void holder_handle_notice(void *data, const struct parsed_notice *notice);
/* Read all messages of pid 1; false if pid 1 is gone. */
bool holder_read_messages(struct holder *holder);
/* End the cell if a counter is over its limit. Reads the counters every 500 ms, or `is_now`. */
void holder_check_counters(struct holder *holder, bool is_now);
/* Send an order to pid 1; without a cell nothing happens. */
void holder_send_order(struct holder *holder, enum init_order_type type, uint32_t step, int number);
/* Send an order and wait for INIT_DONE: its code, or a negative errno. */
int holder_ask_init(struct holder *holder, enum init_order_type type, struct atoll_error *err);
