/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/test.h"
#include "eventlog/eventlog-hash.h"
#include "eventlog/eventlog-line.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* A store of our own, and a file in it that is older than what is too young to be remembered. */
static int state_fd = -1;

static int make_file(const char *text, struct notice_file *ret)
{
	const struct timespec times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
	struct stat st;
	int fd;

	if (state_fd < 0) {
		state_fd = test_tempdir();
		CHECK(setenv("XDG_STATE_HOME", test_tempdir_path(), 1) == 0);
		CHECK(mkdirat(state_fd, "atoll", 0700) == 0);
		CHECK(mkdirat(state_fd, "atoll/log", 0700) == 0);
	}
	fd = openat(state_fd, "file", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && fd_write_all(fd, text, strlen(text)) == 0);
	CHECK(futimens(fd, times) == 0 && fstat(fd, &st) == 0);
	*ret = (struct notice_file){
		.dev = st.st_dev,
		.ino = st.st_ino,
		.size = (uint64_t)st.st_size,
		.mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
		.ctime_ns = (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec};
	return fd;
}

TEST(a_file_is_read_by_another_process_and_known_afterwards)
{
	struct file_hashes *hashes = file_hashes_new();
	unsigned char have[HASH_SIZE], want[HASH_SIZE];
	struct notice_file file;
	cleanup_fd int fd = make_file("content", &file);

	hash_sha256("content", 7, want);
	CHECK(file_hashes_find(hashes, &file, fd, have) == 0);
	CHECK(file_hashes_fd(hashes) >= 0);
	CHECK(file_hashes_move(hashes, true));
	CHECK(file_hashes_find(hashes, &file, -1, have) == 1);
	CHECK(memcmp(have, want, HASH_SIZE) == 0);
	CHECK(!file_hashes_move(hashes, true));
	file_hashes_free(hashes);
}

TEST(a_file_that_has_become_another_one_has_no_hash)
{
	struct file_hashes *hashes = file_hashes_new();
	unsigned char have[HASH_SIZE];
	struct notice_file file;
	cleanup_fd int fd = make_file("content", &file);

	file.size--;
	CHECK(file_hashes_find(hashes, &file, fd, have) == 0);
	CHECK(file_hashes_move(hashes, true));
	CHECK(file_hashes_find(hashes, &file, -1, have) < 0);
	file_hashes_free(hashes);
}

TEST(a_file_that_nobody_has_opened_is_not_known)
{
	struct file_hashes *hashes = file_hashes_new();
	const struct notice_file file = {.dev = 1, .ino = 2};
	unsigned char have[HASH_SIZE];

	CHECK(file_hashes_find(hashes, &file, -1, have) == -ENODATA);
	CHECK(file_hashes_fd(hashes) == -1 && !file_hashes_move(hashes, true));
	file_hashes_free(hashes);
}

TEST(more_than_fits_into_a_socket_is_read_all_the_same)
{
	struct file_hashes *hashes = file_hashes_new();
	unsigned char have[HASH_SIZE];
	struct notice_file file;
	cleanup_fd int fd = make_file("content", &file);

	for (uint64_t i = 0; i < 1000; i++) {
		file.dev = 1000 + i;
		CHECK(file_hashes_find(hashes, &file, fd, have) >= 0);
	}
	while (file_hashes_move(hashes, true))
		;
	for (uint64_t i = 0; i < 1000; i++) {
		file.dev = 1000 + i;
		CHECK(file_hashes_find(hashes, &file, -1, have) == 1);
	}
	file_hashes_free(hashes);
}

TEST(a_recorder_that_is_not_there_takes_everything)
{
	struct pollfd fds[EVENTLOG_WATCHED];
	const struct eventlog_output_end end = {0};

	eventlog_want(NULL, fds);
	CHECK(fds[0].fd == -1 && fds[EVENTLOG_WATCHED - 1].fd == -1);
	eventlog_move(NULL, fds);
	eventlog_output_end(NULL, 1, &end);
	eventlog_end(NULL, 1, NULL, NULL);
	eventlog_approval(NULL, 1, "apply", "all", "yes", NULL);
	eventlog_outcome(NULL, &(struct eventlog_outcome){.about = "apply", .result = "applied"});
	CHECK(eventlog_deadline_ns(NULL) == INT64_MAX && !eventlog_is_stuck(NULL, NULL));
	CHECK(eventlog_seal(NULL, true, false, NULL) == 0 && eventlog_flush(NULL, NULL) == 0);
	CHECK_STR(eventlog_id(NULL), "");
	eventlog_close(NULL);
}
