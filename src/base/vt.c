/* SPDX-License-Identifier: Apache-2.0 */
#include "base/vt.h"

#include "base/scope.h"
#include "base/str.h"

#define ESC	  '\033'
#define NO_NUMBER 0xffffffffU /* left out: the default */
#define NO_MORE	  0xfffffffeU /* something else than a number */

/* What can stay switched on, and how it is switched off again. The order is that of vt_reset(). */
enum {
	ON_CHARSET = 1 << 0,
	ON_STYLE = 1 << 1,
	ON_INSERT = 1 << 2,
	ON_REGION = 1 << 3,
	ON_NO_WRAP = 1 << 4,
	ON_KEYS = 1 << 5,
	ON_KEYPAD = 1 << 6,
	ON_PASTE = 1 << 7,
	ON_FOCUS = 1 << 8,
	ON_MOUSE = 1 << 9,
	ON_SCREEN = 1 << 10,
	ON_SCREEN_OLD = 1 << 11,
	ON_NO_CURSOR = 1 << 12,
	ON_SHAPE = 1 << 13,
};

static const struct {
	unsigned what;
	const char *off;
} undo[] = {
	{ON_CHARSET, "\017\033(B\033)B"},
	{ON_STYLE, "\033[0m"},
	{ON_INSERT, "\033[4l"},
	{ON_REGION, "\0337\033[r\0338"}, /* a new region moves the cursor */
	{ON_NO_WRAP, "\033[?7h"},
	{ON_KEYS, "\033[?1l"},
	{ON_KEYPAD, "\033>"},
	{ON_PASTE, "\033[?2004l"},
	{ON_FOCUS, "\033[?1004l"},
	{ON_MOUSE, "\033[?1000;1002;1003;1006l"},
	{ON_SCREEN, "\033[?1049l"},
	{ON_SCREEN_OLD, "\033[?1047l"},
	{ON_NO_CURSOR, "\033[?25h"},
	{ON_SHAPE, "\033[0 q"},
};

/* Private modes that full-screen programs need. Others lock the keyboard, change the width, make
 * the terminal answer, or are not known to be harmless. */
static const struct mode {
	unsigned number;
	bool needs_input; /* changes what is typed, or takes the screen away from a shell */
	unsigned when_set, when_reset; /* what is on then */
} modes[] = {
	{1, true, ON_KEYS, 0},		{7, false, 0, ON_NO_WRAP}, {25, false, 0, ON_NO_CURSOR},
	{47, true, ON_SCREEN_OLD, 0},	{1000, true, ON_MOUSE, 0}, {1002, true, ON_MOUSE, 0},
	{1003, true, ON_MOUSE, 0},	{1004, true, ON_FOCUS, 0}, {1006, true, ON_MOUSE, 0},
	{1047, true, ON_SCREEN_OLD, 0}, {1048, true, 0, 0},	   {1049, true, ON_SCREEN, 0},
	{2004, true, ON_PASTE, 0},
};

struct sink {
	char *out;
	size_t n;
};

static void put(struct sink *sink, char c)
{
	sink->out[sink->n++] = c;
}

static void put_held(struct vt *vt, struct sink *sink)
{
	/* One by one: `out` and `in` may be one buffer, `held` is its own. */
	for (size_t i = 0; i < vt->n_held; i++)
		put(sink, vt->held[i]);
	vt->n_held = 0;
}

static void hold(struct vt *vt, char c)
{
	vt->held[vt->n_held++] = c;
}

static void to(struct vt *vt, enum vt_state state)
{
	vt->state = state;
	vt->n_held = 0;
}

/* ---- text ---- */

