/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/scope.h"
#include "base/test.h"
#include "e2b/connect.h"
#include "e2b/e2b-pairs.h"
#include "e2b/e2b-sign.h"

#include <stdlib.h>

TEST(an_envelope_is_read_when_all_of_it_is_there)
{
	static const char text[] = "\0\0\0\0\2{}\0\0";
	struct connect_envelope envelope = {0};

	for (size_t n = 0; n < 7; n++)
		CHECK_INT(connect_next(text, n, 100, &envelope), 0);
	CHECK_INT(connect_next(text, 9, 100, &envelope), 1);
	CHECK_INT(envelope.size, 2);
	CHECK_INT(envelope.used, 7);
	CHECK(memcmp(envelope.message, "{}", 2) == 0);
}

TEST(an_envelope_with_flags_or_of_any_size_is_refused)
{
	struct connect_envelope envelope;

	CHECK_INT(connect_next("\1\0\0\0\2{}", 7, 100, &envelope), -EBADMSG);
	CHECK_INT(connect_next("\2\0\0\0\2{}", 7, 100, &envelope), -EBADMSG);
	CHECK_INT(connect_next("\200\0\0\0\2{}", 7, 100, &envelope), -EBADMSG);
	CHECK_INT(connect_next("\0\377\377\377\377", 5, 100, &envelope), -EMSGSIZE);
	CHECK_INT(connect_next("\0\0\0\0\145", 5, 100, &envelope), -EMSGSIZE);
}

TEST(a_head_is_what_is_read)
{
	char head[CONNECT_HEAD];

	connect_head(CONNECT_LAST, 0x01020304, head);
	CHECK(memcmp(head, "\2\1\2\3\4", sizeof head) == 0);
}

static const char *decoded(const char *text)
{
	static char *data;
	size_t size;
	int r;

	free(data);
	data = NULL;
	r = connect_decode(text, strlen(text), &data, &size);
	return r < 0 ? "bad" : data;
}

TEST(base64_is_read_in_all_its_forms)
{
	CHECK_STR(decoded(""), "");
	CHECK_STR(decoded("aGVsbG8="), "hello");
	CHECK_STR(decoded("aGVsbG8"), "hello");
	CHECK_STR(decoded("aGVsbA=="), "hell");
	CHECK_STR(decoded("aGVsbA"), "hell");
	CHECK_STR(decoded("fn5-fn9/"), "~~~~\x7f\x7f");
	CHECK_STR(decoded("fn5+fn9_"), "~~~~\x7f\x7f");
	CHECK_STR(decoded("a"), "bad");
	CHECK_STR(decoded("===="), "bad");
	CHECK_STR(decoded("aGVs bG8="), "bad");
	CHECK_STR(decoded("aGVsbG8=aGVsbG8="), "bad");
}

TEST(the_user_is_what_stands_before_the_colon)
{
	cleanup_free char *user = NULL;

	CHECK_INT(connect_basic_user("Basic cm9vdDo=", &user), 0);
	CHECK_STR(user, "root");
	CHECK_INT(connect_basic_user("Bearer cm9vdDo=", &user), -EINVAL);
	CHECK_INT(connect_basic_user("Basic cm9vdA==", &user), -EINVAL);
	CHECK_INT(connect_basic_user("Basic cm9AAdDo", &user), -EINVAL);
}

TEST(codes_have_names_and_statuses)
{
	for (enum rpc_code code = 0; code < RPC_CODES; code++)
		CHECK(rpc_code_name(code) && rpc_code_status(code) >= 400);
	CHECK_STR(rpc_code_name(RPC_NOT_FOUND), "not_found");
	CHECK_INT(rpc_code_status(RPC_ALREADY_EXISTS), 409);
}

TEST(signatures_are_those_of_the_protocol)
{
	char text[E2B_SIGNATURE_SIZE];

	e2b_sign("notes/a.txt", E2B_READ, "user", "tok-123", NULL, text);
	CHECK_STR(text, "v1_TDA/y2/5rjEm3crnen040BtEmHFkvRqMSxnCrBn8SbU");
	e2b_sign("notes/a.txt", E2B_WRITE, "", "tok-123", "1800000000", text);
	CHECK_STR(text, "v1_opGtvYFauXkAmY7YOnefc+deS89b0byk0wNO0oGk40k");
}

TEST(a_filter_by_metadata_is_decoded_twice_more)
{
	struct box_pairs pairs;

	CHECK(e2b_read_filter("a=b%2520c&d%253D=%2526", &pairs));
	CHECK_INT(pairs.n, 2);
	CHECK_STR(pairs.items[0].name, "a");
	CHECK_STR(pairs.items[0].value, "b c");
	CHECK_STR(pairs.items[1].name, "d=");
	CHECK_STR(pairs.items[1].value, "&");
	e2b_free_pairs(&pairs);
	CHECK(e2b_read_filter("", &pairs) && pairs.n == 0);
	e2b_free_pairs(&pairs);
	CHECK(e2b_read_filter("&&x&", &pairs) && pairs.n == 1);
	CHECK_STR(pairs.items[0].value, "");
	e2b_free_pairs(&pairs);
}

TEST(a_filter_of_too_many_pairs_is_refused)
{
	char text[1024];
	struct box_pairs pairs;

	for (size_t i = 0; i < sizeof text; i++)
		text[i] = i % 2 ? '&' : 'a';
	text[sizeof text - 1] = '\0';
	CHECK(!e2b_read_filter(text, &pairs));
}
