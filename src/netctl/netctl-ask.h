/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct egress_question;
struct netctl;

/* A question of egress. */
void netctl_receive_question(struct netctl *net, const struct egress_question *from);
/* Read an answer from options->answer_fd. */
void netctl_read_answer(struct netctl *net);
