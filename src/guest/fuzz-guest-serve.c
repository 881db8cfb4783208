/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's side of the wire: questions of any kind, and packets that are none
 *
 * Paths are relative and have no "..", so that everything happens in a directory of the fuzzer's
 * own; CONNECT is left out, because ports here are somebody's. What a question began is left behind
 * when the guest ends, as in the program itself, whose process ends with it.
 */
#include "base/fd.h"
#include "guest/guest-parts.h"

#include <ftw.h>
#include <pthread.h>
#include <sanitizer/lsan_interface.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static char home[] = "/tmp/fuzz-guest-XXXXXX";
static int start_fd; /* the directory that the fuzzer was started in */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *place)
{
	(void)st;
	(void)type;
	(void)place;
	return remove(path);
}

static void remove_home(void)
{
	nftw(home, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	__lsan_disable();
	start_fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (start_fd < 0 || !mkdtemp(home) || setenv("HOME", home, 1) < 0 || atexit(remove_home))
		abort();
	return 0;
}

struct input {
	const uint8_t *at, *end;
};

static uint8_t take(struct input *input)
{
	return input->at < input->end ? *input->at++ : 0;
}

/* Of a few letters, so that names meet. */
static void put_path(struct input *input, struct buf *packet)
{
	static const char letters[] = "abcdef/.";
	char text[64];
	size_t n = take(input) % 24;

	for (size_t i = 0; i < n; i++) {
		text[i] = letters[take(input) % 8];
		if (text[i] == '.' && i > 0 && text[i - 1] == '.')
			text[i] = 'x';
		if (text[i] == '/' && i == 0)
			text[i] = 'y';
	}
	text[n] = '\0';
	guest_put(packet, text);
}

static void put_question(struct input *input, struct buf *packet)
{
	uint8_t how = take(input), n = take(input) % 6;
	struct guest_head head = {.id = take(input),
				  .kind = take(input) % GUEST_QUESTIONS_END,
				  .number = take(input),
				  .flags = take(input),
				  .n = (uint16_t)(2 + n)};

	if (head.kind == GUEST_ASK_CONNECT)
		head.kind = GUEST_ASK_STAT;
	if (how & 1)
		head.n = take(input);
	buf_add(packet, &head, sizeof head);
	guest_put(packet, "");
	guest_put(packet, how & 2 ? "nobody-of-this-name" : "");
	for (size_t i = 0; i < n; i++)
		put_path(input, packet);
	head.size = (uint32_t)packet->used + (how & 4 ? take(input) : 0);
	memcpy(packet->data, &head, sizeof head);
}

/* Bytes of any kind; none that would be a question with a path of its own. */
static void put_noise(struct input *input, struct buf *packet)
{
	struct guest_head head = {.id = 1, .kind = GUEST_QUESTIONS_END, .n = 2};

	buf_add(packet, &head, sizeof head);
	for (size_t n = take(input); n > 0; n--)
		buf_add_char(packet, (char)take(input));
	head.size = (uint32_t)packet->used;
	memcpy(packet->data, &head, sizeof head);
}

/* The daemon, which reads everything. */
static void *drain(void *own)
{
	static char data[GUEST_PACKET_MAX];
	int fds[8];
	size_t n = 8;

	while (fd_receive(*(int *)own, data, sizeof data, 0, fds, &n) > 0) {
		for (size_t i = 0; i < n; i++)
			close(fds[i]);
		n = 8;
	}
	return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct server server;
	struct input input = {data, data + size};
	pthread_t thread;
	int pair[2], spare;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	fcntl(pair[1], F_SETFL, O_NONBLOCK);
	for (int i = 0; i < 12 && input.at < input.end; i++) {
		struct buf packet = BUF_INIT(GUEST_PACKET_MAX);
		int fds[2] = {-1, -1};
		bool has_fd = take(&input) % 4 == 0 && pipe2(fds, O_CLOEXEC) == 0;

		if (take(&input) % 8)
			put_question(&input, &packet);
		else
			put_noise(&input, &packet);
		fd_send(pair[0], packet.data, packet.used, &fds[1], has_fd);
		buf_done(&packet);
		for (int k = 0; k < 2; k++)
			if (fds[k] >= 0)
				close(fds[k]);
	}
	shutdown(pair[0], SHUT_WR);
	if (pthread_create(&thread, NULL, drain, &pair[0]) != 0)
		abort();
	server = (struct server){0};
	if (chdir("/") == 0)
		serve(&server, pair[1]);
	shutdown(pair[1], SHUT_RDWR);
	pthread_join(thread, NULL);
	close(pair[1]);
	/* A walk changes directories, and the fuzzer writes to paths that are relative. */
	if (fchdir(start_fd) < 0)
		abort();
	/* Of work that was not done. */
	spare = pair[0];
	fd_close_range((unsigned)spare, (unsigned)spare + 900, false);
	return 0;
}
