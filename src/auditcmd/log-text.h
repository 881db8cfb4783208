/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct event;
struct pager;

/* Events as lines of text, one after the other. */
struct log_text;
struct log_text *log_text_new(struct pager *pager, bool is_denials);
void log_text_free(struct log_text *text);
void log_text_line(struct log_text *text, const struct event *event);