static void take_control(struct vt *vt, struct sink *sink, char c)
{
	switch (c) {
	case ESC:
		to(vt, VT_ESCAPE);
		return;
	case '\n':
		vt->is_mid_line = false;
		put(sink, c);
		return;
	case '\r':
	case '\a':
		put(sink, c);
		return;
	case '\b':
	case '\t':
	case '\v':
	case '\f':
		vt->is_mid_line = true;
		put(sink, c);
		return;
	case 0x0e: /* the other character set, for line drawing */
	case 0x0f:
		vt->on |= ON_CHARSET;
		put(sink, c);
		return;
	default: /* ENQ is answered, XOFF stops, NUL and the rest do nothing */
		return;
	}
}

static size_t character_size(unsigned char first)
{
	return first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
}

static void take_text(struct vt *vt, struct sink *sink, char c)
{
	unsigned char byte = (unsigned char)c;

	if (byte < 0x20) {
		take_control(vt, sink, c);
		return;
	}
	if (byte == 0x7f)
		return;
	vt->is_mid_line = true;
	if (byte < 0x80) {
		put(sink, c);
	} else if (byte >= 0xc2 && byte <= 0xf4) {
		to(vt, VT_CHARACTER);
		hold(vt, c);
	} else {
		put(sink, '?'); /* in 8-bit form a control to some terminals, a letter to none */
	}
}

/* False if the byte does not belong to the character and has to be looked at again. */
static bool take_character(struct vt *vt, struct sink *sink, char c)
{
	bool is_c1;

	if (((unsigned char)c & 0xc0) != 0x80) {
		put(sink, '?');
		to(vt, VT_TEXT);
		return false;
	}
	hold(vt, c);
	if (vt->n_held < character_size((unsigned char)vt->held[0]))
		return true;
	/* U+0080 to U+009F are controls also in this form. */
	is_c1 = (unsigned char)vt->held[0] == 0xc2 && (unsigned char)c < 0xa0;
	if (is_c1 || utf8_length(vt->held, vt->n_held) != vt->n_held)
		put(sink, '?');
	else
		put_held(vt, sink);
	to(vt, VT_TEXT);
	return true;
}

/* ---- escape sequences ---- */

/* A control in the middle is obeyed as if it stood before; a terminal does the same. */
static bool take_control_inside(struct vt *vt, struct sink *sink, char c)
{
	unsigned char byte = (unsigned char)c;

	if (byte >= 0x20)
		return false;
	if (byte == 0x18 || byte == 0x1a)
		to(vt, VT_TEXT);
	else if (c != ESC)
		take_control(vt, sink, c);
	else
		to(vt, VT_ESCAPE);
	return true;
}

static void pass_escape(struct vt *vt, struct sink *sink, char c)
{
	put(sink, ESC);
	put_held(vt, sink);
	put(sink, c);
	to(vt, VT_TEXT);
}

static void end_escape(struct vt *vt, struct sink *sink, char c)
{
	if (vt->n_held == 1 && (vt->held[0] == '(' || vt->held[0] == ')') &&
	    (c == 'B' || c == '0' || c == 'A')) {
		vt->on |= ON_CHARSET;
		pass_escape(vt, sink, c);
	} else if (vt->n_held == 0 && strchr("78DEHM", c)) {
		vt->is_mid_line = true;
		pass_escape(vt, sink, c);
	} else if (vt->n_held == 0 && (c == '=' || c == '>') && vt->is_interactive) {
		vt->on = c == '=' ? vt->on | ON_KEYPAD : vt->on & ~(unsigned)ON_KEYPAD;
		pass_escape(vt, sink, c);
	} else {
		to(vt, VT_TEXT);
	}
}

static bool take_escape(struct vt *vt, struct sink *sink, char c)
{
	unsigned char byte = (unsigned char)c;

	if (take_control_inside(vt, sink, c))
		return true;
	if (byte >= 0x7f) {
		to(vt, VT_TEXT);
		return byte == 0x7f;
	}
	if (byte <= 0x2f) {
		if (vt->n_held < 3)
			hold(vt, c);
	} else if (vt->n_held == 0 && c == '[') {
		to(vt, VT_SEQUENCE);
	} else if (vt->n_held == 0 && strchr("]PX^_k", c)) {
		to(vt, VT_STRING);
	} else {
		end_escape(vt, sink, c);
	}
	return true;
}

