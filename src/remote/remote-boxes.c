/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/scope.h"
#include "base/str.h"
#include "remote/remote-http.h"
#include "remote/remote.h"
#include "ui/ui.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define FILE_MAX (1U << 20)

/* ---- create ---- */

enum {
	OPTION_FILE,
	OPTION_TEMPLATE,
	OPTION_NAME,
	OPTION_LABEL,
	OPTION_ENV,
	OPTION_TIMEOUT,
	OPTION_ON_TIMEOUT,
	OPTION_OFFLINE,
	OPTION_COUNT,
};

static const struct option create_options[] = {
	{"file", 'f', "FILE",
	 "a job file, sent as it is: its paths are those of the daemon's machine ('-': standard "
	 "input)",
	 OPTION_FILE},
	{"template", 0, "NAME", "what it is made from; 'base' unless said", OPTION_TEMPLATE},
	{"name", 0, "NAME", "the same as --label name=NAME", OPTION_NAME},
	{"label", 0, "NAME=VALUE", "to find it again", OPTION_LABEL},
	{"env", 0, "NAME[=VALUE]", "a variable of all its steps; without a value, the caller's",
	 OPTION_ENV},
	{"timeout", 0, "SECONDS", "when it ends by itself, or 'never'; 300 unless said",
	 OPTION_TIMEOUT},
	{"on-timeout", 0, "WORD", "what happens then: 'delete', or 'pause'", OPTION_ON_TIMEOUT},
	{"offline", 0, NULL, "of a template: without a network", OPTION_OFFLINE},
	{"count", 0, "N", "so many; needs a label", OPTION_COUNT},
	OPTION_HELP_ROW,
	{0},
};

static int add_pair(json_t *body, const char *key, const char *text, bool from_caller,
		    struct atoll_error *err)
{
	json_t *all = json_object_get(body, key);
	cleanup_free char *name = strndup(text, strcspn(text, "="));
	const char *value = strchr(text, '=');

	if (!name || !name[0] || (!value && !from_caller))
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "'%s' is not NAME=VALUE", text);
	value = value ? value + 1 : getenv(name);
	if (!all) {
		all = json_object();
		json_object_set_new(body, key, all);
	}
	if (value && json_object_set_new(all, name, json_string(value)) < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "'%s' is no text in UTF-8", name);
	return 0;
}

static int read_file(json_t *body, const char *path, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(FILE_MAX);
	cleanup_fd int fd = streq(path, "-") ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
	int r = fd < 0 ? -errno : fd_read_all(fd, &text);

	if (r < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, -r, "read job file '%s'", path);
	if (json_object_set_new(body, "contract", json_string(text.data ? text.data : "")) < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "job file '%s' is no text in UTF-8",
				 path);
	return 0;
}

static int read_timeout(json_t *body, const char *text, struct atoll_error *err)
{
	uint64_t seconds;
	char *end;
	int r = 0;

	if (streq(text, "never")) {
		json_object_set_new(body, "timeout", json_string(text));
		return 0;
	}
	seconds = strtoull(text, &end, 10);
	if (*end)
		r = amount_parse_age(text, &seconds, err);
	json_object_set_new(body, "timeout", json_integer((json_int_t)seconds));
	return r;
}

static int add_create_option(json_t *body, const struct option *option, const char *value,
			     struct atoll_error *err)
{
	cleanup_free char *label = NULL;

	switch (option->id) {
	case OPTION_FILE:
		return read_file(body, value, err);
	case OPTION_TEMPLATE:
		return json_object_set_new(body, "template", json_string(value));
	case OPTION_NAME:
		return asprintf(&label, "name=%s", value) < 0
			       ? error_oom(err)
			       : add_pair(body, "labels", label, false, err);
	case OPTION_LABEL:
		return add_pair(body, "labels", value, false, err);
	case OPTION_ENV:
		return add_pair(body, "environment", value, true, err);
	case OPTION_TIMEOUT:
		return read_timeout(body, value, err);
	case OPTION_ON_TIMEOUT:
		return json_object_set_new(body, "onTimeout", json_string(value));
	case OPTION_OFFLINE:
		return json_object_set_new(body, "internet", json_false());
	case OPTION_COUNT:
		return json_object_set_new(body, "count", json_integer(atoi(value)));
	}
	return 0;
}

static int print_made(json_t *answer, struct atoll_error *err)
{
	json_t *item;
	size_t i;
	int r = 0;

	json_array_foreach(json_object_get(answer, "items"), i, item)
	{
		json_t *box = json_object_get(item, "sandbox");

		if (json_is_object(box))
			puts(text_of(box, "id"));
		else if (r == 0)
			r = error_set(err, ATOLL_FAULT_HOST, 0, "%s",
				      text_of(json_object_get(item, "error"), "message"));
	}
	return r;
}

