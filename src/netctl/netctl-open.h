/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

struct atoll_error;
struct egress_message;
struct netctl;

/* Create the channel, send the configuration, start egress, which answers with EGRESS_READY. */
int netctl_start(struct netctl *net, struct atoll_error *err);
/* Wait for EGRESS_READY. */
int netctl_await_ready(struct netctl *net, struct atoll_error *err);
/* Send a message. An egress that does not read is killed: the caller must not block. */
int netctl_send(struct netctl *net, const struct egress_message *message, const int *fds, size_t n);
