/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>
#include <limits.h>
#include <stdbool.h>

struct daemon;
struct daemon_box;

/* Where values of headers and secrets of a box lie, if it has some. */
void secrets_path(const struct daemon_box *box, char ret[PATH_MAX]);
/* What the contract says of a box's network. */
int network_rules(struct daemon_box *box, const char *network, bool has_internet, char **ret,
		  struct atoll_error *err);
/* Files with values of headers. */
void network_forget(struct daemon_box *box);
void network_sweep(const struct daemon_box *box, const char *rules, bool keeps);
/* Those of boxes that are not there: at the start. */
void networks_tidy(struct daemon *daemon);
