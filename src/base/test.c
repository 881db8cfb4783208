/* SPDX-License-Identifier: Apache-2.0 */
#include "base/test.h"

#include "base/scope.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>

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

/* Without words every test is wanted. */
static bool is_wanted(const struct test *test, char **words)
{
	if (!words[0])
		return true;
	for (; *words; words++)
		if (strstr(test->name, *words))
			return true;
	return false;
}

/* A misspelt word must not look like a success. */
static bool has_match(const char *word)
{
	for (const struct test *test = first; test; test = test->next)
		if (strstr(test->name, word))
			return true;
	printf("# no test has '%s' in its name\n", word);
	return false;
}

int main(int argc, char **argv)
{
	unsigned count[3] = {0};
	static const char *const words[] = {"ok", "not ok"};

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 1; i < argc; i++)
		if (!has_match(argv[i]))
			return 2;
	for (struct test *test = first; test; test = test->next) {
		int how;

		if (!is_wanted(test, argv + 1))
			continue;
		how = run_one(test);
		count[how]++;
		if (how == TEST_SKIPPED)
			printf("skip %s: %s\n", test->name, what_is_missing);
		else
			printf("%s %s\n", words[how], test->name);
	}
	for (size_t i = 0; i < n_tempdirs; i++)
		nftw(tempdirs[i], remove_one, 16, FTW_DEPTH | FTW_PHYS);
	printf("%u passed, %u failed, %u skipped\n", count[0], count[1], count[2]);
	return count[1] ? 1 : 0;
}
