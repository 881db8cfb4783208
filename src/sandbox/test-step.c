/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/fd.h"
#include "base/test.h"
#include "sandbox/holder-invocation.h"
#include "sandbox/holder-protocol.h"
#include "sandbox/step-client.h"
#include "spec/spec.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

TEST(a_step_s_directory_is_no_longer_than_a_path_can_be)
{
	const struct init_step_head head = {.n_argv = 1};
	static char invocation[sizeof head + PATH_MAX + 16];
	char *end = invocation + sizeof head;
	struct atoll_step_options options = {.argv = (char *[]){(char *)"true", NULL}};
	struct atoll_step *step;
	struct atoll_error err;

	memcpy(invocation, &head, sizeof head);
	memset(end, 'x', PATH_MAX);
	strcpy(end + PATH_MAX - 1, "");
	strcpy(end + PATH_MAX, "true");
	CHECK(invocation_is_valid(invocation, sizeof head + PATH_MAX + 5));
	memset(end, 'x', PATH_MAX);
	strcpy(end + PATH_MAX, "");
	strcpy(end + PATH_MAX + 1, "true");
	CHECK(!invocation_is_valid(invocation, sizeof head + PATH_MAX + 6));
	options.cwd = end;
	CHECK_INT(atoll_step_start("abcdefgh", &options, &step, &err), -ENAMETOOLONG);
	CHECK_INT(err.fault, ATOLL_FAULT_REQUEST);
}

/* Reports of a holder, sent by a socket of our own. */

static struct atoll_step *make_step(int *ret_holder)
{
	struct atoll_step *step = calloc(1, sizeof *step);
	int pair[2];

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	step->fd = pair[0];
	*ret_holder = pair[1];
	step->input_fd = step->streams[0].file = step->streams[1].file = -1;
	return step;
}

static void send_report(int fd, struct step_report report, const char *parts, size_t size,
			int with_fd)
{
	cleanup_buf struct buf text = BUF_INIT(1 << 20);

	report.magic = STEP_REPORT_MAGIC;
	buf_add(&text, &report, sizeof report);
	buf_add(&text, parts, size);
	CHECK(fd_send(fd, text.data, text.used, &with_fd, with_fd >= 0) == 0);
}

TEST(short_output_comes_in_pieces_and_is_read_from_any_offset)
{
	int holder;
	struct atoll_step *step = make_step(&holder);
	struct atoll_error err;
	char data[16] = "";

	send_report(
		holder,
		(struct step_report){.state = ATOLL_STEP_RUNNING, .size = {3}, .data_size = {3}},
		"abc", 3, -1);
	send_report(
		holder,
		(struct step_report){.state = ATOLL_STEP_RUNNING, .size = {5}, .data_size = {2}},
		"de", 2, -1);
	CHECK(atoll_step_move(step, &err) == 0);
	CHECK_INT(atoll_step_read(step, 1, 1, data, sizeof data), 4);
	CHECK_STR(data, "bcde");
	CHECK_INT(atoll_step_read(step, 1, 5, data, sizeof data), 0);
	CHECK_INT(atoll_step_read(step, 2, 0, data, sizeof data), 0);
	close(holder);
	atoll_step_detach(step);
}

TEST(what_is_not_kept_any_more_is_said_to_be_gone)
{
	int holder, file = memfd_create("test", MFD_CLOEXEC);
	struct atoll_step *step = make_step(&holder);
	const uint64_t first = 4096;
	struct atoll_error err;
	char data[8];

	CHECK(pwrite(file, &first, sizeof first, 0) == sizeof first);
	CHECK(pwrite(file, "xyz", 3, STEP_OUTPUT_HEAD + 5000) == 3);
	send_report(holder,
		    (struct step_report){.state = ATOLL_STEP_RUNNING,
					 .size = {5003},
					 .first = {4096},
					 .brings_file = {true}},
		    "", 0, file);
	CHECK(atoll_step_move(step, &err) == 0);
	CHECK_INT(atoll_step_read(step, 1, 5000, data, sizeof data), 3);
	CHECK(memcmp(data, "xyz", 3) == 0);
	CHECK_INT(atoll_step_read(step, 1, 100, data, sizeof data), -ESPIPE);
	close(holder);
	close(file);
	atoll_step_detach(step);
}

