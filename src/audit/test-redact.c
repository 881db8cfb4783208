/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/audit.h"
#include "base/scope.h"
#include "base/test.h"

#include <stdlib.h>
#include <time.h>

struct sample {
	const char *previous, *text, *want; /* want NULL: stays as it is */
};

static void check_all(const struct sample *samples, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		cleanup_buf struct buf out = BUF_INIT(1 << 20);
		const char *want = samples[i].want ? samples[i].want : samples[i].text;
		unsigned hits = audit_redact(samples[i].text, strlen(samples[i].text),
					     samples[i].previous, &out);

		CHECK(buf_error(&out) == 0);
		CHECK_STR(out.data ? out.data : "", want);
		if ((hits > 0) != (samples[i].want != NULL))
			test_fail(__FILE__, __LINE__, "%u hits in '%s'", hits, samples[i].text);
	}
}
#define CHECK_ALL(samples) check_all(samples, ARRAY_SIZE(samples))

#define R "[redacted]"
/* In two pieces, so that nobody's scanner takes them for real ones. */
#define A20 "Ab3dEf6hIj9lMn2pQr5t"
#define A36 A20 "Uv8xYz1bCd4fGh7j"

TEST(urls_lose_their_credentials)
{
	static const struct sample samples[] = {
		{NULL, "https://ada:hunter2@example.org/x?y=1", "https://" R "@example.org/x?y=1"},
		{NULL, "postgres://app:p@ss@db:5432/app", "postgres://" R "@db:5432/app"},
		{NULL, "https://0123456789abcdef@sentry.example/4",
		 "https://" R "@sentry.example/4"},
		{NULL, "git clone https://oauth2:abc@gitlab.example/a.git b",
		 "git clone https://" R "@gitlab.example/a.git b"},
		{NULL, "https://x.example/?token=abc&page=2",
		 "https://x.example/?token=" R "&page=2"},
		{NULL, "https://x.example/?page=2&api_key=abc#top",
		 "https://x.example/?page=2&api_key=" R},
		{NULL,
		 "https://s3.example/o?X-Amz-Signature=9f86d081884c7d659a2f&X-Amz-Date=20261116",
		 "https://s3.example/o?X-Amz-Signature=" R "&X-Amz-Date=20261116"},
		{NULL, "https://hooks.slack.com/services/T000/B000/abcdef",
		 "https://hooks.slack.com/services/" R},
	};
	CHECK_ALL(samples);
}

TEST(flags_and_variables_with_telling_names_lose_their_values)
{
	static const struct sample samples[] = {
		{"--password", "hunter2", R},
		{"--password", "two words", R},
		{"--token", "abc", R},
		{"-token", "abc", R},
		{"--api-key", "abc", R},
		{"--client-secret", "/looks/like/a/path", R},
		{"--oauth2-bearer", "abc", R},
		{"--key", "9f86d081884c7d659a2f", R},
		{"-u", "ada:hunter2", "ada:" R},
		{"--user", "ada:a:b c", "ada:" R},
		{"-passin", "pass:abc", "pass:" R},
		{":_authToken", "0123456789abcdef", R},
		{NULL, "-uada:hunter2", "-uada:" R},
		{NULL, "--token=abc", "--token=" R},
		{NULL, "--password=a&b c", "--password=" R},
		{NULL, "PGPASSWORD=x", "PGPASSWORD=" R},
		{NULL, "MYSQL_PWD=ab12CD34", "MYSQL_PWD=" R},
		{NULL, "AWS_SECRET_ACCESS_KEY=a/b+c", "AWS_SECRET_ACCESS_KEY=" R},
		{NULL, "GH_TOKEN=x git push", "GH_TOKEN=" R " git push"},
		{NULL, "export DB_PASSWORD_2='a b'; ls", "export DB_PASSWORD_2='" R "'; ls"},
		{NULL, "//registry.example/:_authToken=abc", "//registry.example/:_authToken=" R},
		{NULL, "{\"user\":\"ada\",\"password\":\"a\\\"b\",\"n\":1}",
		 "{\"user\":\"ada\",\"password\":\"" R "\",\"n\":1}"},
		{NULL, "clientSecret = \"abc\"", "clientSecret = \"" R "\""},
		{NULL, "user=ada&password=a&x=1", "user=ada&password=" R "&x=1"},
		{NULL, "Server=db;Pwd=aB3dEf6h;Timeout=5", "Server=db;Pwd=" R ";Timeout=5"},
	};
	CHECK_ALL(samples);
}

TEST(headers_lose_what_authorizes)
{
	static const struct sample samples[] = {
		{"-H", "Authorization: Bearer abc", "Authorization: Bearer " R},
		{"-H", "authorization:abc", "authorization:" R},
		{NULL, "Proxy-Authorization: Basic YTpi", "Proxy-Authorization: Basic " R},
		{NULL, "X-Api-Key: 0123456789abcdef", "X-Api-Key: " R},
		{NULL, "PRIVATE-TOKEN: 0123456789abcdef", "PRIVATE-TOKEN: " R},
		{NULL, "Cookie: a=b; c=d", "Cookie: " R},
		{NULL, "http.extraheader=AUTHORIZATION: basic eDp5",
		 "http.extraheader=AUTHORIZATION: basic " R},
		{NULL, "curl -H 'Authorization: Bearer abc' x",
		 "curl -H 'Authorization: Bearer " R "' x"},
		{NULL, "Authorization: Bearer abc\r\nHost: x",
		 "Authorization: Bearer " R "\r\nHost: x"},
	};
	CHECK_ALL(samples);
}

