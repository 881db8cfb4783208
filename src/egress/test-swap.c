/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/test.h"
#include "egress/swap.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>

static char key_name[] = "KEY", key_host[] = "api.test", key_header[] = "authorization";
static char two_name[] = "TWO", two_header[] = "x-api-key";
static struct network_secret secrets[] = {
	{.name = key_name, .host = key_host, .header = key_header},
	{.name = two_name, .host = key_host, .header = two_header},
};
static const struct network network = {.secrets = secrets, .n_secrets = 2};
static const char *const placeholders[] = {"sk-AAAAAAAA", "k0000"};
static const char *const values[] = {"sk-secret12", "k1234"};

static struct swap *make(void)
{
	struct swap *swap = NULL;
	struct atoll_error err = {0};

	CHECK(sodium_init() >= 0);
	CHECK(swap_new(&network, placeholders, values, &swap, &err) == 0);
	return swap;
}

#define cleanup_swap cleanup_with(free_swap)
static void free_swap(struct swap **swap)
{
	swap_free(*swap);
}

static struct http_slice slice(const char *text)
{
	return (struct http_slice){text, strlen(text)};
}

/* What a field becomes; good until the next call. */
static const char *field(struct swap *swap, const char *host, const char *name, const char *value)
{
	static struct buf out = BUF_INIT(4096);

	out.used = 0;
	CHECK_INT(swap_field(swap, host, slice(name), slice(value), &out), 0);
	return out.data;
}

TEST(a_placeholder_becomes_the_value_in_its_header_for_its_host)
{
	cleanup_swap struct swap *swap = make();

	CHECK_STR(field(swap, "api.test", "Authorization", "Bearer sk-AAAAAAAA"),
		  "Bearer sk-secret12");
	CHECK_STR(field(swap, "api.test", "authorization", "sk-AAAAAAAA"), "sk-secret12");
	CHECK_STR(field(swap, "api.test", "X-Api-Key", "k0000"), "k1234");
}

/* NET-35 */
TEST(a_placeholder_stays_everywhere_else)
{
	cleanup_swap struct swap *swap = make();

	CHECK_STR(field(swap, "other.test", "Authorization", "Bearer sk-AAAAAAAA"),
		  "Bearer sk-AAAAAAAA");
	CHECK_STR(field(swap, "sub.api.test", "Authorization", "sk-AAAAAAAA"), "sk-AAAAAAAA");
	CHECK_STR(field(swap, "api.test", "X-Other", "sk-AAAAAAAA"), "sk-AAAAAAAA");
	CHECK_STR(field(swap, "api.test", "X-Api-Key", "sk-AAAAAAAA"), "sk-AAAAAAAA");
	CHECK_STR(field(NULL, "api.test", "Authorization", "sk-AAAAAAAA"), "sk-AAAAAAAA");
	CHECK(swap_concerns(swap, "api.test") && !swap_concerns(swap, "other.test"));
	CHECK(!swap_concerns(NULL, "api.test"));
}

TEST(basic_is_opened_and_closed_again)
{
	cleanup_swap struct swap *swap = make();
	char text[] = "you sent Basic dXNlcjpzay1zZWNyZXQxMg== to me";

	/* user:sk-AAAAAAAA and user:sk-secret12 */
	CHECK_STR(field(swap, "api.test", "Authorization", "Basic dXNlcjpzay1BQUFBQUFBQQ=="),
		  "Basic dXNlcjpzay1zZWNyZXQxMg==");
	CHECK_STR(field(swap, "api.test", "Authorization", "basic  dXNlcjpzay1BQUFBQUFBQQ"),
		  "basic  dXNlcjpzay1zZWNyZXQxMg");
	CHECK_STR(field(swap, "api.test", "Authorization", "Basic ????"), "Basic ????");
	CHECK_STR(field(swap, "api.test", "Authorization", "Basic "), "Basic ");
	CHECK_STR(field(swap, "other.test", "Authorization", "Basic dXNlcjpzay1BQUFBQUFBQQ=="),
		  "Basic dXNlcjpzay1BQUFBQUFBQQ==");
	swap_hide(swap, "api.test", text, strlen(text));
	CHECK_STR(text, "you sent Basic dXNlcjpzay1BQUFBQUFBQQ== to me");
}

