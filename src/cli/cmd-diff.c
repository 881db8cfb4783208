/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/path.h"
#include "base/scope.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/diff-json.h"
#include "cli/diff-print.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

enum {
	OPTION_STAT,
	OPTION_NAME_ONLY,
	OPTION_JSON,
};

static const struct option diff_options[] = {
	{"stat", 0, NULL, "only the number of changed lines per file", OPTION_STAT},
	{"name-only", 0, NULL, "only the names", OPTION_NAME_ONLY},
	{"json", 0, NULL, "print JSON: one object with all details", OPTION_JSON},
	OPTION_HELP_ROW,
	{0},
};

static const struct command_row diff_examples[] = {
	{"atoll diff", "the changes of the latest run in this directory"},
	{"atoll diff --stat -- src", "how much has changed below src"},
	{"atoll diff k3vq", "the run whose id begins with k3vq"},
	{0},
};

struct request {
	unsigned seen;
	const char *id; /* NULL: the latest */
	char **paths;	/* NULL-terminated */
};

/* Options may stand before and after the run; arguments after "--" are paths. Returns 1 after
 * --help. */
static int read_request(char **args, struct request *ret, struct atoll_error *err)
{
	struct options options = {"diff", diff_options, args};
	const struct option *option;
	const char *value;
	int r;

	for (;;) {
		while ((r = options_next(&options, &option, &value, err)) > 0) {
			if (option->id == OPTION_HELP) {
				help_command(&command_diff, stdout);
				r = command_flush(err);
				return r < 0 ? r : 1;
			}
			ret->seen |= 1U << option->id;
		}
		if (r < 0)
			return r;
		ret->paths = options.next;
		if (!*options.next || (options.next > args && streq(options.next[-1], "--")))
			break;
		if (ret->id)
			return error_set(err, ATOLL_FAULT_REQUEST, 0,
					 "'%s' is one run too many; paths stand behind '--'",
					 *options.next);
		ret->id = *options.next++;
	}
	if (ret->seen & (ret->seen - 1))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "--stat, --name-only and --json exclude each other");
	return 0;
}

/* Makes a path of the command line absolute and plain. */
static int make_plain(const char *typed, char ret[2 * PATH_MAX], struct atoll_error *err)
{
	char here[PATH_MAX];

	if (!typed[0])
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "a path is empty; '.' is this directory");
	if (strlen(typed) >= PATH_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, ENAMETOOLONG, "path '%.40s...'", typed);
	if (!getcwd(here, sizeof here))
		return error_set(err, ATOLL_FAULT_HOST, errno, "find the current directory");
	snprintf(ret, 2 * PATH_MAX, "%s/%s", typed[0] == '/' ? "" : here, typed);
	path_normalize(ret);
	return 0;
}

static bool is_at(const char *path, const char *above)
{
	size_t length = strlen(above);

	return length == 0 || (path && strncmp(path, above, length) == 0 &&
			       (path[length] == '/' || path[length] == '\0'));
}

static int choose_path(const struct atoll_changes *changes, const char *typed, bool *wanted,
		       struct atoll_error *err)
{
	const char *workspace = changes->record->workspace, *path;
	char whole[2 * PATH_MAX];
	int r = make_plain(typed, whole, err);

	if (r < 0)
		return r;
	if (!path_is_within(whole, workspace))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "'%s' is not in the workspace '%s' of run %s", typed, workspace,
				 changes->record->id);
	path = whole + strlen(workspace);
	path += strspn(path, "/");
	for (size_t i = 0; i < changes->n; i++)
		wanted[i] = wanted[i] || is_at(changes->items[i].path, path) ||
			    is_at(changes->items[i].from, path);
	return 0;
}

static int choose(const struct atoll_changes *changes, char **paths, bool **ret,
		  struct atoll_error *err)
{
	int r = 0;

	if (!*paths)
		return 0;
	*ret = calloc(changes->n + 1, sizeof **ret);
	if (!*ret)
		return error_oom(err);
	for (; *paths && r == 0; paths++)
		r = choose_path(changes, *paths, *ret, err);
	return r;
}

/* Lists for programs never go through the pager. */
static int print_list(const struct request *request, const struct diff_view *view,
		      struct atoll_error *err)
{
	int r = 0;

	if (request->seen & 1U << OPTION_JSON)
		r = diff_print_json(view, stdout, err);
	else
		diff_print_names(view, stdout);
	return r < 0 ? r : command_flush(err);
}

static int print(const struct request *request, const struct diff_view *view,
		 struct atoll_error *err)
{
	struct pager pager;
	int r, closed;

	if (request->seen & (1U << OPTION_JSON | 1U << OPTION_NAME_ONLY))
		return print_list(request, view, err);
	pager_open(&pager);
	r = request->seen & 1U << OPTION_STAT ? diff_print_stat(view, &pager, err)
					      : diff_print_text(view, &pager, err);
	closed = pager_close(&pager);
	if (r == 0 && closed < 0)
		return error_set(err, ATOLL_FAULT_HOST, -closed, "write to standard output");
	return r;
}

static int run_diff(char **args, struct atoll_error *err)
{
	struct request request = {0};
	struct diff_view view = {0};
	cleanup_free bool *wanted = NULL;
	int r = read_request(args, &request, err);

	if (r != 0)
		return r < 0 ? r : 0;
	r = atoll_changes_open(request.id, &view.changes, err);
	if (r < 0)
		return r;
	r = choose(view.changes, request.paths, &wanted, err);
	view.wanted = wanted;
	if (r == 0)
		r = print(&request, &view, err);
	atoll_changes_close(view.changes);
	return r;
}

const struct command command_diff = {
	.name = "diff",
	.usage = "[RUN] [--stat|--name-only|--json] [-- PATH...]",
	.summary = "show what a run has changed",
	.description =
		(const char *const[]){
			"Shows the changes of a run or sandbox to its workspace: added, changed, "
			"deleted and renamed files, with their texts. They are not on the host "
			"until 'atoll apply'.",
			"Files that the host would execute or trust come first and are marked with "
			"'!': git hooks and configuration, settings of editors and agents, "
			"start-up files, links that lead out of the workspace, set-id and special "
			"files. 'atoll apply' applies them only if you name them.",
			"RUN is an id, an unambiguous beginning of an id, or the name of a "
			"sandbox; the default is the latest run in this directory. On a terminal "
			"the output is coloured and goes through $PAGER or less; control "
			"characters are escaped.",
			NULL},
	.options = diff_options,
	.sections = (const struct command_section[]){{"Examples", diff_examples}, {0}},
	.run = run_diff,
};
