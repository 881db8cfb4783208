/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/program/events.h"
#include "audit/program/program.h"

#include "base/error.h"
#include "base/scope.h"

#include <stdio.h>

static int run_log(char **args, struct atoll_error *err)
{
	cleanup_events struct events *events = NULL;
	cleanup_event struct event event = {0};
	const char *word;
	bool is_json = false;
	const struct words_option table[] = {{"json", NULL, &is_json}, {0}};
	int r = words_read(args, table, &word, 1, err);

	if (r == 0)
		r = events_open(word, &events, err);
	while (r >= 0 && (r = events_next(events, &event, err)) > 0)
		printf("%s\n", event.line);
	return r;
}

const struct audit_command audit_command_log = {"log", run_log};
