/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct box_op;

int fork_run(struct box_op *op);
void fork_after(struct box_op *op);
void fork_done(struct box_op *op);