TEST(tokens_of_known_forms_are_left_out_wherever_they_stand)
{
	static const struct sample samples[] = {
		{NULL,
		 "AK"
		 "IAIOSFODNN7EXAMPLE",
		 R},
		{NULL,
		 "x gh"
		 "p_" A36 " y",
		 "x " R " y"},
		{NULL,
		 "(github"
		 "_pat_" A36 ")",
		 "(" R ")"},
		{NULL,
		 "sk"
		 "-proj-" A36,
		 R},
		{NULL,
		 "sk"
		 "-ant-api03-" A36,
		 R},
		{NULL,
		 "key:sk"
		 "_live_" A20,
		 "key:" R},
		{NULL,
		 "xox"
		 "b-1234567890-" A20,
		 R},
		{NULL,
		 "AI"
		 "za" A36,
		 R},
		{NULL,
		 "npm"
		 "_" A36,
		 R},
		{NULL, "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc_-9 x", R " x"},
		{NULL, "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\n",
		 "-----BEGIN RSA PRIVATE KEY-----" R "-----END RSA PRIVATE KEY-----\n"},
		{NULL, "-----BEGIN PRIVATE KEY-----\nMIIE", "-----BEGIN PRIVATE KEY-----" R},
		{NULL, "say bearer " A20, "say bearer " R},
	};
	CHECK_ALL(samples);
}

TEST(what_only_resembles_a_secret_stays)
{
	static const struct sample samples[] = {
		{NULL, "", NULL},
		{NULL, "/home/ada/.config/secret/token", NULL},
		{NULL, "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", NULL},
		{NULL, "sha512-" A36 A36 "==", NULL},
		{NULL, "123e4567-e89b-12d3-a456-426614174000", NULL},
		{NULL, "--password-file=/run/pw", NULL},
		{"--password-file", "/run/pw", NULL},
		{"--password-stdin", "ghcr.example", NULL},
		{"--no-password", "db", NULL},
		{"--token-url", "https://x.example", NULL},
		{"--key", "/etc/ssl/key.pem", NULL},
		{"--secret", "id=npm,src=.npmrc", NULL},
		{"secret", "generic", NULL},
		{"--password", "--verbose", NULL},
		{"-u", "1000:1000", NULL},
		{"-u", "node:node", NULL},
		{"-u", "origin", NULL},
		{NULL, "-ubuntu", NULL},
		{NULL, "PASSWORD=$PW", NULL},
		{NULL, "--token=${TOKEN}", NULL},
		{NULL, "--password=", NULL},
		{NULL, "--secret=true", NULL},
		{NULL, "PWD=/home/ada", NULL},
		{NULL, "--cache-key=node-modules-4f2a9c01be", NULL},
		{NULL, "--sort-key=name", NULL},
		{NULL, "ssh://git@github.com/a/b", NULL},
		{NULL, "https://ada@example.org/", NULL},
		{NULL, "https://registry.npmjs.org/@types/node/-/node-20.1.0.tgz", NULL},
		{NULL, "https://x.example/a:b@c", NULL},
		{NULL, "git@github.com:ada/repo.git", NULL},
		{NULL,
		 "image:tag@sha256:"
		 "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		 NULL},
		{NULL, "error: token: unexpected", NULL},
		{NULL, "-v", NULL},
		{NULL, "/run/secret:/secret:ro", NULL},
		{NULL, "sk-learn-contrib-project-template", NULL},
		{NULL, "-DKEY=value", NULL},
		{NULL, "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----", NULL},
		{NULL, "monkey=banana", NULL},
		{NULL, "compass=north", NULL},
		{NULL, "password=[redacted]", NULL},
		{NULL, "\xff\xfe://\xff@", NULL},
	};
	CHECK_ALL(samples);
}

#define LONG_TEXT (1 << 18)

/* Time is compared with itself: ten times the text may take some ten times as long, not a hundred.
 */
TEST(the_time_is_linear_whatever_the_text)
{
	static const char *const pieces[] = {"sk-",
					     "eyJ-",
					     "key=",
					     "://",
					     "://a@",
					     "eyJaaaaaaaa.",
					     "a:",
					     "--",
					     "-----BEGIN PRIVATE KEY",
					     "token: ",
					     "\"",
					     "password=\"",
					     "bearer ",
					     "password=${",
					     "PASSWORD=$A",
					     "hooks.slack.com/services/"};
	char *text = malloc(LONG_TEXT);

	CHECK(text);
	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		cleanup_buf struct buf out = BUF_INIT(16 << 20);
		size_t n = strlen(pieces[i]);
		clock_t start = clock();

		for (size_t at = 0; at < LONG_TEXT; at++)
			text[at] = pieces[i][at % n];
		audit_redact(text, LONG_TEXT, NULL, &out);
		/* What is linear takes some hundredths of a second; quadratic would be minutes. */
		CHECK((clock() - start) / CLOCKS_PER_SEC < 8);
	}
	free(text);
}
