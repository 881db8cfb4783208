/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/screen.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/scope.h"
#include "base/str.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048

static struct {
	struct termios saved;
	volatile sig_atomic_t is_open;
	int signal_fd, ended_by;
	int rows, columns, lines;
	struct buf picture;
} screen = {.signal_fd = -1};

static const char enter[] = "\033[?1049h\033[?25l\033[?7l";
static const char leave[] = "\033[?7h\033[?25h\033[?1049l\033[m";

static void look_at_size(void)
{
	struct winsize size = {0};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || !size.ws_col || !size.ws_row)
		size = (struct winsize){.ws_col = 80, .ws_row = 24};
	screen.columns = size.ws_col;
	screen.rows = size.ws_row;
}

static int make_raw(void)
{
	struct termios raw = screen.saved;

	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_iflag &= ~(tcflag_t)(ICRNL | IXON);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	return tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) < 0 ? -errno : 0;
}

/* Called by signal handlers, too: async-signal-safe functions only. */
static void restore(void)
{
	if (!screen.is_open)
		return;
	screen.is_open = 0;
	if (write(STDOUT_FILENO, leave, sizeof leave - 1) < 0)
		return;
	tcsetattr(STDIN_FILENO, TCSANOW, &screen.saved);
}

/* Restores the terminal after a crash. */
static void on_crash(int number)
{
	restore();
	signal(number, SIG_DFL);
	raise(number);
}

static void on_signals(void)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP, SIGCONT};
	static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		sigaddset(&set, ends[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	screen.signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	for (size_t i = 0; i < ARRAY_SIZE(crashes); i++)
		signal(crashes[i], on_crash);
	signal(SIGPIPE, SIG_IGN);
}

int screen_open(void)
{
	int r;

	if (tcgetattr(STDIN_FILENO, &screen.saved) < 0)
		return -errno;
	screen.picture = (struct buf)BUF_INIT(4 << 20);
	on_signals();
	atexit(restore);
	look_at_size();
	screen.is_open = 1;
	r = make_raw();
	if (r == 0)
		r = fd_write_all(STDOUT_FILENO, enter, sizeof enter - 1);
	if (r < 0)
		restore();
	return r;
}

void screen_close(void)
{
	restore();
	buf_done(&screen.picture);
	if (screen.signal_fd >= 0)
		close(screen.signal_fd);
	screen.signal_fd = -1;
}

int screen_signal(void)
{
	return screen.ended_by;
}

int screen_rows(void)
{
	return screen.rows;
}

int screen_columns(void)
{
	return screen.columns;
}

int screen_lines(void)
{
	return screen.lines;
}

/* ---- keys ---- */

/* SIGTSTP: restore the terminal for the shell, stop, and open the screen again afterwards. */
static void suspend(void)
{
	sigset_t set;

	restore();
	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	signal(SIGTSTP, SIG_DFL);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(SIGTSTP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	screen.is_open = 1;
	make_raw();
	fd_write_all(STDOUT_FILENO, enter, sizeof enter - 1);
	look_at_size();
}

static int read_signal(void)
{
	struct signalfd_siginfo info;

	if (read(screen.signal_fd, &info, sizeof info) != sizeof info)
		return KEY_NONE;
	switch (info.ssi_signo) {
	case SIGWINCH:
	case SIGCONT:
		look_at_size();
		return KEY_RESIZED;
	case SIGTSTP:
		suspend();
		return KEY_RESIZED;
	default:
		screen.ended_by = (int)info.ssi_signo;
		return KEY_OVER;
	}
}

/* Bytes that were read but not returned as keys: one read may contain several keys. */
static char typed[64];
static size_t n_typed;

static int drop_typed(size_t n, int key)
{
	n_typed -= n;
	memmove(typed, typed + n, n_typed);
	return key;
}

static int parse_sequence(void)
{
	static const struct {
		const char *text;
		int key;
	} keys[] = {
		{"[A", KEY_UP},	  {"OA", KEY_UP},    {"[B", KEY_DOWN},	   {"OB", KEY_DOWN},
		{"[H", KEY_HOME}, {"[1~", KEY_HOME}, {"OH", KEY_HOME},	   {"[F", KEY_END},
		{"[4~", KEY_END}, {"OF", KEY_END},   {"[5~", KEY_PAGE_UP}, {"[6~", KEY_PAGE_DOWN},
	};
	size_t n = 2;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		size_t length = strlen(keys[i].text);

		if (n_typed > length && memcmp(typed + 1, keys[i].text, length) == 0)
			return drop_typed(length + 1, keys[i].key);
	}
	if (n_typed == 1 || (typed[1] != '[' && typed[1] != 'O'))
		return drop_typed(1, KEY_ESCAPE);
	/* Skips an unknown escape sequence. */
	while (n < n_typed && (typed[n] < '@' || typed[n] > '~'))
		n++;
	return drop_typed(n < n_typed ? n + 1 : n_typed, KEY_NONE);
}

static int read_typed(void)
{
	char c = typed[0];

	if (c == '\033')
		return parse_sequence();
	return drop_typed(1, c == '\r' || c == '\n' ? KEY_ENTER : (unsigned char)c);
}

static int read_key(void)
{
	ssize_t n = read(STDIN_FILENO, typed, sizeof typed);

	if (n <= 0)
		return n < 0 && (errno == EINTR || errno == EAGAIN) ? KEY_NONE : KEY_OVER;
	n_typed = (size_t)n;
	return read_typed();
}

int screen_key(int timeout_ms)
{
	struct pollfd fds[] = {{.fd = screen.signal_fd, .events = POLLIN},
			       {.fd = STDIN_FILENO, .events = POLLIN}};

	if (poll(fds, 2, n_typed > 0 ? 0 : timeout_ms) > 0 && fds[0].revents)
		return read_signal();
	if (n_typed > 0)
		return read_typed();
	return fds[1].revents ? read_key() : KEY_NONE;
}

/* ---- pictures ---- */

void screen_begin(void)
{
	screen.picture.used = 0;
	screen.lines = 0;
	buf_add_str(&screen.picture, "\033[H");
}

/* The bytes that fit into a line; a UTF-8 character counts as one column. */
static size_t cut(const char *text, int columns)
{
	size_t at = 0, size = strlen(text), length;

	for (int column = 0; at < size && column < columns; column++) {
		length = utf8_length(text + at, size - at);
		at += length ? length : 1;
	}
	return at;
}

void screen_line(char look, const char *format, ...)
{
	char text[LINE_MAX_BYTES];
	size_t size;
	va_list args;

	if (screen.lines >= screen.rows)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	size = cut(text, screen.columns);
	if (screen.lines++ > 0)
		buf_add_str(&screen.picture, "\r\n");
	if (look)
		buf_add_str(&screen.picture, look == 'r'   ? "\033[7m"
					     : look == 'b' ? "\033[1m"
							   : "\033[2m");
	buf_add(&screen.picture, text, size);
	/* A reversed line is filled up to the right edge. */
	for (size_t i = size; look == 'r' && i < (size_t)screen.columns; i++)
		buf_add_char(&screen.picture, ' ');
	buf_add_str(&screen.picture, "\033[m\033[K");
}

void screen_end(void)
{
	buf_add_str(&screen.picture, "\033[J");
	if (buf_error(&screen.picture) == 0)
		fd_write_all(STDOUT_FILENO, screen.picture.data, screen.picture.used);
}
