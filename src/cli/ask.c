/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ask.h"

#include "base/clock.h"
#include "base/fd.h"
#include "ui/ui.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <termios.h>

/* After 5 noes within a minute questions are refused without asking, so that a command cannot
 * wear a person down. */
#define NOES_MAX 5
#define NOES_NS	 (60 * INT64_C(1000000000))

void ask_text(const struct atoll_question *question, FILE *out)
{
	fputs("atoll: ", out);
	if (question->why) {
		fputs("the sandbox is paused by ", out);
		print_escaped(out, question->why);
		fputs(".\n", out);
		return;
	}
	print_escaped(out, question->program[0] ? question->program : "the command");
	fputs(" wants to connect to ", out);
	print_escaped(out, question->name);
	fprintf(out, ", port %u, which ", question->port);
	print_escaped(out, question->file ? question->file : "the contract");
	fputs(" does not list.\n", out);
}

enum atoll_answer_type ask_meaning(const char *line)
{
	static const struct {
		const char *word;
		enum atoll_answer_type answer;
	} words[] = {
		{"o", ATOLL_ASK_ONCE},	{"once", ATOLL_ASK_ONCE}, {"r", ATOLL_ASK_RUN},
		{"run", ATOLL_ASK_RUN}, {"a", ATOLL_ASK_ALWAYS},  {"always", ATOLL_ASK_ALWAYS},
	};
	size_t length = strcspn(line, "\r\n");

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strlen(words[i].word) == length &&
		    strncasecmp(words[i].word, line, length) == 0)
			return words[i].answer;
	}
	return ATOLL_ASK_NO;
}

/* The controlling terminal, if this process is in its foreground group; else -1. */
static int open_terminal(void)
{
	cleanup_fd int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);

	if (fd < 0 || tcgetpgrp(fd) != getpgrp())
		return -1;
	return take_fd(&fd);
}

/* Reads one line; false if none came before the timeout. */
static bool read_answer(int fd, const struct atoll_question *question, char *ret, size_t size)
{
	int64_t until_ns = clock_monotonic_ns() + (int64_t)question->timeout_ms * 1000000;

	for (;;) {
		struct pollfd fds[] = {{.fd = fd, .events = POLLIN},
				       {.fd = question->stop_fd, .events = POLLIN}};
		int64_t left_ns = until_ns - clock_monotonic_ns();
		ssize_t got;

		if (left_ns <= 0)
			return false;
		if (poll(fds, ARRAY_SIZE(fds), (int)(left_ns / 1000000) + 1) < 0 && errno != EINTR)
			return false;
		if (fds[1].revents)
			return false;
		if (!fds[0].revents)
			continue;
		got = read(fd, ret, size - 1);
		if (got <= 0)
			return false;
		ret[got] = '\0';
		return true;
	}
}

static enum atoll_answer_type ask_at(int fd, const struct atoll_question *question)
{
	FILE *out = fdopen(fcntl(fd, F_DUPFD_CLOEXEC, 3), "w");
	enum atoll_answer_type answer = ATOLL_ASK_NOBODY;
	char line[64] = "";

	if (!out)
		return ATOLL_ASK_NOBODY;
	/* Discard input that was typed before the question was shown. */
	tcflush(fd, TCIFLUSH);
	fputs("\r\n", out);
	ask_text(question, out);
	if (question->why)
		fprintf(out, "  Continue? [y]es, [N]o: kill it (no in %d s) ",
			question->timeout_ms / 1000);
	else
		fprintf(out, "  [o]nce, this [r]un, [a]lways, [N]o? (no in %d s) ",
			question->timeout_ms / 1000);
	fflush(out);
	if (!read_answer(fd, question, line, sizeof line)) {
		fprintf(out, "\natoll: no answer: %s\n", question->why ? "ended" : "refused");
		/* The person is at the terminal and let the time pass: that is a no. */
		answer = question->why ? ATOLL_ASK_NO : ATOLL_ASK_NOBODY;
	} else if (question->why) {
		answer = line[0] == 'y' || line[0] == 'Y' ? ATOLL_ASK_ONCE : ATOLL_ASK_NO;
		fprintf(out, "atoll: %s\n", answer == ATOLL_ASK_NO ? "ended" : "goes on");
	} else {
		answer = ask_meaning(line);
		fprintf(out, "atoll: %s\n", answer == ATOLL_ASK_NO ? "refused" : "allowed");
	}
	fclose(out);
	return answer;
}

enum atoll_answer_type ask_person(const struct atoll_question *question, void *data)
{
	static int64_t noes[NOES_MAX];
	static size_t next;
	cleanup_fd int fd = open_terminal();
	enum atoll_answer_type answer;
	int64_t now_ns = clock_monotonic_ns();

	(void)data;
	if (question->why)
		return fd < 0 ? ATOLL_ASK_NOBODY : ask_at(fd, question);
	if (fd < 0 || (noes[next] && now_ns - noes[next] < NOES_NS))
		return ATOLL_ASK_NOBODY;
	answer = ask_at(fd, question);
	if (answer == ATOLL_ASK_NO || answer == ATOLL_ASK_NOBODY) {
		noes[next] = clock_monotonic_ns();
		next = (next + 1) % NOES_MAX;
	}
	return answer;
}
