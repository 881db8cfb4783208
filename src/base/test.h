/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Unit tests
 *
 * TEST(a_sentence_about_what_holds) { ... CHECK(...); } anywhere in a test-*.c. All test files of a
 * component are one program, unit-COMPONENT. It runs each file in a process of its own, prints one
 * line per test ("ok NAME", "not ok NAME", "skip NAME: what is missing") and "N passed, N failed, N
 * skipped" at the end. A failed CHECK prints its place and ends its test. Arguments select tests: a
 * test runs if one of them is a part of "FILE NAME", such as "test-str" or "numbers". An argument
 * that selects no test is an error (status 2).
 */

#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct test {
	const char *file; /* as the compiler names it */
	const char *name;
	void (*run)(void);
	struct test *next;
};

void test_register(struct test *test);
_Noreturn void test_fail(const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
_Noreturn void test_skip(const char *missing);

/* A fresh private directory as a descriptor, removed with its content when the program ends. */
int test_tempdir(void);
const char *test_tempdir_path(void); /* of the last one made */

#define TEST(name_)                                                                                \
	static void test_##name_(void);                                                            \
	__attribute__((constructor)) static void register_##name_(void)                            \
	{                                                                                          \
		static struct test test_ = {                                                       \
			.file = __FILE__, .name = #name_, .run = test_##name_};                    \
		test_register(&test_);                                                             \
	}                                                                                          \
	static void test_##name_(void)

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			test_fail(__FILE__, __LINE__, "%s", #condition);                           \
	} while (0)

#define CHECK_INT(have, want)                                                                      \
	do {                                                                                       \
		long long have_ = (have), want_ = (want);                                          \
		if (have_ != want_)                                                                \
			test_fail(__FILE__, __LINE__, "%s is %lld, not %lld", #have, have_,        \
				  want_);                                                          \
	} while (0)

#define CHECK_STR(have, want)                                                                      \
	do {                                                                                       \
		const char *have_ = (have), *want_ = (want);                                       \
		if (!have_ || strcmp(have_, want_) != 0)                                           \
			test_fail(__FILE__, __LINE__, "%s is '%s', not '%s'", #have,               \
				  have_ ? have_ : "(null)", want_);                                \
	} while (0)