static int send_create(json_t *body, struct atoll_error *err)
{
	bool is_bulk = json_object_get(body, "count");
	char key[33];
	json_t *answer;
	int r;

	if (!is_bulk) {
		remote_request_id(key);
		json_object_set_new(body, "requestId", json_string(key));
	}
	r = remote_call(&remote, "POST", is_bulk ? "/v1/sandboxes/bulk" : "/v1/sandboxes",
			json_incref(body), is_bulk ? 0 : REMOTE_AGAIN, &answer, err);
	if (r < 0)
		return r;
	if (is_bulk)
		r = print_made(answer, err);
	else
		puts(text_of(answer, "id"));
	json_decref(answer);
	fflush(stdout);
	return r < 0 ? r : command_flush(err);
}

static int run_create(char **args, struct atoll_error *err)
{
	struct options options = {"create", create_options, args};
	const struct option *option;
	json_t *body = json_object();
	const char *value;
	int r;

	while ((r = options_next(&options, &option, &value, err)) > 0) {
		if (option->id == OPTION_HELP) {
			help_command(&remote_create, stdout);
			json_decref(body);
			return command_flush(err);
		}
		r = add_create_option(body, option, value, err);
		if (r < 0)
			break;
	}
	if (r >= 0 && *options.next)
		r = error_set(err, ATOLL_FAULT_REQUEST, 0,
			      "'%s': a sandbox has no command of its own; usage: atoll --host URL "
			      "create [OPTION]..., then exec ID -- COMMAND",
			      *options.next);
	if (r >= 0)
		r = send_create(body, err);
	json_decref(body);
	return r;
}

/* ---- ls ---- */

enum {
	LS_ALL,
	LS_JSON,
	LS_LABEL,
};

static const struct option ls_options[] = {
	{"all", 'a', NULL, "accepted, and means nothing: all of them are listed", LS_ALL},
	{"json", 0, NULL, "print JSON: a list of objects", LS_JSON},
	{"label", 0, "NAME=VALUE", "only those that have it", LS_LABEL},
	OPTION_HELP_ROW,
	{0},
};

static int fetch_all(const char *label, json_t **ret, struct atoll_error *err)
{
	json_t *all = json_array(), *page;
	cleanup_free char *after = NULL;
	int r;

	do {
		cleanup_free char *path = remote_path(NULL, "", "limit", "1000", "usage", "true",
						      "label", label, "after", after, NULL);

		r = remote_call(&remote, "GET", path, NULL, REMOTE_AGAIN, &page, err);
		if (r < 0) {
			json_decref(all);
			return r;
		}
		json_array_extend(all, json_object_get(page, "items"));
		free(after);
		after = text_of(page, "next")[0] ? strdup(text_of(page, "next")) : NULL;
		json_decref(page);
	} while (after);
	*ret = all;
	return 0;
}

static void print_labels(const json_t *box)
{
	json_t *labels = json_object_get(box, "labels"), *value;
	const char *name, *joint = "";

	json_object_foreach(labels, name, value)
	{
		fputs(joint, stdout);
		print_escaped(stdout, name);
		fputc('=', stdout);
		print_escaped(stdout, json_string_value(value));
		joint = " ";
	}
}

static void print_table(const json_t *all)
{
	int64_t now_ms = (int64_t)(clock_real_ns() / 1000000), start_ms;
	json_t *box;
	char age[32];
	size_t i;

	if (json_array_size(all) == 0) {
		puts("there is no sandbox");
		return;
	}
	printf("%-21s  %-7s  %8s  %-12s  %s\n", "ID", "STATE", "AGE", "TEMPLATE", "LABELS");
	json_array_foreach(all, i, box)
	{
		start_ms = time_of(box, "startedAt");
		amount_age(now_ms > start_ms ? (uint64_t)(now_ms - start_ms) / 1000 : 0, age,
			   sizeof age);
		printf("%-21s  %-7s  %8s  %-12.12s  ", text_of(box, "id"), text_of(box, "state"),
		       age, text_of(box, "template")[0] ? text_of(box, "template") : "-");
		print_labels(box);
		putchar('\n');
	}
}

static int run_ls(char **args, struct atoll_error *err)
{
	struct command_values line;
	cleanup_free char *text = NULL;
	json_t *all;
	int r = command_read_values(&remote_ls, args, 0, 0, &line, err);

	if (r != 0)
		return r < 0 ? r : 0;
	r = fetch_all(line.values[LS_LABEL], &all, err);
	if (r < 0)
		return r;
	if (line.seen & 1U << LS_JSON) {
		text = json_dumps(all, JSON_COMPACT);
		puts(text ? text : "[]");
	} else {
		print_table(all);
	}
	json_decref(all);
	return command_flush(err);
}

