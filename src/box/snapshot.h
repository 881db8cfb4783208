/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>
#include <stddef.h>

struct box_op;
struct daemon;
struct daemon_tenant;

int snapshot_run(struct box_op *op);
void snapshot_after(struct box_op *op);
/* NULL: there is none that this tenant may have. */
size_t kinds_count(const struct daemon_tenant *tenant);
int snapshots_load(struct daemon *daemon, struct atoll_error *err);
