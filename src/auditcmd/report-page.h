/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct atoll_error;
struct buf;
struct report;

/* Writes the page. */
int report_page(const struct report *report, struct buf *out, struct atoll_error *err);
