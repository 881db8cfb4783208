/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/archive.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"

#include <archive.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * The program; see call.c for who starts it
 *
 *   atoll-archive import BYTES ENTRIES RATIO LINKS   from descriptor 0 into descriptor 3
 *   atoll-archive export FORM BYTES [ID]             to descriptor 1; 0 bytes: any number
 */

#define BLOCK (64 * 1024)

static int begin(struct atoll_error *err)
{
	int r;

	/* A size limit that is met shall be an error with a name. */
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	r = fd_close_range(ARC_ANSWER_FD + 1, ~0u, false);
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "close descriptors") : 0;
}

/* What it is, is seen by its content: a tar, or else a zip. */
static int open_reader(locale_t utf8, struct archive **ret, struct atoll_error *err)
{
	struct archive *archive;
	int r;

	for (int is_zip = 0; is_zip < 2; is_zip++) {
		archive = arc_reader_new(is_zip);
		if (!archive)
			return error_oom(err);
		if (archive_read_open_fd(archive, 0, BLOCK) == ARCHIVE_OK) {
			*ret = archive;
			return 0;
		}
		r = error_set(err, ATOLL_FAULT_REQUEST, 0, "the archive cannot be read: %s%s",
			      archive_error_string(archive),
			      is_zip ? "" : " (and a zip has to be a file)");
		archive_read_free(archive);
		if (lseek(0, 0, SEEK_SET) < 0)
			return r;
		uselocale(utf8);
	}
	return r;
}

static int run_import(char **args, struct atoll_archive_report *ret, struct atoll_error *err)
{
	struct atoll_import_options options = {
		.max_bytes = strtoull(args[0], NULL, 10),
		.max_entries = strtoull(args[1], NULL, 10),
		.max_ratio = strtoull(args[2], NULL, 10),
		.keeps_outside_links = streq(args[3], "1"),
	};
	locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	struct archive *archive = NULL;
	int r;

	if (!utf8)
		return error_set(err, ATOLL_FAULT_HOST, errno, "find the locale C.UTF-8");
	r = arc_lock_in(ARC_DIR_FD, NULL, 0, options.max_bytes, err);
	if (r == 0)
		r = open_reader(utf8, &archive, err);
	if (r == 0)
		r = arc_import(archive, ARC_DIR_FD, &options, ret, err);
	if (archive)
		archive_read_free(archive);
	return r;
}

static int run(int argc, char **argv, struct atoll_archive_report *ret, struct atoll_error *err)
{
	int r = begin(err);

	if (r < 0)
		return r;
	if (argc == 6 && streq(argv[1], "import"))
		return run_import(argv + 2, ret, err);
	if ((argc == 4 || argc == 5) && streq(argv[1], "export"))
		return arc_export(argv[4], streq(argv[2], "oci") ? ATOLL_TAR_OCI : ATOLL_TAR_PLAIN,
				  strtoull(argv[3], NULL, 10), ret, err);
	return error_set(err, ATOLL_FAULT_BUG, 0, "atoll-archive does not know what to do");
}

int main(int argc, char **argv)
{
	struct arc_answer answer = {0};

	if (fcntl(ARC_ANSWER_FD, F_SETFD, FD_CLOEXEC) < 0) {
		fputs("atoll-archive is started by atoll, not by hand\n", stderr);
		return 240;
	}
	answer.code = run(argc, argv, &answer.report, &answer.err);
	fd_write_all(ARC_ANSWER_FD, &answer, sizeof answer);
	return answer.code < 0;
}
