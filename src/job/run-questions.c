/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/fd.h"
#include "job/run.h"
#include "spec/spec.h"

#include <sys/epoll.h>

static void add(int epoll_fd, int fd, uint32_t events)
{
	struct epoll_event event = {.events = events};

	if (fd >= 0)
		epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

int run_make_stop_fd(const struct run *run)
{
	int fd = epoll_create1(EPOLL_CLOEXEC);

	if (fd < 0)
		return -1;
	add(fd, run->options->signal_fd > 0 ? run->options->signal_fd : -1, EPOLLIN);
	add(fd, run->handle.pid_fd, EPOLLIN);
	add(fd, run->net.channel_fd, EPOLLRDHUP);
	return fd;
}

/* The wall limit goes on while a person decides. */
static int32_t time_left_ms(const struct run *run, const struct netctl_question *question)
{
	int64_t until_ns = question->until_ns, left_ns;

	if (run->deadline_ns < until_ns)
		until_ns = run->deadline_ns;
	if (run->kill_ns < until_ns)
		until_ns = run->kill_ns;
	left_ns = until_ns - clock_monotonic_ns();
	return left_ns > 0 ? (int32_t)(left_ns / 1000000) : 0;
}

void run_ask(struct run *run)
{
	struct netctl_question *question = netctl_next_question(&run->net);
	enum atoll_answer_type answer;
	cleanup_fd int stop_fd = -1;
	uint64_t id;

	if (!question || !run->has_started || run->has_ended)
		return;
	id = question->id;
	question->is_asked = true;
	stop_fd = run_make_stop_fd(run);
	terminal_leave(&run->terminal, relay_reports(run->relay));
	answer = run->options->ask(
		&(struct atoll_question){
			.id = id,
			.name = question->name,
			.program = question->program,
			.file = run->spec->file,
			.pid = question->pid,
			.port = question->port,
			.timeout_ms = time_left_ms(run, question),
			.stop_fd = stop_fd,
		},
		run->options->data);
	run_check_terminal(run);
	netctl_answer(&run->net, id, answer);
}
