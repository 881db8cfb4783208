/* SPDX-License-Identifier: Apache-2.0 */
#include "base/vt.h"

#include "base/scope.h"
#include "base/test.h"

static struct vt vt;

static const char *pass_size(const char *in, size_t size, bool is_interactive)
{
	static char out[4096];

	vt_init(&vt, is_interactive);
	out[vt_filter(&vt, in, size, out)] = '\0';
	return out;
}

static const char *pass(const char *in)
{
	return pass_size(in, strlen(in), true);
}

static const char *pass_piped(const char *in)
{
	return pass_size(in, strlen(in), false);
}

static const char *undone(void)
{
	static char out[VT_RESET_MAX + 1];

	out[vt_reset(&vt, out)] = '\0';
	return out;
}

TEST(text_and_colours_come_through)
{
	static const char *const same[] = {
		"plain\r\n\ttext\b\a\n",
		"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x8f\x9d\n",
		"\033[31mred\033[0m \033[38;5;200mx \033[38:2::1:2:3my\033[m",
		"\033[2J\033[H\033[10;20H\033[5A\033[K\033[1P\033[2@\033[3L\033[1;24r\033[r",
		"\0337\0338\033M\033D\033E\033H\033[s\033[u\033(0lqk\033(B\016x\017",
		"\033[?25l\033[?25h\033[?7l\033[?7h\033[4h\033[4l\033[2 q\033[!p",
	};

	for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
		CHECK_STR(pass(same[i]), same[i]);
		CHECK_STR(pass_piped(same[i]), same[i]);
	}
}

TEST(what_acts_on_the_terminal_is_left_out)
{
	static const char *const bad[] = {
		"\033]52;c;ZWNobyBoaQ==\a",	  /* clipboard */
		"\033]0;title\a",		  /* title */
		"\033]2;title\033\\",		  /* the same, with the other end */
		"\033]8;;http://x\033\\",	  /* link */
		"\033]11;?\a",			  /* colour query */
		"\033]9;note\a\033]777;n;t\a",	  /* notifications */
		"\033P$qm\033\\",		  /* DECRQSS */
		"\033P+q544e\033\\",		  /* XTGETTCAP */
		"\033Pq#0;2;0;0;0~\033\\",	  /* sixel */
		"\033_Gf=100;x\033\\",		  /* APC */
		"\033^pm\033\\\033Xsos\033\\",	  /* PM, SOS */
		"\033ktitle\033\\",		  /* screen's title */
		"\033[c\033[0c\033[>c\033[=c",	  /* device attributes */
		"\033[5n\033[6n\033[?6n",	  /* status, cursor position */
		"\033[x\033[?1$p\033[4$p",	  /* parameters, modes */
		"\033[>q\033[>0q",		  /* XTVERSION */
		"\033[14t\033[21t\033[8;1;1t",	  /* window operations, title report */
		"\033[22;0t\033[23;0t",		  /* title stack */
		"\033[i\033[5i\033[?4i",	  /* media copy */
		"\033Z\033c\033#8\033%@\033%G",	  /* identify, reset, encodings */
		"\005\021\023\x7f",		  /* ENQ, XON, XOFF, DEL */
		"\033[3J",			  /* what has scrolled away */
		"\033[?3h\033[?5h\033[?1034h",	  /* width, inversion, 8-bit keys */
		"\033[2h\033[12h\033[20h",	  /* keyboard lock, local echo, newline */
		"\033[>4;2m\033[?4m\033[>1u",	  /* keyboard protocols */
		"\033[1;2;3;4;5T\033[>2T",	  /* mouse highlighting, title modes */
		"\033[1;2s\033[1;1;1;1*y",	  /* margins, checksum of the screen */
		"\033[999999b",			  /* again and again */
		"\033[1;2'z\033[1'{",		  /* locator */
		"\033n\033o\033|\033N\033O",	  /* shifts */
		"\033[38;5;1\x18\033[38;5;1\x1a", /* broken off */
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		CHECK_STR(pass(bad[i]), "");
		CHECK_STR(undone(), "");
	}
}

TEST(eight_bit_controls_are_no_text)
{
	CHECK_STR(pass("a\x9b"
		       "6nb"),
		  "a?6nb");
	CHECK_STR(pass("a\x90q\x9c"), "a?q?");
	CHECK_STR(pass("a\xc2\x9b"
		       "6n"),
		  "a?6n");
	CHECK_STR(pass("a\xc2\xa0"), "a\xc2\xa0");
	CHECK_STR(pass("\xe2\x82 \xff\xc0\x80\xed\xa0\x80\xf5"), "? ?????");
	CHECK_STR(pass_size("a\0b", 3, false), "ab");
}

