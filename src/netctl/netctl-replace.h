/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct atoll_error;
struct netctl;
struct network;

/* Egress has died: prepare for another one, which the next connection starts. False if that is not
 * possible. */
bool netctl_restart(struct netctl *net);
/* Read the secrets again. Secrets of the same name and length keep their placeholders. */
int netctl_read_secrets(struct netctl *net, const struct network *before, struct atoll_error *err);