TEST(forms_of_a_secret_are_counted)
{
	cleanup_swap struct swap *swap = make();
	cleanup_buf struct buf out = BUF_INIT(1 << 16);
	int r = 0, n = 0;

	while (r == 0 && n < 100) {
		char user[64], text[128] = "Basic ";

		snprintf(user, sizeof user, "user%03d:sk-AAAAAAAA", n++);
		sodium_bin2base64(text + 6, sizeof text - 6, (unsigned char *)user, strlen(user),
				  sodium_base64_VARIANT_ORIGINAL);
		r = swap_field(swap, "api.test", slice("authorization"), slice(text), &out);
	}
	CHECK_INT(r, -E2BIG);
	CHECK_INT(n, 33);
}

TEST(a_value_that_comes_back_is_hidden_wherever_pieces_are_cut)
{
	cleanup_swap struct swap *swap = make();
	const char *text = "sk-sk-secret12,k123,sk-secret1k1234sk-secretsk-secret12k1234|sk-s";
	const char *want = "sk-sk-AAAAAAAA,k123,sk-secret1k0000sk-secretsk-AAAAAAAAk0000|sk-s";

	for (size_t step = 1; step <= strlen(text); step++) {
		cleanup_buf struct buf out = BUF_INIT(4096);
		struct swap_filter filter = {0};

		for (size_t i = 0; i < strlen(text); i += step) {
			size_t n = strlen(text) - i < step ? strlen(text) - i : step;

			CHECK_INT(swap_filter(&filter, swap, "api.test", text + i, n, &out), 0);
			CHECK_INT(out.used + filter.n_held, i + n);
		}
		swap_filter_end(&filter, &out);
		CHECK_STR(out.data, want);
		swap_filter_done(&filter);
	}
}

/* `text` in pieces of each size, behind `before` signs that could all belong to a value. */
static void check_pieces(struct swap *swap, size_t before, const char *text, const char *want)
{
	const size_t size = before + strlen(text);
	cleanup_free char *all = malloc(size + 1);

	memset(all, 'x', before);
	strcpy(all + before, text);
	for (size_t step = 1; step <= size; step += step / 4 + 1) {
		cleanup_buf struct buf out = BUF_INIT(65536);
		struct swap_filter filter = {0};

		for (size_t i = 0; i < size; i += step) {
			size_t n = size - i < step ? size - i : step;

			CHECK_INT(swap_filter(&filter, swap, "api.test", all + i, n, &out), 0);
			CHECK_INT(out.used + filter.n_held, i + n);
		}
		swap_filter_end(&filter, &out);
		CHECK_INT(out.used, size);
		CHECK(memcmp(out.data, all, before) == 0);
		CHECK_STR(out.data + before, want);
		swap_filter_done(&filter);
	}
}

TEST(a_value_that_contains_another_one_is_hidden_wherever_pieces_are_cut)
{
	struct network_secret nested[] = {secrets[0], secrets[0], secrets[0]};
	struct network all = {.secrets = nested, .n_secrets = 3};
	static const char *const shown[] = {"AAAA", "BBBBBBBB", "CCCCCC"};
	static const char *const real[] = {"abcd", "abcdefgh", "ghijkl"};
	cleanup_swap struct swap *swap = NULL;

	CHECK(swap_new(&all, shown, real, &swap, NULL) == 0);
	check_pieces(swap, 0, "abcdefgh abcd", "BBBBBBBB AAAA");
	check_pieces(swap, 0, "abcdefghijkl", "BBBBBBCCCCCC");
	/* Runs longer than what waits: a value is cut where it was found already. */
	for (size_t before = 0; before < 900; before += 101)
		check_pieces(swap, before, "abcdefgh1ghijklxxxxabcdabcdefgxxxxxxxxxxxxxxxx",
			     "BBBBBBBB1CCCCCCxxxxAAAAAAAAefgxxxxxxxxxxxxxxxx");
}

TEST(answers_of_other_hosts_pass_as_they_are)
{
	cleanup_swap struct swap *swap = make();
	cleanup_buf struct buf out = BUF_INIT(4096);
	struct swap_filter filter = {0};

	CHECK_INT(swap_filter(&filter, swap, "other.test", "sk-secret12 sk-", 15, &out), 0);
	CHECK_STR(out.data, "sk-secret12 sk-");
	swap_filter_done(&filter);
}

