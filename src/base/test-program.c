/* SPDX-License-Identifier: Apache-2.0 */
#include "base/program.h"

#include "base/scope.h"
#include "base/test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(a_program_that_is_not_there_is_told_and_leaves_no_child)
{
	CHECK_INT(program_start("/nowhere/x", "x", 0, PROGRAM_ALONE), -ENOENT);
	CHECK_INT(program_start("/nowhere/x", "x", 0, PROGRAM_ATTACHED), -ENOENT);
	CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}

/* It has nothing to read, and so ends; and with it, all that it was given. */
TEST(a_program_alone_has_the_descriptor_and_no_input)
{
	cleanup_fd int end = -1, given = -1;
	int ends[2], status = -1;
	char byte;
	pid_t pid;

	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	end = ends[0], given = ends[1];
	pid = program_start("/bin/sh", "sh", given, PROGRAM_ALONE);
	CHECK(pid > 0);
	close(take_fd(&given));
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_INT(status, 0);
	CHECK(read(end, &byte, 1) == 0);
}

/* Its commands come from our standard input, and what they say goes where 3 leads. */
TEST(an_attached_program_has_our_streams_and_the_descriptor_as_three)
{
	int in[2], back[2], was = dup(0), status = -1;
	char text[16] = "";
	pid_t pid;

	CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(back, O_CLOEXEC) == 0);
	CHECK(write(in[1], "echo hi >&3\n", 12) == 12);
	close(in[1]);
	CHECK(dup2(in[0], 0) == 0);
	pid = program_start("/bin/sh", "sh", back[1], PROGRAM_ATTACHED);
	CHECK(dup2(was, 0) == 0);
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK_INT(status, 0);
	CHECK(read(back[0], text, sizeof text - 1) == 3);
	CHECK_STR(text, "hi\n");
	close(was), close(in[0]), close(back[0]), close(back[1]);
}

/* ---- memory ---- */

TEST(what_is_dropped_is_whole_pages_and_no_byte_beside_them)
{
	static PROGRAM_PAGES unsigned char memory[5 * PROGRAM_PAGE];

	memset(memory, 'x', sizeof memory);
	program_drop(memory + 100, 3 * PROGRAM_PAGE);
	for (size_t i = 0; i < sizeof memory; i++)
		CHECK_INT(memory[i], i < PROGRAM_PAGE || i >= (size_t)3 * PROGRAM_PAGE ? 'x' : 0);
	/* Less than a page: nothing. */
	program_drop(memory + 100, PROGRAM_PAGE);
	CHECK_INT(memory[100], 'x');
}

#define STACK_SIZE (256 << 10)

static void *trim_there(void *unused)
{
	program_trim();
	program_forget_callers(__builtin_frame_address(0));
	return unused;
}

/* What lies beneath a thread's stack is somebody's. */
TEST(of_a_thread_that_is_not_the_first_nothing_is_trimmed)
{
	const size_t size = (size_t)1 << 20;
	unsigned char *memory =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attributes;
	pthread_t thread;

	CHECK(memory != MAP_FAILED);
	memset(memory, 'x', size);
	CHECK(pthread_attr_init(&attributes) == 0);
	CHECK(pthread_attr_setstack(&attributes, memory + size - STACK_SIZE, STACK_SIZE) == 0);
	CHECK(pthread_create(&thread, &attributes, trim_there, NULL) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	for (size_t i = 0; i < size - STACK_SIZE; i++)
		CHECK_INT(memory[i], 'x');
	pthread_attr_destroy(&attributes);
	munmap(memory, size);
}

static __attribute__((noinline)) uintptr_t use_stack(void)
{
	volatile char used[64 * 1024];

	for (size_t i = 0; i < sizeof used; i += PROGRAM_PAGE)
		used[i] = 'x';
	return (uintptr_t)&used[sizeof used / 2] & ~(uintptr_t)(PROGRAM_PAGE - 1);
}

TEST(the_first_stack_is_given_back_beneath_and_stays_above)
{
	volatile unsigned char kept[3 * PROGRAM_PAGE];
	uintptr_t below = use_stack();
	unsigned char seen;

	for (size_t i = 0; i < sizeof kept; i++)
		kept[i] = 'k';
	CHECK(mincore((void *)below, PROGRAM_PAGE, &seen) == 0 && (seen & 1));
	program_trim_stack();
	CHECK(mincore((void *)below, PROGRAM_PAGE, &seen) == 0 && !(seen & 1));
	for (size_t i = 0; i < sizeof kept; i++)
		CHECK_INT(kept[i], 'k');
}

/* In a fork, which does not come back: its own frame stays, and so do its variables. */
static __attribute__((noinline)) void forget(volatile unsigned char *above)
{
	volatile unsigned char own[2 * PROGRAM_PAGE];

	for (size_t i = 0; i < sizeof own; i++)
		own[i] = 'o';
	program_forget_callers(__builtin_frame_address(0));
	for (size_t i = 0; i < sizeof own; i++) {
		if (own[i] != 'o')
			_exit(1);
	}
	_exit(above[4 * PROGRAM_PAGE] == 0 && getenv("PATH") ? 0 : 2);
}

TEST(callers_that_are_never_returned_to_are_forgotten)
{
	volatile unsigned char above[8 * PROGRAM_PAGE];
	int status = -1;
	pid_t pid;

	above[4 * PROGRAM_PAGE] = 'a';
	CHECK(getenv("PATH") != NULL);
	pid = fork();
	if (pid == 0)
		forget(above);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_INT(status, 0);
	CHECK_INT(above[4 * PROGRAM_PAGE], 'a');
}
