/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/redact-names.h"

#include "base/scope.h"
#include "base/str.h"

/* Splits a name into words: "AWS_SECRET_ACCESS_KEY" and "awsSecretAccessKey" have the same four
 * words. The last word decides, so "password-file" and "TOKEN_URL" are not secrets. */
#define WORDS_MAX 4  /* from the end */
#define WORD_MAX  24 /* of a longer word the end is used */
#define NAME_MAX_ 96 /* of a longer name the end is used */

struct words {
	char word[WORDS_MAX][WORD_MAX]; /* the last one first */
	size_t n;
};

/* Endings of a word that name a secret: "pgpassword", "mytoken". */
static const char *const secret_ends[] = {
	"password", "passwords", "passwd",    "passphrase", "passwort",	 "secret",  "secrets",
	"token",    "tokens",	 "apikey",    "secretkey",  "accesskey", "authkey", "privatekey",
	"apitoken", "sshpass",	 "authtoken", "userpass",   "dbpass",
};

/* Whole words. */
static const char *const secret_words[] = {"pass", "passin", "passout", "jwt", "bearer", "askpass"};
static const char *const maybe_words[] = {
	"key",	   "keys",	  "auth", "pwd",	"pw",	   "credential", "credentials",
	"session", "sessionid",	  "sid",  "code",	"sig",	   "hmac",	 "signature",
	"cookie",  "accesstoken", "psk",  "connection", "webhook",
};

/* Words before "key" that make it a secret. */
static const char *const secret_keys[] = {
	"api",	  "access",  "private", "secret",  "signing", "encryption", "auth",
	"master", "account", "storage", "service", "shared",  "license",    "deploy",
};
static const char *const plain_keys[] = {"public",  "pub",  "cache",	  "primary",
					 "foreign", "sort", "host",	  "partition",
					 "group",   "map",  "idempotency"};

/* "--no-password", "--ask-pass": switches, so the next argument is not their value. */
static const char *const switches[] = {"no",	 "ask",	   "prompt", "require", "without", "skip",
				       "show",	 "print",  "get",    "list",	"disable", "enable",
				       "rotate", "create", "revoke", "max",	"min",	   "num"};

static bool is_among(const char *word, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (streq(word, list[i]))
			return true;
	return false;
}
#define IS_AMONG(word, list) is_among(word, list, ARRAY_SIZE(list))

static bool is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return is_upper(c) || (c >= 'a' && c <= 'z');
}

/* The start of the word that ends before `end`. */
static size_t word_start(const char *name, size_t end)
{
	size_t at = end;

	while (at > 0 && is_letter(name[at - 1])) {
		at--;
		/* "authToken": a capital after a small letter starts a word. */
		if (at > 0 && is_upper(name[at]) && is_letter(name[at - 1]) &&
		    !is_upper(name[at - 1]))
			break;
	}
	return at;
}

static void split_words(struct words *words, const char *name, size_t size)
{
	size_t end = size;

	while (end > 0 && words->n < WORDS_MAX) {
		size_t start, used = 0;

		/* Digits separate words: "PASSWORD_2". */
		while (end > 0 && !is_letter(name[end - 1]))
			end--;
		start = word_start(name, end);
		if (start == end)
			return;
		for (size_t i = end - start < WORD_MAX ? start : end - WORD_MAX + 1; i < end; i++)
			words->word[words->n][used++] =
				(char)(is_upper(name[i]) ? name[i] + 0x20 : name[i]);
		words->word[words->n++][used] = '\0';
		end = start;
	}
}

static enum redact_telling judge_key(const struct words *words)
{
	if (words->n > 1 && IS_AMONG(words->word[1], secret_keys))
		return REDACT_SECRET;
	return words->n > 1 && IS_AMONG(words->word[1], plain_keys) ? REDACT_PLAIN : REDACT_MAYBE;
}

enum redact_telling redact_name(const char *name, size_t size)
{
	struct words words = {0};
	const char *last = words.word[0];

	if (size > NAME_MAX_) {
		name += size - NAME_MAX_;
		size = NAME_MAX_;
	}
	split_words(&words, name, size);
	if (words.n == 0 || IS_AMONG(words.word[words.n - 1], switches))
		return REDACT_PLAIN;
	for (size_t i = 0; i < ARRAY_SIZE(secret_ends); i++)
		if (ends_with(last, secret_ends[i]))
			return REDACT_SECRET;
	if (streq(last, "key"))
		return judge_key(&words);
	if (IS_AMONG(last, secret_words))
		return REDACT_SECRET;
	return IS_AMONG(last, maybe_words) ? REDACT_MAYBE : REDACT_PLAIN;
}

bool redact_looks_random(const char *value, size_t size)
{
	bool has_upper = false, has_lower = false, has_digit = false, has_slash = false;

	if (size < 8 || value[0] == '/' || value[0] == '~' || value[0] == '-')
		return false;
	for (size_t i = 0; i < size && i < 256; i++) {
		char c = value[i];

		if (c == '/')
			has_slash = true;
		else if (is_digit(c))
			has_digit = true;
		else if (is_upper(c))
			has_upper = true;
		else if (is_letter(c))
			has_lower = true;
		else if (!strchr("+=_-%", c) || !c)
			return false;
	}
	if (!has_digit || !(has_upper || has_lower))
		return false;
	if (has_slash)
		return size >= 24 && has_upper && has_lower;
	return size >= 16 || (has_upper && has_lower);
}
