/* SPDX-License-Identifier: Apache-2.0 */
#include "base/test.h"

#include "base/scope.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEMPDIRS_MAX 256

static struct test *first, **last = &first;
static jmp_buf end_of_test;
static const char *what_is_missing;
static char tempdirs[TEMPDIRS_MAX][128];
static size_t n_tempdirs;

enum {
	TEST_FAILED = 1,
	TEST_SKIPPED,
};

struct counts {
	unsigned of[3]; /* passed, TEST_FAILED, TEST_SKIPPED */
};

void test_register(struct test *test)
{
	*last = test;
	last = &test->next;
}

void test_fail(const char *file, int line, const char *format, ...)
{
	va_list args;

	printf("# %s:%d: ", file, line);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	longjmp(end_of_test, TEST_FAILED);
}

void test_skip(const char *missing)
{
	what_is_missing = missing;
	longjmp(end_of_test, TEST_SKIPPED);
}

int test_tempdir(void)
{
	const char *where = getenv("TMPDIR");
	char *path;
	int fd;

	if (n_tempdirs == TEMPDIRS_MAX)
		test_fail(__FILE__, __LINE__, "too many temporary directories");
	path = tempdirs[n_tempdirs];
	snprintf(path, sizeof(tempdirs[0]), "%s/atoll-test-XXXXXX", where ? where : "/tmp");
	if (!mkdtemp(path))
		test_fail(__FILE__, __LINE__, "mkdtemp: %m");
	n_tempdirs++;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		test_fail(__FILE__, __LINE__, "open %s: %m", path);
	return fd;
}

const char *test_tempdir_path(void)
{
	return tempdirs[n_tempdirs - 1];
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

/* Apart from the loop, because variables of a function that calls setjmp() may be lost. */
static int run_one(const struct test *test)
{
	int how = setjmp(end_of_test);

	if (how == 0)
		test->run();
	return how;
}

static const char *file_name(const struct test *test)
{
	const char *slash = strrchr(test->file, '/');

	return slash ? slash + 1 : test->file;
}

static bool matches(const struct test *test, const char *word)
{
	char whole[512];

	snprintf(whole, sizeof whole, "%s %s", file_name(test), test->name);
	return strstr(whole, word) != NULL;
}

/* Without words every test is wanted. */
static bool is_wanted(const struct test *test, char **words)
{
	if (!words[0])
		return true;
	for (; *words; words++)
		if (matches(test, *words))
			return true;
	return false;
}

/* A misspelt word must not look like a success. */
static bool has_match(const char *word)
{
	for (const struct test *test = first; test; test = test->next)
		if (matches(test, word))
			return true;
	printf("# no test has '%s' in its name\n", word);
	return false;
}

/* Run the wanted tests of one file, from `test` on: a file's tests are registered one after the
 * other. */
static void run_file(const struct test *test, char **words, struct counts *ret)
{
	static const char *const results[] = {"ok", "not ok"};
	const char *file = test->file;

	for (; test && streq(test->file, file); test = test->next) {
		int how;

		if (!is_wanted(test, words))
			continue;
		how = run_one(test);
		ret->of[how]++;
		if (how == TEST_SKIPPED)
			printf("skip %s: %s\n", test->name, what_is_missing);
		else
			printf("%s %s\n", results[how], test->name);
	}
	for (size_t i = 0; i < n_tempdirs; i++)
		nftw(tempdirs[i], remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Run a file in a child: tests change limits, directories, signals and descriptors, and a crash
 * must not end the other files. The child sends its counts through a pipe. */
static void run_file_in_child(const struct test *test, char **words, struct counts *sum)
{
	struct counts counts = {0};
	int pipe_fds[2], status = 0;
	pid_t pid;

	printf("# %s\n", file_name(test));
	if (pipe2(pipe_fds, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		printf("not ok %s: fork: %m\n", file_name(test));
		sum->of[TEST_FAILED]++;
		return;
	}
	if (pid == 0) {
		close(pipe_fds[0]);
		run_file(test, words, &counts);
		fflush(stdout);
		/* exit(), not _exit(): the sanitizers report leaks at the end of the process. */
		exit(write(pipe_fds[1], &counts, sizeof counts) == sizeof counts ? 0 : 1);
	}
	close(pipe_fds[1]);
	if (read(pipe_fds[0], &counts, sizeof counts) != sizeof counts)
		counts = (struct counts){0};
	close(pipe_fds[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status != 0) {
		printf("not ok %s: the process ended with status 0x%x\n", file_name(test), status);
		counts.of[TEST_FAILED]++;
	}
	for (size_t i = 0; i < ARRAY_SIZE(counts.of); i++)
		sum->of[i] += counts.of[i];
}

static bool is_file_wanted(const struct test *test, char **words)
{
	const char *file = test->file;

	for (; test && streq(test->file, file); test = test->next)
		if (is_wanted(test, words))
			return true;
	return false;
}

int main(int argc, char **argv)
{
	struct counts sum = {0};
	const char *file = "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 1; i < argc; i++)
		if (!has_match(argv[i]))
			return 2;
	for (const struct test *test = first; test; test = test->next) {
		if (streq(test->file, file))
			continue;
		file = test->file;
		if (is_file_wanted(test, argv + 1))
			run_file_in_child(test, argv + 1, &sum);
	}
	printf("%u passed, %u failed, %u skipped\n", sum.of[0], sum.of[TEST_FAILED],
	       sum.of[TEST_SKIPPED]);
	return sum.of[TEST_FAILED] ? 1 : 0;
}
