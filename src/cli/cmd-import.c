/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cmd-import.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/cli.h"

#include <atoll/layer.h>
#include <errno.h>
#include <inttypes.h>

/* Only this many names are printed. */
#define NAMES_MAX 40

enum {
	OPTION_TO,
	OPTION_DISK,
	OPTION_FILES,
	OPTION_RATIO,
	OPTION_OUTSIDE,
	OPTION_ACCEPT,
	OPTION_QUIET,
};

static const struct option import_options[] = {
	{"to", 0, "DIR",
	 "the directory, new or empty (default: the archive's name without its ending)", OPTION_TO},
	{"disk", 0, "SIZE", "at most this many bytes, holes included: 500M, 20G", OPTION_DISK},
	{"files", 0, "N", "at most this many entries (default: 1000000)", OPTION_FILES},
	{"ratio", 0, "N",
	 "at most this many bytes per byte of the archive, after the first 64 MiB (default: 1000)",
	 OPTION_RATIO},
	{"outside-links", 0, NULL,
	 "accept symbolic links that lead out of the directory; nothing is written through them",
	 OPTION_OUTSIDE},
	{"take", 0, "PATH",
	 "also unpack files at or below this path of the archive that the host would execute or "
	 "trust; may be repeated",
	 OPTION_ACCEPT},
	{"quiet", 'q', NULL, "print only failures and files that are held back", OPTION_QUIET},
	OPTION_HELP_ROW,
	{0},
};

struct import_request {
	const char *file, *dir;
	struct atoll_import_options options;
	char **taken; /* into the arguments; NULL-terminated */
	size_t n_taken;
	bool is_quiet, is_help;
};

/* A number above 0. */
static int read_number(const struct option *option, const char *text, uint64_t *ret,
		       struct atoll_error *err)
{
	const char *at = text;
	uint64_t n = 0;

	for (; *at >= '0' && *at <= '9' && n < UINT64_C(1) << 50; at++)
		n = n * 10 + (uint64_t)(*at - '0');
	if (at == text || *at || n == 0)
		return error_set(
			err, ATOLL_FAULT_REQUEST, 0,
			"option '--%s': '%s' is not a number above 0; for example --%s 1000",
			option->name, text, option->name);
	*ret = n;
	return 0;
}

static int add_option(const struct option *option, const char *value,
		      struct import_request *request, struct atoll_error *err)
{
	switch (option->id) {
	case OPTION_TO:
		request->dir = value;
		return 0;
	case OPTION_DISK:
		return amount_parse_size(value, &request->options.max_bytes, err);
	case OPTION_FILES:
		return read_number(option, value, &request->options.max_entries, err);
	case OPTION_RATIO:
		return read_number(option, value, &request->options.max_ratio, err);
	case OPTION_OUTSIDE:
		request->options.keeps_outside_links = true;
		return 0;
	case OPTION_ACCEPT:
		request->taken[request->n_taken++] = (char *)value;
		return 0;
	case OPTION_QUIET:
		request->is_quiet = true;
		return 0;
	default:
		request->is_help = true;
		return 0;
	}
}

/* Options may stand before and after the file name. */
static int read_request(char **args, struct import_request *request, struct atoll_error *err)
{
	struct options options = {"import", import_options, args};
	const struct option *option;
	const char *value;
	int r;

	for (;;) {
		while ((r = options_next(&options, &option, &value, err)) > 0) {
			r = add_option(option, value, request, err);
			if (r < 0)
				return r;
		}
		if (r < 0 || request->is_help)
			return r;
		if (!*options.next)
			break;
		if (request->file)
			return error_set(err, ATOLL_FAULT_REQUEST, 0,
					 "unexpected argument '%s'; usage: atoll import %s",
					 *options.next, command_import.usage);
		request->file = *options.next++;
	}
	if (!request->file)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "an archive is missing; usage: atoll import %s",
				 command_import.usage);
	return 0;
}

/* "src" for "there/src.tar.gz". */
static int name_directory(const char *file, char *ret, size_t size, struct atoll_error *err)
{
	static const char *const endings[] = {".gz",  ".xz",  ".zst", ".bz2", ".tar",
					      ".tgz", ".txz", ".zip", NULL};
	const char *slash = strrchr(file, '/');
	size_t length;

	snprintf(ret, size, "%s", slash ? slash + 1 : file);
	length = strlen(ret);
	for (const char *const *ending = endings; *ending; ending++)
		if (ends_with(ret, *ending) && strlen(ret) > strlen(*ending))
			ret[strlen(ret) - strlen(*ending)] = '\0';
	if (streq(file, "-") || ret[0] == '\0' || length == strlen(ret))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "name a new or empty directory: --to DIR");
	return 0;
}