/* ---- control sequences ---- */

/* "?1;2" behind CSI, taken apart. */
struct sequence {
	char prefix;
	char intermediate;
	const char *params;
	size_t n_params; /* bytes */
	unsigned count;	 /* parameters */
};

/* False if it is of no form that is passed. */
static bool take_apart(const struct vt *vt, struct sequence *ret)
{
	size_t i = 0, digits = 0;

	*ret = (struct sequence){0};
	if (i < vt->n_held && strchr("<=>?", vt->held[i]))
		ret->prefix = vt->held[i++];
	ret->params = vt->held + i;
	for (; i < vt->n_held && vt->held[i] >= '0' && vt->held[i] <= ';'; i++) {
		digits = vt->held[i] <= '9' ? digits + 1 : 0;
		if (digits > 5) /* repeat a billion times, ... */
			return false;
		ret->n_params++;
		ret->count += vt->held[i] == ';';
	}
	ret->count += ret->n_params > 0;
	if (i < vt->n_held)
		ret->intermediate = vt->held[i++];
	return i == vt->n_held;
}

/* The number of which the parameter at `*at` consists, or NO_NUMBER; moves on to the next one. */
static unsigned next_param(const struct sequence *sequence, size_t *at)
{
	unsigned number = NO_NUMBER;

	for (; *at < sequence->n_params && sequence->params[*at] != ';'; ++*at) {
		unsigned digit = (unsigned)(sequence->params[*at] - '0');

		if (digit > 9)
			number = NO_MORE;
		else if (number != NO_MORE)
			number = (number == NO_NUMBER ? 0 : number * 10) + digit;
	}
	++*at;
	return number;
}

static bool erases_history(const struct sequence *sequence)
{
	size_t at = 0;
	unsigned number = next_param(sequence, &at);

	return number != NO_NUMBER && number > 2;
}

/* Which parameters each harmless sequence may have. */
static bool is_harmless(const struct sequence *sequence, char final)
{
	if (sequence->intermediate == ' ')
		return final == 'q' && !sequence->prefix && sequence->count <= 1;
	if (sequence->intermediate == '!')
		return final == 'p' && !sequence->prefix && sequence->count == 0;
	if (sequence->intermediate || sequence->prefix)
		return false;
	switch (final) {
	case 'm':
		return true;
	case 'J': /* 3 erases what has scrolled away */
		return sequence->count <= 1 && !erases_history(sequence);
	case 'H':
	case 'f':
	case 'r':
		return sequence->count <= 2;
	case 's':
	case 'u': /* with parameters: margins, keyboard protocols */
		return sequence->count == 0;
	default:
		return sequence->count <= 1 && strchr("@ABCDEFGIKLMPSTXZ`abdeg", final);
	}
}

static void note(struct vt *vt, char final)
{
	if (final == 'm') {
		vt->on |= ON_STYLE;
		return;
	}
	if (final == 'q')
		vt->on |= ON_SHAPE;
	else if (final == 'r')
		vt->on |= ON_REGION;
	vt->is_mid_line = vt->is_mid_line || final != 'q';
}

/* Is this mode passed? Remembers what is on afterwards. */
static bool take_mode(struct vt *vt, char prefix, unsigned number, bool sets)
{
	if (!prefix && number == 4) {
		vt->on = sets ? vt->on | ON_INSERT : vt->on & ~(unsigned)ON_INSERT;
		return true;
	}
	for (size_t i = 0; prefix && i < ARRAY_SIZE(modes); i++) {
		const struct mode *mode = &modes[i];

		if (mode->number != number || (mode->needs_input && !vt->is_interactive))
			continue;
		vt->on &= ~(mode->when_set | mode->when_reset);
		vt->on |= sets ? mode->when_set : mode->when_reset;
		return true;
	}
	return false;
}

