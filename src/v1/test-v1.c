/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/str.h"
#include "base/test.h"
#include "v1/v1-form.h"
#include "v1/v1-openapi.h"
#include "v1/v1-view.h"
#include "v1/v1.h"

#include <ctype.h>
#include <stdio.h>

static void lower(const char *text, char ret[16])
{
	size_t i = 0;

	for (; text[i] && i < 15; i++)
		ret[i] = (char)tolower((unsigned char)text[i]);
	ret[i] = '\0';
}

static bool is_route(const char *method, const char *pattern)
{
	char word[16];

	for (const struct api_route *route = v1_protocol.routes[0]; route->method; route++) {
		lower(route->method, word);
		if (streq(word, method) && streq(route->pattern, pattern))
			return true;
	}
	return false;
}

TEST(every_route_is_in_the_document)
{
	json_t *document = json_loads(v1_openapi_text, 0, NULL);
	json_t *paths = json_object_get(document, "paths");
	char method[16];

	CHECK(document != NULL);
	for (const struct api_route *route = v1_protocol.routes[0]; route->method; route++) {
		lower(route->method, method);
		if (!json_object_get(json_object_get(paths, route->pattern), method))
			fprintf(stderr, "# %s %s\n", route->method, route->pattern);
		CHECK(json_object_get(json_object_get(paths, route->pattern), method) != NULL);
	}
	json_decref(document);
}

TEST(everything_in_the_document_is_a_route)
{
	json_t *document = json_loads(v1_openapi_text, 0, NULL), *item, *operation;
	const char *path, *method;

	json_object_foreach(json_object_get(document, "paths"), path, item)
	{
		json_object_foreach(item, method, operation)
		{
			if (!streq(method, "parameters") && !is_route(method, path))
				fprintf(stderr, "# %s %s\n", method, path);
			CHECK(streq(method, "parameters") || is_route(method, path));
		}
	}
	json_decref(document);
}

TEST(routes_need_a_key_unless_the_document_says_otherwise)
{
	json_t *document = json_loads(v1_openapi_text, 0, NULL), *operation;
	char method[16];

	for (const struct api_route *route = v1_protocol.routes[0]; route->method; route++) {
		lower(route->method, method);
		operation = json_object_get(
			json_object_get(json_object_get(document, "paths"), route->pattern),
			method);
		CHECK(!!(route->flags & API_OPEN) ==
		      (json_object_get(operation, "security") != NULL));
	}
	json_decref(document);
}

TEST(a_form_tells_the_first_mistake_and_knows_its_keys)
{
	static const char *const keys[] = {"name", "count", NULL};
	json_t *body = json_loads("{\"nam\": 1, \"count\": -1}", 0, NULL);
	struct form form = {.body = body};

	form_known(&form, keys);
	CHECK(form.is_bad);
	CHECK(strstr(form.why, "'nam' is not known; did you mean 'name'?") != NULL);
	form_uint(&form, "count", 0, 0, 9);
	CHECK(strstr(form.why, "'nam'") != NULL);
	json_decref(body);
}

TEST(a_form_takes_numbers_within_bounds_only)
{
	json_t *body = json_loads("{\"a\": 5, \"b\": 5.0, \"c\": \"5\", \"d\": null}", 0, NULL);
	struct form form = {.body = body};

	CHECK(form_uint(&form, "a", 1, 0, 5) == 5 && !form.is_bad);
	CHECK(form_uint(&form, "d", 7, 0, 5) == 7 && !form.is_bad);
	form_uint(&form, "a", 1, 6, 9);
	CHECK(form.is_bad);
	form.is_bad = false;
	form_uint(&form, "b", 1, 0, 9);
	CHECK(form.is_bad);
	form.is_bad = false;
	form_uint(&form, "c", 1, 0, 9);
	CHECK(form.is_bad);
	json_decref(body);
}

TEST(words_and_pairs_are_texts_without_end_in_the_middle)
{
	json_t *body = json_loads("{\"w\": [\"a\", \"\", \"b c\"], \"x\": [\"a\", 1], \"y\": [], "
				  "\"p\": {\"k\": \"v\"}, \"q\": {\"k\": 1}, \"r\": {\"\": \"v\"}}",
				  0, NULL);
	struct form form = {.body = body};
	char **words = form_words(&form, "w");
	struct box_pairs pairs;

	CHECK(words && streq(words[0], "a") && streq(words[1], "") && streq(words[2], "b c") &&
	      !words[3]);
	free(words);
	CHECK(!form_words(&form, "none") && !form.is_bad);
	CHECK(!form_words(&form, "x") && form.is_bad);
	form.is_bad = false;
	CHECK(!form_words(&form, "y") && form.is_bad);
	form.is_bad = false;
	form_pairs(&form, "p", &pairs);
	CHECK(pairs.n == 1 && streq(pairs.items[0].value, "v") && !form.is_bad);
	form_free_pairs(&pairs);
	form_pairs(&form, "q", &pairs);
	CHECK(form.is_bad);
	form_free_pairs(&pairs);
	form.is_bad = false;
	form_pairs(&form, "r", &pairs);
	CHECK(form.is_bad);
	form_free_pairs(&pairs);
	json_decref(body);
}

static void check_base64(const char *data, size_t size, const char *wanted)
{
	cleanup_buf struct buf out = BUF_INIT(1 << 20);
	struct json json = {.out = &out};

	v1_write_base64(&json, NULL, data, size);
	CHECK_STR(out.data, wanted);
}

TEST(bytes_are_written_as_base64)
{
	check_base64("", 0, "\"\"");
	check_base64("f", 1, "\"Zg==\"");
	check_base64("fo", 2, "\"Zm8=\"");
	check_base64("foo", 3, "\"Zm9v\"");
	check_base64("\0\377\20", 3, "\"AP8Q\"");
}

TEST(signals_have_names)
{
	CHECK(v1_signal_number("SIGTERM") == 15 && v1_signal_number("TERM") == 15);
	CHECK(v1_signal_number("SIGNONSENSE") == 0 && v1_signal_number("") == 0);
	CHECK_STR(v1_signal_name(9), "SIGKILL");
}

TEST(labels_of_ours_are_not_shown)
{
	cleanup_buf struct buf out = BUF_INIT(4096);
	struct json json = {.out = &out};
	struct box_pair items[] = {{(char[]){"a"}, (char[]){"b"}},
				   {(char[]){"atoll.request"}, (char[]){"x"}}};

	v1_write_pairs(&json, NULL, &(struct box_pairs){items, 2});
	CHECK_STR(out.data, "{\"a\":\"b\"}");
}
