/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/scope.h"
#include "base/test.h"
#include "httpd/multipart.h"

#include <errno.h>
#include <stdlib.h>

/* The form as a text: "[name|filename|type]content;" for each part, "." at the end, "!" for a
 * mistake. The input comes in pieces of `step` bytes. */
static const char *read_form(const char *type, const char *text, size_t size, size_t step)
{
	static char said[4096];
	struct buf out = BUF_INIT(sizeof said);
	struct multipart *form = NULL;

	CHECK_INT(multipart_new(type, &form), 0);
	for (size_t i = 0; i < size; i += step) {
		size_t left = size - i < step ? size - i : step;
		/* A copy of exactly that size, so that AddressSanitizer sees a read behind it. */
		char *piece = memcpy(malloc(left), text + i, left), *data = piece;
		struct multipart_piece ret;
		enum multipart_kind kind;

		while ((kind = multipart_step(form, data, left, &ret)) != MULTIPART_MORE) {
			CHECK(ret.used <= left);
			data += ret.used;
			left -= ret.used;
			if (kind == MULTIPART_PART)
				buf_addf(&out, "[%s|%s|%s]", multipart_name(form),
					 multipart_filename(form) ?: "-",
					 multipart_type(form) ?: "-");
			else if (kind == MULTIPART_DATA)
				buf_add(&out, ret.content.at, ret.content.size);
			else if (kind == MULTIPART_LAST)
				buf_add_str(&out, ";");
			else if (kind == MULTIPART_END)
				buf_add_str(&out, ".");
			else
				break;
		}
		free(piece);
		if (kind == MULTIPART_BAD) {
			buf_add_str(&out, "!");
			break;
		}
		CHECK_INT(ret.used, (long long)left);
	}
	snprintf(said, sizeof said, "%s%s", out.data ?: "", multipart_is_complete(form) ? "" : "?");
	buf_done(&out);
	multipart_free(form);
	return said;
}

#define TYPE "multipart/form-data; boundary=----formdata-undici-089384726534"
#define LINE "------formdata-undici-089384726534"

static void check_form(const char *text, const char *want)
{
	for (size_t step = 1; step < 200; step++)
		CHECK_STR(read_form(TYPE, text, strlen(text), step), want);
	CHECK_STR(read_form(TYPE, text, strlen(text), strlen(text)), want);
}

TEST(a_form_as_undici_sends_it)
{
	check_form(LINE
		   "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"d/x 1.txt\"\r\n"
		   "Content-Type: application/octet-stream\r\n\r\nhello world\r\n" LINE
		   "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"d/y.txt\"\r\n"
		   "Content-Type: application/octet-stream\r\n\r\n\r\n" LINE "--\r\n",
		   "[file|d/x 1.txt|application/octet-stream]hello world;"
		   "[file|d/y.txt|application/octet-stream];.");
}

TEST(a_field_without_a_file_name)
{
	check_form(LINE "\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx\r\n" LINE "--",
		   "[file|-|-]x;.");
}

TEST(what_looks_like_a_boundary_is_content)
{
	check_form(LINE "\r\nContent-Disposition: form-data; name=a\r\n\r\n"
			"\r\r\n\r\n-\r\n--\r\n------formdata-undici-08938472653\r\n" LINE "--",
		   "[a|-|-]\r\r\n\r\n-\r\n--\r\n------formdata-undici-08938472653;.");
}

TEST(names_are_unescaped)
{
	check_form(LINE "\r\nContent-Disposition: form-data; name=\"a%22b\"; "
			"filename=\"x%0D%0a\\\"y%41\\z\\\"\r\n\r\n\r\n" LINE "--",
		   "[a\"b|x\r\n\"y%41\\z\\|-];.");
}

TEST(a_preamble_and_an_epilogue_mean_nothing)
{
	check_form("preamble\r\n-- " LINE "\r\n" LINE
		   " \t\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n" LINE
		   "--\r\nepilogue\r\n" LINE "\r\n",
		   "[a|-|-]x;.");
}

TEST(a_form_that_breaks_off_is_not_complete)
{
	check_form(LINE "\r\nContent-Disposition: form-data; name=a\r\n\r\nabc", "[a|-|-]abc?");
	check_form(LINE "\r\nContent-Disp", "?");
	check_form("no form", "?");
	check_form("", "?");
}

TEST(heads_that_are_none_are_bad)
{
	check_form(LINE "x\r\n", "!?");
	check_form(LINE "-x\r\n", "!?");
	check_form(LINE "\rx", "!?");
	check_form(LINE "\r\nno colon\r\n\r\n", "!?");
	check_form(LINE "\r\nContent-Disposition: attachment; name=a\r\n\r\n", "!?");
	check_form(LINE "\r\nContent-Disposition: form-data; name=\"a\r\n\r\n", "!?");
	check_form(LINE "\r\nContent-Disposition: form-data; name=\"a\001\"\r\n\r\n", "!?");
}

TEST(a_head_has_a_limit)
{
	static char text[20000];
	size_t n = (size_t)sprintf(text, LINE "\r\nX: ");

	memset(text + n, 'x', 10000);
	CHECK_STR(read_form(TYPE, text, n + 10000, 100), "!?");
}

TEST(boundaries_that_are_none_are_refused)
{
	static const char *const types[] = {
		"text/plain",
		"multipart/form-data",
		"multipart/form-data; boundary=",
		"multipart/form-data; boundary=\"a",
		"multipart/form-data; boundary=a\001b",
	};
	static const char too_long[] = TYPE "0123456789012345678901234567890123456789";
	struct multipart *form = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		CHECK_INT(multipart_new(types[i], &form), -EINVAL);
	CHECK_INT(multipart_new(too_long, &form), -EINVAL);
	CHECK_INT(multipart_new("Multipart/Form-Data; charset=utf-8; Boundary=\"a b\"", &form), 0);
	multipart_free(form);
}
