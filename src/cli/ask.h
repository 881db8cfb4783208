/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/atoll.h>
#include <stdio.h>

/* The question as it is shown, without the list of answers. Nothing of it is obeyed by a terminal.
 */
void ask_text(const struct atoll_question *question, FILE *out);

/* What a typed line means; the default is no. */
enum atoll_answer_type ask_meaning(const char *line);

/* For atoll_run_options: ask at the terminal. Who is not there, or not in front of it, says no; so
 * do five noes within a minute for the rest of that minute. */
enum atoll_answer_type ask_person(const struct atoll_question *question, void *data);
