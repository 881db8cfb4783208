/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * What a stranger's output may do to a person's terminal
 *
 * A terminal obeys what is printed on it: it answers queries by typing into the shell, sets the
 * clipboard and the title, prints, resizes. This is a filter with an allow-list between a command
 * and a terminal; what is on no list is left out. It works on pieces cut anywhere, and lets only
 * whole sequences out, so the terminal is never in the middle of one when a piece ends.
 *
 *   passed    text that is valid UTF-8; CR LF TAB BS BEL VT FF; colours (SGR); moving, erasing,
 *             scrolling, inserting, deleting; saving and restoring the cursor; tab stops; line
 *             drawing; wrapping, insert mode, the cursor's visibility and shape
 *   passed if the input is the command's own (`is_interactive`): alternate screen, keypad and
 *             cursor key modes, bracketed paste, mouse and focus reports. They change what the
 *             terminal types; while a shell reads what it types they are left out
 *   left out  every string (OSC: title, clipboard, links, colours, notifications; DCS, APC, PM,
 *             SOS, screen's title), every query, window operations, printing, ENQ, 8-bit controls
 *             also when written as UTF-8, changes of the character encoding, keyboard locks, full
 *             reset and erasing what has scrolled away (both take a person's history), and the
 *             unknown
 *
 * What stays switched on is undone by vt_reset() at the end.
 */

#define VT_HELD_MAX  96 /* the longest sequence that is passed */
#define VT_RESET_MAX 160

enum vt_state {
	VT_TEXT,
	VT_CHARACTER, /* in the middle of one */
	VT_ESCAPE,
	VT_SEQUENCE,  /* behind CSI */
	VT_SKIP,      /* a sequence that is left out, to its end */
	VT_STRING,    /* until its terminator, all left out */
	VT_STRING_END /* ESC in a string */
};

struct vt {
	bool is_interactive;
	bool is_mid_line; /* the cursor is not known to be on a fresh line */
	enum vt_state state;
	unsigned on; /* what is switched on, see vt.c */
	size_t n_held;
	char held[VT_HELD_MAX];
};

void vt_init(struct vt *vt, bool is_interactive);

/* Returns how many bytes are in `out`, which has room for `size` + VT_HELD_MAX; it may be
 * `in` - VT_HELD_MAX. */
size_t vt_filter(struct vt *vt, const char *in, size_t size, char *out);

/* The sequences that undo what is switched on; returns their length. Begins afresh: a sequence that
 * was begun is forgotten. */
size_t vt_reset(struct vt *vt, char out[VT_RESET_MAX]);

/* Does the terminal report by itself (mouse, focus)? Then what has been typed is not all typed. */
bool vt_reports(const struct vt *vt);