TEST(messages_that_do_not_add_up_end_it)
{
	static const struct step_report bad[] = {
		{.state = ATOLL_STEP_RUNNING, .size = {3}, .data_size = {9}},
		{.state = ATOLL_STEP_RUNNING,
		 .size = {3},
		 .data_size = {3},
		 .invocation_size = 1 << 30},
		{.state = ATOLL_STEP_RUNNING, .size = {1}, .data_size = {3}},
		{.state = ATOLL_STEP_RUNNING, .size = {9000}, .data_size = {3}},
		{.state = ATOLL_STEP_ENDED, .end_size = 3},
	};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		int holder;
		struct atoll_step *step = make_step(&holder);
		struct atoll_error err;

		send_report(holder, bad[i], "abc", 3, -1);
		CHECK(atoll_step_move(step, &err) < 0);
		CHECK(atoll_step_info(step)->state == ATOLL_STEP_LOST);
		close(holder);
		atoll_step_detach(step);
	}
}

TEST(a_descriptor_that_there_is_no_room_for_is_missed)
{
	int holder, file = memfd_create("test", MFD_CLOEXEC);
	struct atoll_step *step = make_step(&holder);
	struct rlimit before, few;
	struct atoll_error err;
	char data[8];

	send_report(holder,
		    (struct step_report){
			    .state = ATOLL_STEP_RUNNING, .size = {5003}, .brings_file = {true}},
		    "", 0, file);
	CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
	few = before;
	few.rlim_cur = 0;
	CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
	CHECK_INT(atoll_step_move(step, &err), -EMFILE);
	CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
	CHECK(atoll_step_info(step)->state == ATOLL_STEP_LOST);
	CHECK(fcntl(atoll_step_fd(step), F_GETFD) >= 0);
	step->info.size[0] = 5003; /* the size that a refused report contained */
	CHECK_INT(atoll_step_read(step, 1, 0, data, sizeof data), -EIO);
	close(holder);
	close(file);
	atoll_step_detach(step);
}

TEST(the_last_words_are_heard_although_ours_were_left_unread)
{
	int holder;
	struct atoll_step *step = make_step(&holder);
	struct atoll_error err;

	atoll_step_need(step, 1, 7);
	send_report(
		holder,
		(struct step_report){.state = ATOLL_STEP_RUNNING, .size = {3}, .data_size = {3}},
		"abc", 3, -1);
	close(holder);
	CHECK(atoll_step_move(step, &err) == -EPIPE);
	CHECK_INT(atoll_step_info(step)->size[0], 3);
	CHECK(atoll_step_info(step)->state == ATOLL_STEP_LOST);
	atoll_step_detach(step);
}

TEST(words_are_checked_before_they_are_read)
{
	struct {
		struct init_step_head head;
		char texts[6];
	} invocation = {{.n_argv = 1, .n_env = 1}, {'/', 0, 'a', 0, 'b', 0}};

	CHECK(invocation_is_valid((char *)&invocation, sizeof invocation.head + 6));
	CHECK(!invocation_is_valid((char *)&invocation, sizeof invocation.head + 5));
	invocation.head.n_env = 2;
	CHECK(!invocation_is_valid((char *)&invocation, sizeof invocation.head + 6));
	invocation.head.n_env = UINT32_MAX;
	CHECK(!invocation_is_valid((char *)&invocation, sizeof invocation.head + 6));
	invocation.head.n_env = invocation.head.n_argv = 0;
	CHECK(!invocation_is_valid((char *)&invocation, sizeof invocation.head + 2));
}

TEST(a_network_section_by_itself)
{
	struct atoll_error err = {0};
	struct spec *spec = spec_new("/home/x", "/home/x", &err);
	static const char json[] = " {\"mode\": \"rules\", \"allow\": [\"a.test:443\"]}\n";
	static const char twice[] = "{\"allow\": []}, \"command\": [\"x\"]";
	static const char yaml[] = "allow:\n  - a.test:443\n";
	struct network a, b;

	CHECK(spec_read_network(spec, json, strlen(json), &a, &err) == 0);
	CHECK(spec_read_network(spec, yaml, strlen(yaml), &b, &err) == 0);
	CHECK(a.n_allow == 1 && spec_same_network(&a, &b));
	network_done(&a);
	network_done(&b);
	CHECK(spec_read_network(spec, "allow: 7", 8, &a, &err) < 0);
	CHECK(spec_read_network(spec, "command: [x]", 12, &a, &err) < 0);
	CHECK(spec_read_network(spec, twice, strlen(twice), &a, &err) < 0);
	spec_free(spec);
}
