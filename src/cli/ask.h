/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/atoll.h>
#include <stdio.h>

/* Prints the question without the list of answers, escaped for a terminal. */
void ask_text(const struct atoll_question *question, FILE *out);

/* The meaning of a typed line; the default is no. */
enum atoll_answer_type ask_meaning(const char *line);

/* For atoll_run_options.ask: asks at the controlling terminal. Without a terminal the answer is
 * ATOLL_ASK_NOBODY. After five noes within a minute all questions of that minute are refused. */
enum atoll_answer_type ask_person(const struct atoll_question *question, void *data);
