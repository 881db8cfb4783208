/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

struct atoll_error;
struct diff_view;

/* Prints the changes as one JSON object. */
int diff_print_json(const struct diff_view *view, FILE *out, struct atoll_error *err);
