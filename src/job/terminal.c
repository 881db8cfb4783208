/* SPDX-License-Identifier: Apache-2.0 */
#include "job/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

void terminal_init(struct terminal *terminal, const int caller[3])
{
	*terminal = (struct terminal){.fd = -1};
	for (int i = 0; terminal->fd < 0 && i < 2; i++)
		terminal->fd = caller[i] >= 0 && isatty(caller[i]) ? caller[i] : -1;
}

bool terminal_is_foreground(int fd)
{
	pid_t group = tcgetpgrp(fd);

	return group < 0 || group == getpgrp();
}

void terminal_enter(struct terminal *terminal)
{
	struct termios raw;

	if (terminal->fd < 0 || terminal->is_raw || !terminal_is_foreground(terminal->fd) ||
	    tcgetattr(terminal->fd, &terminal->before) < 0)
		return;
	raw = terminal->before;
	cfmakeraw(&raw);
	/* TCSANOW: waiting for the output could take for ever if it is stopped (Ctrl-S). */
	terminal->is_raw = tcsetattr(terminal->fd, TCSANOW, &raw) == 0;
}

void terminal_leave(struct terminal *terminal, bool drops_input)
{
	if (!terminal->is_raw)
		return;
	terminal->is_raw = false;
	if (!terminal_is_foreground(terminal->fd))
		return; /* in the background: a change would raise SIGTTOU */
	if (drops_input)
		tcflush(terminal->fd, TCIFLUSH);
	tcsetattr(terminal->fd, TCSANOW, &terminal->before);
}

void terminal_resize(const struct terminal *terminal, int master_fd)
{
	struct winsize size = {.ws_row = 24, .ws_col = 80};

	if (terminal->fd >= 0)
		ioctl(terminal->fd, TIOCGWINSZ, &size);
	ioctl(master_fd, TIOCSWINSZ, &size);
}

void terminal_prepare(const struct terminal *terminal, int master_fd)
{
	struct termios modes;

	terminal_resize(terminal, master_fd);
	/* What the user has set for keys and characters (erase, UTF-8) holds inside as well. In
	 * the background they are those of a shell that edits its line. */
	if (terminal->fd >= 0 && terminal_is_foreground(terminal->fd) &&
	    tcgetattr(terminal->fd, &modes) == 0)
		tcsetattr(master_fd, TCSANOW, &modes);
}
