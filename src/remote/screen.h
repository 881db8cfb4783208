/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * A full-screen display
 *
 * screen_open() switches to the alternate screen, hides the cursor and reads single keys. The
 * terminal is restored however the program ends. A frame is built line by line and written at once;
 * lines are cut at the right edge.
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
	KEY_OVER, /* the terminal is gone, or a signal ends the program: screen_signal() */
};

/* 0 or a negative errno. */
int screen_open(void);
void screen_close(void);
/* The signal that ends the program, or 0. */
int screen_signal(void);
int screen_rows(void);
int screen_columns(void);

/* A key, or KEY_NONE after the timeout. */
int screen_key(int timeout_ms);

/* Begin a frame; add a line with an attribute ('r' reversed, 'b' bold, 'd' dim, 0); show the frame.
 */
void screen_begin(void);
void screen_line(char look, const char *format, ...) __attribute__((format(printf, 2, 3)));
void screen_end(void);
/* The number of lines in the frame so far. */
int screen_lines(void);