void import_print_held(const char *path, const char *mark, void *data)
{
	struct import_printed *told = data;

	if (told->n++ >= NAMES_MAX)
		return;
	fputs("atoll: held back, because the host would execute or trust it: ", stderr);
	print_escaped(stderr, path);
	fprintf(stderr, " (%s); to unpack it, too: atoll import --take ", mark);
	print_word(stderr, path);
	fputc(' ', stderr);
	print_word(stderr, told->file);
	fputc('\n', stderr);
}

int import_archive(const char *file, const char *dir, const struct atoll_import_options *options,
		   char ret_dir[PATH_MAX], struct atoll_archive_report *ret,
		   struct atoll_error *err)
{
	bool is_stdin = streq(file, "-");
	cleanup_fd int fd = is_stdin ? -1 : open(file, O_RDONLY | O_CLOEXEC);
	int r = 0;

	if (!is_stdin && fd < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, errno, "open '%s'", file);
	if (!dir)
		r = name_directory(file, ret_dir, PATH_MAX, err);
	else if (snprintf(ret_dir, PATH_MAX, "%s", dir) >= PATH_MAX)
		r = error_set(err, ATOLL_FAULT_REQUEST, ENAMETOOLONG, "directory '%s'", dir);
	return r < 0 ? r : atoll_import(is_stdin ? 0 : fd, ret_dir, options, ret, err);
}

static int import(const struct import_request *request, struct atoll_error *err)
{
	struct atoll_archive_report report;
	char dir[PATH_MAX];
	int r = import_archive(request->file, request->dir, &request->options, dir, &report, err);

	if (r < 0 || request->is_quiet)
		return r;
	fputs("imported into ", stdout);
	print_escaped(stdout, dir);
	printf(": %" PRIu64 " entries, %" PRIu64 " bytes\n", report.n_entries, report.n_bytes);
	if (report.n_marked > 0)
		printf("held back: %" PRIu64 " that the host would execute or trust\n",
		       report.n_marked);
	if (report.n_dropped > 0)
		printf("left out: %s\n", report.dropped);
	return command_flush(err);
}

static int run_import(char **args, struct atoll_error *err)
{
	struct import_request request = {0};
	cleanup_free char **taken = NULL;
	struct import_printed told = {0};
	size_t n = 0;
	int r;

	while (args[n])
		n++;
	request.taken = taken = calloc(n + 1, sizeof *taken);
	if (!taken)
		return error_oom(err);
	r = read_request(args, &request, err);
	request.options.taken = taken;
	request.options.held = import_print_held;
	told.file = request.file;
	request.options.data = &told;
	if (r < 0)
		return r;
	if (request.is_help) {
		help_command(&command_import, stdout);
		return command_flush(err);
	}
	return import(&request, err);
}

static const struct command_row import_refused[] = {
	{"names", "that are absolute, contain '..', are too long, too deep (256), or occur twice"},
	{"links", "symbolic links that lead out of the directory, entries below a symbolic link, "
		  "and hard links to files that the archive does not contain before"},
	{"kinds", "devices, fifos, sockets; whiteouts of container layers (.wh.NAME), attributes "
		  "of overlayfs; encrypted entries"},
	{"amounts", "more than --disk, --files or --ratio allow, or than the disk has free"},
	{0},
};

static const struct command_row import_examples[] = {
	{"atoll import project.tar.gz", "unpack into ./project"},
	{"curl -s https://example.org/x.tar | atoll import - --to x", "from a pipe"},
	{"atoll import data.zip --to data --disk 100G", "a large archive"},
	{"atoll create --workspace-from project.tar.gz", "unpack it and create a sandbox for it"},
	{0},
};

const struct command command_import = {
	.name = "import",
	.usage = "[OPTION]... FILE",
	.summary = "unpack an untrusted archive into a workspace",
	.description =
		(const char *const[]){
			"Unpacks FILE ('-': standard input) into a directory. FILE is a zip, or a "
			"tar that may be compressed by gzip, bzip2, xz or zstd.",
			"A separate program unpacks the archive. Before it reads the first byte it "
			"gives up all rights except to write that one directory. The directory "
			"appears when it is complete; if one entry is refused, the whole archive "
			"is refused.",
			"All files belong to you. Modes are reduced by the umask. Times, hard "
			"links, holes and empty directories are preserved. Set-id and sticky bits, "
			"access lists and attributes other than user.* are dropped, and atoll "
			"prints that.",
			"Files that the host would execute or trust are held back, as in 'atoll "
			"apply': git hooks, a git config that starts a program, settings of "
			"editors and agents, and the like. To unpack them as well, name them with "
			"--take.",
			NULL},
	.options = import_options,
	.sections =
		(const struct command_section[]){
			{"What is refused", import_refused},
			{"Examples", import_examples},
			{0},
		},
	.run = run_import,
};
