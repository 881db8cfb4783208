/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/events.h"
#include "auditcmd/processes.h"
#include "base/scope.h"
#include "base/str.h"
#include "base/test.h"

#include <stdarg.h>

/* One event after the other, from its JSON. */
static void add(struct processes *all, const char *kind, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void add(struct processes *all, const char *kind, const char *format, ...)
{
	struct event event = {.kind = kind, .step = 1};
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	event.object = json_loads(text, 0, NULL);
	CHECK(event.object != NULL);
	CHECK(processes_add(all, &event) == 0);
	json_decref(event.object);
}

static void execute(struct processes *all, int pid, int parent, const char *program,
		    const char *path)
{
	add(all, "exec",
	    "{\"pid\":%d,\"parent\":%d,\"program\":\"%s\",\"path\":\"%s\",\"argv\":[\"x\"]}", pid,
	    parent, program, path);
}

static struct processes *begin(void)
{
	struct processes *all = processes_new();

	CHECK(all != NULL);
	add(all, "start", "{\"argv\":[\"make\"]}");
	execute(all, 2, 1, "atoll", "/bin/make");
	return all;
}

TEST(a_step_is_at_the_top_and_its_command_beneath_it)
{
	struct processes *all = begin();

	processes_finish(all);
	CHECK_INT(all->n, 2);
	CHECK(all->items[0].pid == 0 && all->items[0].up == PROCESS_NONE);
	CHECK(all->items[1].pid == 2 && all->items[1].up == 0);
	CHECK_INT(all->items[0].n_below, 1);
	processes_free(all);
}

TEST(a_process_that_goes_on_under_another_program_stays_one)
{
	struct processes *all = begin();

	execute(all, 2, 1, "make", "/bin/sh");
	execute(all, 2, 1, "sh", "/bin/cc");
	CHECK_INT(all->n, 2);
	CHECK_INT(all->n_acts, 2);
	processes_free(all);
}

TEST(a_number_that_is_used_again_is_another_process)
{
	struct processes *all = begin();

	execute(all, 5, 2, "make", "/bin/cc");
	execute(all, 5, 2, "make", "/bin/ld");
	CHECK_INT(all->n, 4);
	CHECK(all->items[2].up == 1 && all->items[3].up == 1);
	processes_free(all);
}

TEST(what_only_forked_is_passed_over_to_the_one_whose_name_it_has)
{
	struct processes *all = begin();

	execute(all, 3, 2, "make", "/bin/dash");
	/* 4 was forked by 3, and 5 by 4. */
	execute(all, 5, 4, "dash", "/bin/cat");
	add(all, "denial",
	    "{\"pid\":4,\"program\":\"dash\",\"action\":\"write\",\"object\":\"/x\"}");
	CHECK(all->items[3].up == 2 && all->items[3].is_indirect);
	CHECK_INT(all->items[2].n_denials, 1);
	/* Nobody has that name: the step is all that is known. */
	execute(all, 9, 8, "unheard-of", "/bin/cat");
	CHECK(all->items[4].up == 0 && !all->items[4].is_indirect);
	processes_free(all);
}

TEST(nonsense_harms_nothing)
{
	struct processes *all = processes_new();

	add(all, "exec", "{}");
	add(all, "exec", "{\"pid\":-1,\"parent\":\"x\",\"argv\":7,\"path\":[]}");
	add(all, "exec", "{\"pid\":4611686018427387904,\"parent\":4611686018427387904}");
	add(all, "exec", "{\"pid\":7,\"parent\":7,\"program\":\"\",\"path\":\"\"}");
	add(all, "exec", "{\"pid\":7,\"parent\":7,\"program\":\"a\",\"path\":\"/\"}");
	add(all, "connection", "{\"pid\":7}");
	add(all, "denial", "{\"allow\":{}}");
	processes_finish(all);
	for (uint32_t i = 0; i < all->n; i++)
		CHECK(all->items[i].up == PROCESS_NONE || all->items[i].up < i);
	processes_free(all);
}