/* ---- rm, pause, resume ---- */

enum {
	RM_FORCE,
	RM_LABEL,
};

static const struct option rm_options[] = {
	{"force", 'f', NULL, "accepted: whatever runs in it is ended in any case", RM_FORCE},
	{"label", 0, "NAME=VALUE[,...]", "all that have these labels, instead of ids", RM_LABEL},
	OPTION_HELP_ROW,
	{0},
};

static int remove_labelled(const char *label, struct atoll_error *err)
{
	cleanup_free char *path = remote_path(NULL, "", "label", label, NULL);
	json_t *answer, *id;
	size_t i;
	int r = remote_call(&remote, "DELETE", path, NULL, REMOTE_AGAIN, &answer, err);

	if (r < 0)
		return r;
	json_array_foreach(json_object_get(answer, "items"), i, id) puts(json_string_value(id));
	json_decref(answer);
	return command_flush(err);
}

static int run_rm(char **args, struct atoll_error *err)
{
	struct command_values line;
	int r = command_read_values(&remote_rm, args, 0, 10000, &line, err), first = 0;

	if (r != 0)
		return r < 0 ? r : 0;
	if (line.values[RM_LABEL] && line.n == 0)
		return remove_labelled(line.values[RM_LABEL], err);
	if (line.n == 0 || line.values[RM_LABEL])
		return error_set(
			err, ATOLL_FAULT_REQUEST, 0,
			"which? usage: atoll --host URL rm ID..., or rm --label NAME=VALUE");
	/* Removes as many as possible, and returns the first failure. */
	for (int i = 0; i < line.n; i++) {
		cleanup_free char *path = remote_path(line.args[i], "", NULL);
		struct atoll_error own = {0};

		r = remote_call(&remote, "DELETE", path, NULL, REMOTE_AGAIN, NULL, &own);
		if (r < 0 && first == 0) {
			first = r;
			*err = own;
		} else if (r < 0) {
			print_problem(own.text);
		}
	}
	return first;
}

enum {
	PAUSE_NO_MEMORY,
};

static const struct option pause_options[] = {
	{"no-memory", 0, NULL, "end its processes; only its files stay", PAUSE_NO_MEMORY},
	OPTION_HELP_ROW,
	{0},
};
static const struct option resume_options[] = {OPTION_HELP_ROW, {0}};

static int change_all(const struct command *command, char **args, const char *suffix,
		      struct atoll_error *err)
{
	struct command_values line;
	int r = command_read_values(command, args, 1, 10000, &line, err);

	if (r != 0)
		return r < 0 ? r : 0;
	for (int i = 0; i < line.n && r == 0; i++) {
		cleanup_free char *path = remote_path(line.args[i], suffix, NULL);
		json_t *body = json_object();

		if (command == &remote_pause)
			json_object_set_new(body, "memory",
					    json_boolean(!(line.seen & 1U << PAUSE_NO_MEMORY)));
		r = remote_call(&remote, "POST", path, body, REMOTE_AGAIN, NULL, err);
	}
	return r;
}

static int run_pause(char **args, struct atoll_error *err)
{
	return change_all(&remote_pause, args, "/pause", err);
}

static int run_resume(char **args, struct atoll_error *err)
{
	return change_all(&remote_resume, args, "/resume", err);
}

const struct command remote_create = {
	.name = "create",
	.usage = "[OPTION]...",
	.summary = "make a sandbox in a daemon",
	.description = (const char *const[]){NULL},
	.options = create_options,
	.run = run_create,
};
const struct command remote_ls = {
	.name = "ls",
	.usage = "[--label NAME=VALUE] [--json]",
	.summary = "list the sandboxes of a daemon",
	.description = (const char *const[]){NULL},
	.options = ls_options,
	.run = run_ls,
};
const struct command remote_rm = {
	.name = "rm",
	.usage = "ID... | --label NAME=VALUE",
	.summary = "remove sandboxes of a daemon",
	.description = (const char *const[]){NULL},
	.options = rm_options,
	.run = run_rm,
};
const struct command remote_pause = {
	.name = "pause",
	.usage = "ID... [--no-memory]",
	.summary = "have a daemon's sandboxes stand still",
	.description = (const char *const[]){NULL},
	.options = pause_options,
	.run = run_pause,
};
const struct command remote_resume = {
	.name = "resume",
	.usage = "ID...",
	.summary = "let them go on",
	.description = (const char *const[]){NULL},
	.options = resume_options,
	.run = run_resume,
};
