/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct box_pairs;
struct daemon_box;
struct daemon_tenant;

/* Memory alone: nothing happens to the sandbox. */
void box_free(struct daemon_box *box);
void box_arm_end(struct daemon_box *box);
void box_call_gone(struct daemon_box *box);
struct daemon_box *box_new(struct daemon_tenant *tenant);
int pairs_copy(const struct box_pairs *from, struct box_pairs *to);
void pairs_done(struct box_pairs *pairs);
/* When a box that gets so long from now ends. */
int64_t box_end_after(uint64_t timeout_s);
void box_begin_removal(struct daemon_box *box);