TEST(the_longer_of_two_values_is_hidden_first)
{
	struct network_secret nested[] = {secrets[0], secrets[0]};
	struct network both = {.secrets = nested, .n_secrets = 2};
	const char *const shown[] = {"AAAA", "BBBBBBBB"}, *const real[] = {"abcd", "abcdefgh"};
	cleanup_swap struct swap *swap = NULL;
	char text[] = "abcdefgh abcd";

	CHECK(swap_new(&both, shown, real, &swap, NULL) == 0);
	swap_hide(swap, "api.test", text, strlen(text));
	CHECK_STR(text, "BBBBBBBB AAAA");
}

TEST(values_and_placeholders_must_fit)
{
	struct network one = {.secrets = secrets, .n_secrets = 1};
	const char *long_one = "sk-AAAAAAAAA", *same = "sk-secret12", *empty = "";
	const char *line = "sk-\nsecret12", *line_stand = "sk-AAAAAAAAA";
	char long_value[300], *long_text = long_value;
	struct swap *swap = NULL;
	struct atoll_error err = {0};

	CHECK(swap_new(&one, &long_one, &same, &swap, &err) < 0);
	CHECK_STR(err.text, "secret KEY: its placeholder has not its shape");
	CHECK(swap_new(&one, &same, &same, &swap, &err) < 0);
	CHECK_STR(err.text, "secret KEY: its placeholder is the value itself");
	CHECK(swap_new(&one, &empty, &empty, &swap, &err) < 0);
	CHECK_STR(err.text, "secret KEY: a value of 0 bytes; it needs 4 to 8192");
	CHECK(swap_new(&one, &line_stand, &line, &swap, &err) < 0);
	CHECK_STR(err.text, "secret KEY: its value cannot stand in an HTTP header");
	/* One that costs time for each byte of an answer is not long. */
	memset(long_value, '%', 299);
	long_value[299] = '\0';
	CHECK(swap_new(&one, &line_stand, (const char *const *)&long_text, &swap, &err) < 0);
	CHECK_STR(err.text,
		  "secret KEY: a value with '%', '\\' or '&' in it has at most 256 bytes");
	CHECK(!swap);
}

TEST(a_secret_that_is_set_stands_in_every_request_to_its_host)
{
	static struct network_secret set[] = {
		{.name = key_name, .host = key_host, .header = key_header, .is_set = true},
		{.name = two_name, .host = key_host, .header = two_header, .is_set = true},
	};
	static const struct network rules = {.secrets = set, .n_secrets = 2};
	static const char *const none_of_short[] = {"sk-AAAAAAAA", ""};
	static const char *const with_short[] = {"sk-secret12", "1"};
	cleanup_swap struct swap *swap = NULL;
	cleanup_buf struct buf out = BUF_INIT(4096);
	struct atoll_error err = {0};
	char answer[] = "sk-secret12 1";

	CHECK_INT(swap_new(&rules, none_of_short, with_short, &swap, &err), 0);
	CHECK(swap_sets(swap, "api.test", slice("Authorization")));
	CHECK(swap_sets(swap, "api.test", slice("X-API-Key")));
	/* Servers that make variables of fields take these for the same. */
	CHECK(swap_sets(swap, "api.test", slice("X_Api_Key")));
	CHECK(swap_sets(swap, "api.test", slice("x-api.key")));
	CHECK(!swap_sets(swap, "api.test", slice("accept")));
	CHECK(!swap_sets(swap, "other.test", slice("authorization")));
	swap_add_fields(swap, "api.test", &out);
	CHECK_STR(out.data, "authorization: sk-secret12\r\nx-api-key: 1\r\n");
	/* No placeholder is known inside, so none is replaced; what is long enough is hidden. */
	CHECK_STR(field(swap, "api.test", "authorization", "sk-AAAAAAAA"), "sk-AAAAAAAA");
	swap_hide(swap, "api.test", answer, strlen(answer));
	CHECK_STR(answer, "sk-AAAAAAAA 1");
	out.used = 0;
	swap_add_fields(swap, "other.test", &out);
	CHECK_INT(out.used, 0);
}