/* Of a list of modes those that are passed. */
static void pass_modes(struct vt *vt, struct sink *sink, const struct sequence *sequence,
		       char final)
{
	char kept[VT_HELD_MAX];
	size_t n = 0;

	for (size_t i = 0; i < sequence->n_params;) {
		size_t start = i;
		unsigned number = next_param(sequence, &i);

		if (!take_mode(vt, sequence->prefix, number, final == 'h'))
			continue;
		if (n)
			kept[n++] = ';';
		memcpy(kept + n, sequence->params + start, i - 1 - start);
		n += i - 1 - start;
	}
	if (n == 0)
		return;
	put(sink, ESC);
	put(sink, '[');
	if (sequence->prefix)
		put(sink, sequence->prefix);
	for (size_t i = 0; i < n; i++)
		put(sink, kept[i]);
	put(sink, final);
}

static void end_sequence(struct vt *vt, struct sink *sink, char final)
{
	struct sequence sequence;
	bool is_known = take_apart(vt, &sequence);

	if (is_known && (final == 'h' || final == 'l') && !sequence.intermediate &&
	    (sequence.prefix == '?' || !sequence.prefix)) {
		pass_modes(vt, sink, &sequence, final);
	} else if (is_known && is_harmless(&sequence, final)) {
		note(vt, final);
		put(sink, ESC);
		put(sink, '[');
		put_held(vt, sink);
		put(sink, final);
	}
	to(vt, VT_TEXT);
}

static bool take_sequence(struct vt *vt, struct sink *sink, char c)
{
	unsigned char byte = (unsigned char)c;

	if (take_control_inside(vt, sink, c))
		return true;
	if (byte >= 0x7f) {
		to(vt, VT_TEXT);
		return byte == 0x7f;
	}
	if (byte >= 0x40) {
		if (vt->state == VT_SEQUENCE)
			end_sequence(vt, sink, c);
		else
			to(vt, VT_TEXT);
	} else if (vt->n_held < VT_HELD_MAX - 4) {
		hold(vt, c);
	} else {
		vt->state = VT_SKIP;
	}
	return true;
}

/* ---- strings ---- */

static bool take_string(struct vt *vt, char c)
{
	if (vt->state == VT_STRING_END) {
		if (c == '\\') {
			to(vt, VT_TEXT);
			return true;
		}
		to(vt, VT_ESCAPE); /* not its end, but the beginning of something else */
		return false;
	}
	if (c == ESC)
		vt->state = VT_STRING_END;
	else if (c == '\a' || c == 0x18 || c == 0x1a)
		to(vt, VT_TEXT);
	return true;
}

/* ---- the filter ---- */

static bool take(struct vt *vt, struct sink *sink, char c)
{
	switch (vt->state) {
	case VT_TEXT:
		take_text(vt, sink, c);
		return true;
	case VT_CHARACTER:
		return take_character(vt, sink, c);
	case VT_ESCAPE:
		return take_escape(vt, sink, c);
	case VT_SEQUENCE:
	case VT_SKIP:
		return take_sequence(vt, sink, c);
	case VT_STRING:
	case VT_STRING_END:
		return take_string(vt, c);
	}
	return true;
}

void vt_init(struct vt *vt, bool is_interactive)
{
	*vt = (struct vt){.is_interactive = is_interactive};
}

size_t vt_filter(struct vt *vt, const char *in, size_t size, char *out)
{
	struct sink sink = {.out = out};

	for (size_t i = 0; i < size; i++) {
		char c = in[i];

		while (!take(vt, &sink, c))
			;
	}
	return sink.n;
}

size_t vt_reset(struct vt *vt, char out[VT_RESET_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(undo); i++) {
		if (!(vt->on & undo[i].what))
			continue;
		memcpy(out + n, undo[i].off, strlen(undo[i].off));
		n += strlen(undo[i].off);
	}
	vt->on = 0;
	to(vt, VT_TEXT);
	return n;
}

bool vt_reports(const struct vt *vt)
{
	return vt->on & (ON_MOUSE | ON_FOCUS);
}