TEST(a_harmless_mode_in_a_list_is_kept)
{
	CHECK_STR(pass("\033[?3;25;1049;5l"), "\033[?25;1049l");
	CHECK_STR(pass_piped("\033[?3;25;1049;5l"), "\033[?25l");
	CHECK_STR(pass("\033[?3;4l\033[4l\033>"), "\033[4l\033>");
	CHECK_STR(pass("\033[?1:2h\033[?;h"), "");
}

TEST(what_changes_typing_needs_an_input_of_its_own)
{
	const char *modes = "\033[?1h\033=\033[?1049h\033[?2004h\033[?1000;1006h\033[?1004h";

	CHECK_STR(pass(modes), modes);
	CHECK(vt_reports(&vt));
	CHECK_STR(undone(), "\033[?1l\033>\033[?2004l\033[?1004l\033[?1000;1002;1003;1006l"
			    "\033[?1049l");
	CHECK_STR(pass_piped(modes), "");
	CHECK_STR(undone(), "");
}

TEST(what_was_switched_off_again_is_not_undone)
{
	pass("\033[?1049h\033[?25l\033=\033[4h");
	CHECK_STR(undone(), "\033[4l\033>\033[?1049l\033[?25h");
	pass("\033[?1049h\033[?25l\033=\033[4h\033[4l\033>\033[?25h\033[?1049l");
	CHECK_STR(undone(), "");
	pass("\033[31m\033[1;5r\033(0\033[?7l\033[3 q\033[?47h");
	CHECK_STR(undone(), "\017\033(B\033)B\033[0m\0337\033[r\0338\033[?7h\033[?1047l\033[0 q");
}

TEST(all_that_can_be_undone_at_once_fits)
{
	pass("\033(0\033[1m\033[4h\033[1;2r\033[?7l\033[?1h\033=\033[?2004;1004;1000;1049;47;25h"
	     "\033[?25l\033[1 q");
	CHECK(strlen(undone()) <= VT_RESET_MAX);
	CHECK_STR(undone(), "");
}

TEST(controls_within_a_sequence_are_obeyed_before_it)
{
	CHECK_STR(pass("\033[3\n1mx"), "\n\033[31mx");
	CHECK_STR(pass("\033[3\033[32mx"), "\033[32mx");
	CHECK_STR(pass("\033]0;a\033[31mx"), "\033[31mx");
}

TEST(what_is_too_long_is_left_out_whole)
{
	char text[300] = "\033[";

	memset(text + 2, '1', 200);
	strcpy(text + 202, "mok");
	CHECK_STR(pass(text), "ok");
}

TEST(cuts_change_nothing)
{
	static const char text[] = "a\xe2\x82\xac\033[31mb\033]0;t\033\\c\033[?25;3h\033[6nd\xc3"
				   "e\033(0\033P1\033\033[mz\r\n";
	char whole[sizeof text + VT_HELD_MAX], cut[sizeof text + VT_HELD_MAX];
	size_t size = sizeof text - 1, n, m;

	vt_init(&vt, true);
	n = vt_filter(&vt, text, size, whole);
	for (size_t piece = 1; piece < size; piece++) {
		vt_init(&vt, true);
		m = 0;
		for (size_t at = 0; at < size; at += piece)
			m += vt_filter(&vt, text + at, size - at < piece ? size - at : piece,
				       cut + m);
		CHECK(m == n && memcmp(whole, cut, n) == 0);
	}
}

TEST(one_buffer_serves_for_both_sides)
{
	char data[VT_HELD_MAX + 64];

	vt_init(&vt, true);
	memcpy(data + VT_HELD_MAX, "ab\033[3", 5);
	CHECK_INT(vt_filter(&vt, data + VT_HELD_MAX, 5, data), 2);
	memcpy(data + VT_HELD_MAX, "1mxyz", 5);
	CHECK_INT(vt_filter(&vt, data + VT_HELD_MAX, 5, data), 8);
	CHECK(memcmp(data, "\033[31mxyz", 8) == 0);
}

TEST(a_fresh_line_is_known_to_be_one)
{
	pass("text\n");
	CHECK(!vt.is_mid_line);
	pass("text\n\033[0m");
	CHECK(!vt.is_mid_line);
	pass("text\n\033[A");
	CHECK(vt.is_mid_line);
	pass("text\r");
	CHECK(vt.is_mid_line);
}
