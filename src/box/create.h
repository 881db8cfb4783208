/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>

struct box;
struct box_request;
struct box_sizes;
struct daemon;

int boxes_load(struct daemon *daemon, struct atoll_error *err);
/* From what was asked for: all but the template, and the environment, which is part of that. */
int box_fill(struct box *box, const struct box_request *request, const struct box_sizes *sizes);
