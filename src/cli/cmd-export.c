/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/export-tar.h"

#include <atoll/layer.h>
#include <unistd.h>

enum {
	OPTION_FORMAT,
	OPTION_OUTPUT,
	OPTION_QUIET,
};

static const struct option export_options[] = {
	{"format", 0, "FORMAT",
	 "'patch' for 'git apply' (the default); 'tar' with added and changed files; 'oci', a "
	 "layer of a container image, also with deletions",
	 OPTION_FORMAT},
	{"output", 'o', "FILE", "the file to write ('-', the default: standard output)",
	 OPTION_OUTPUT},
	{"quiet", 'q', NULL, "do not print which files are marked or left out", OPTION_QUIET},
	OPTION_HELP_ROW,
	{0},
};

static const struct command_row export_examples[] = {
	{"atoll export --format patch -o change.patch", "the changes of the latest run, for git"},
	{"atoll export k3vq --format patch | git apply", "apply the changes of a run with git"},
	{"atoll export --format tar -o change.tar", "complete files, for another machine"},
	{0},
};

struct request {
	const char *id; /* NULL: the latest */
	const char *format;
	const char *path; /* NULL: standard output */
	bool is_quiet;
};

struct patch {
	const struct request *request;
	struct atoll_archive_report report;
};

static int fill_patch(int fd, void *data, struct atoll_error *err)
{
	struct patch *patch = data;

	return atoll_export_patch(patch->request->id, NULL, fd, &patch->report, err);
}

static int write_patch(const struct request *request, struct atoll_error *err)
{
	struct patch patch = {.request = request};
	int r;

	if (!request->path && isatty(STDOUT_FILENO))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "not written to a terminal, which would obey what is in it; use "
				 "-o FILE or a pipe ('atoll diff' is for reading)");
	r = request->path ? export_file(request->path, fill_patch, &patch, err)
			  : fill_patch(STDOUT_FILENO, &patch, err);
	if (r == 0 && !request->is_quiet)
		export_print_report(&patch.report);
	return r;
}

static int write_tar(const struct request *request, struct atoll_error *err)
{
	return export_tar(request->id, ATOLL_TAR_PLAIN, request->path, request->is_quiet, err);
}

static int write_oci(const struct request *request, struct atoll_error *err)
{
	return export_tar(request->id, ATOLL_TAR_OCI, request->path, request->is_quiet, err);
}

static const struct format {
	const char *name;
	int (*write)(const struct request *request, struct atoll_error *err);
} formats[] = {
	{"patch", write_patch},
	{"tar", write_tar},
	{"oci", write_oci},
};

static const struct format *find_format(const char *name, struct atoll_error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
		if (streq(formats[i].name, name))
			return &formats[i];
	error_set(err, ATOLL_FAULT_REQUEST, 0, "there is no format '%s', but patch, tar and oci",
		  name);
	return NULL;
}

/* Options may stand before and after the run. Returns 1 after --help. */
static int read_request(char **args, struct request *ret, struct atoll_error *err)
{
	struct options options = {"export", export_options, args};
	const struct option *option;
	const char *value;
	int r;

	*ret = (struct request){.format = "patch"};
	for (;;) {
		while ((r = options_next(&options, &option, &value, err)) > 0) {
			if (option->id == OPTION_HELP) {
				help_command(&command_export, stdout);
				r = command_flush(err);
				return r < 0 ? r : 1;
			}
			if (option->id == OPTION_FORMAT)
				ret->format = value;
			else if (option->id == OPTION_OUTPUT)
				ret->path = streq(value, "-") ? NULL : value;
			else
				ret->is_quiet = true;
		}
		if (r < 0 || !*options.next)
			return r;
		if (ret->id)
			return error_set(err, ATOLL_FAULT_REQUEST, 0,
					 "'%s' is one run too many; usage: atoll export %s",
					 *options.next, command_export.usage);
		ret->id = *options.next++;
	}
}

static int run_export(char **args, struct atoll_error *err)
{
	const struct format *format;
	struct request request;
	int r = read_request(args, &request, err);

	if (r != 0)
		return r < 0 ? r : 0;
	format = find_format(request.format, err);
	return format ? format->write(&request, err) : -EINVAL;
}

const struct command command_export = {
	.name = "export",
	.usage = "[RUN] [--format patch|tar|oci] [-o FILE]",
	.summary = "write the changes of a run as a patch or a tar",
	.description =
		(const char *const[]){
			"Writes the changes of a run or sandbox for other programs. A patch is in "
			"git's format, with binary files, and 'git apply' applies it to the "
			"workspace as it is now. The top of the patch lists changes that git "
			"cannot express (empty directories, attributes, special files) or refuses "
			"(everything in a git directory), and files that the host would execute or "
			"trust.",
			"A tar contains the complete added and changed files, with modes, times, "
			"user.* attributes, hard links and holes; the owner is that of the "
			"workspace. Deleted files are missing in a tar, and atoll prints how many. "
			"In a layer of a container image (oci) they are empty files '.wh.NAME'; a "
			"file of the run with such a name is refused, because it would delete "
			"NAME. Files that the host would execute or trust are included, and atoll "
			"prints how many.",
			NULL},
	.options = export_options,
	.sections = (const struct command_section[]){{"Examples", export_examples}, {0}},
	.run = run_export,
};
