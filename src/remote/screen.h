/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * The whole terminal for a while
 *
 * screen_open() switches to the other screen, hides the cursor and reads keys one by one; whatever
 * way the program ends, the terminal is as it was before. A picture is built line by line and drawn
 * in one piece; lines are cut at the right edge.
 */

enum key {
	KEY_NONE,
	KEY_UP = 256,
	KEY_DOWN,
	KEY_PAGE_UP,
	KEY_PAGE_DOWN,
	KEY_HOME,
	KEY_END,
	KEY_ENTER,
	KEY_ESCAPE,
	KEY_RESIZED,
	KEY_OVER, /* the terminal is gone, or a signal wants the end: screen_signal() */
};

/* 0 or a negative errno. */
int screen_open(void);
void screen_close(void);
/* The signal that wants the end, or 0. */
int screen_signal(void);
int screen_rows(void);
int screen_columns(void);

/* A key, or KEY_NONE when so long nothing came. */
int screen_key(int timeout_ms);

/* Starts a picture; adds a line, with a look ('r' reversed, 'b' bold, 'd' dim, 0); shows it. */
void screen_begin(void);
void screen_line(char look, const char *format, ...) __attribute__((format(printf, 2, 3)));
void screen_end(void);
/* Lines so far. */
int screen_lines(void);
