/* SPDX-License-Identifier: Apache-2.0 */
#include "base/program.h"

#include "base/scope.h"
#include "base/test.h"

#include <errno.h>
#include <fcntl.h>
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
