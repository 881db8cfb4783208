/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <termios.h>

/*
 * The caller's terminal, while the command has one of its own
 *
 * Keys go to the command's terminal as they come, and its line discipline does the echo and makes
 * the signals; so the caller's is in raw mode meanwhile, and only while we are in its foreground:
 * in the background it belongs to somebody else.
 */
struct terminal {
	int fd; /* the caller's; -1 if there is none */
	bool is_raw;
	struct termios before; /* what it was, while it is raw */
};

/* The first of 0 and 1 that is a terminal. */
void terminal_init(struct terminal *terminal, const int caller[3]);

/* Raw mode, if we are in the foreground. May be repeated. */
void terminal_enter(struct terminal *terminal);
/* Everything as before. `drops_input`: what was typed and not read is not meant for others. */
void terminal_leave(struct terminal *terminal, bool drops_input);

/* May we read it without being stopped? True for what is no terminal of ours. */
bool terminal_is_foreground(int fd);

/* Size and modes for the command's terminal; or the size alone, when it has changed. */
void terminal_prepare(const struct terminal *terminal, int master_fd);
void terminal_resize(const struct terminal *terminal, int master_fd);
