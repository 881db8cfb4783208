/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/box-types.h"
#include "box/daemon-state.h"

struct box_op *op_new(enum op_kind kind, box_done *done, void *data);
void box_queue(struct daemon_box *box, struct box_op *op);
/* The one at work is at its end, and was answered: the next. */
void box_next_op(struct daemon_box *box);
/* Those that have not begun. */
void ops_fail(struct daemon_box *box);
/* One that an earlier daemon has paused, and perhaps begun to resume. */
void box_freeze_again(struct daemon_box *box);
