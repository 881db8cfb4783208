/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/redact-forms.h"

#include "base/scope.h"
#include "base/str.h"

#include <strings.h>

/* A token is recognised by how it begins, and by what follows: at least so many letters, digits,
 * "_" and "-", and where the beginning is an ordinary word as well, a digit and a capital among
 * them. */
struct form {
	const char *start;
	size_t min, max;   /* of what follows; max 0: any */
	bool is_mixed;	   /* has to have a digit and a capital */
	const char *extra; /* characters besides those of a word */
};

static const struct form forms[] = {
	/* AWS: ids of keys */
	{"AKIA", 16, 16, false, ""},
	{"ASIA", 16, 16, false, ""},
	/* GitHub, GitLab */
	{"ghp_", 20, 0, false, ""},
	{"gho_", 20, 0, false, ""},
	{"ghu_", 20, 0, false, ""},
	{"ghs_", 20, 0, false, ""},
	{"ghr_", 20, 0, false, ""},
	{"github_pat_", 20, 0, false, ""},
	{"glpat-", 16, 0, false, "."},
	{"gldt-", 16, 0, true, ""},
	/* OpenAI, Anthropic, Stripe, Hugging Face */
	{"sk-", 20, 0, true, ""},
	{"sk_live_", 10, 0, false, ""},
	{"sk_test_", 10, 0, false, ""},
	{"rk_live_", 10, 0, false, ""},
	{"whsec_", 20, 0, false, ""},
	{"hf_", 30, 0, true, ""},
	/* Slack */
	{"xoxb-", 10, 0, false, ""},
	{"xoxp-", 10, 0, false, ""},
	{"xoxa-", 10, 0, false, ""},
	{"xoxo-", 10, 0, false, ""},
	{"xoxr-", 10, 0, false, ""},
	{"xoxs-", 10, 0, false, ""},
	{"xoxe-", 10, 0, false, ""},
	{"xapp-", 10, 0, true, ""},
	/* Google */
	{"AIza", 30, 0, false, ""},
	{"ya29.", 20, 0, false, "."},
	{"GOCSPX-", 16, 0, false, ""},
	/* registries of packages */
	{"npm_", 30, 0, true, ""},
	{"pypi-", 50, 0, true, ""},
	{"dckr_pat_", 16, 0, false, ""},
	/* others */
	{"SG.", 40, 0, true, "."},
	{"dop_v1_", 32, 0, false, ""},
	{"hvs.", 20, 0, false, ""},
	{"AGE-SECRET-KEY-1", 20, 0, false, ""},
};

static size_t run_length(const char *text, size_t size, const char *extra)
{
	size_t n = 0;

	while (n < size && (redact_is_word(text[n]) || (text[n] && strchr(extra, text[n]))))
		n++;
	return n;
}

static bool is_mixed(const char *text, size_t size)
{
	bool has_digit = false, has_upper = false;

	for (size_t i = 0; i < size; i++) {
		has_digit |= text[i] >= '0' && text[i] <= '9';
		has_upper |= text[i] >= 'A' && text[i] <= 'Z';
	}
	return has_digit && has_upper;
}

static size_t match_form(const struct form *form, const char *text, size_t size)
{
	size_t start = strlen(form->start), n;

	if (size < start + form->min || memcmp(text, form->start, start) != 0)
		return 0;
	n = run_length(text + start, size - start, form->extra);
	if (n < form->min || (form->max && n > form->max))
		return 0;
	return !form->is_mixed || is_mixed(text + start, n) ? start + n : 0;
}

/* "eyJ" is how base64 of `{"` begins: three such pieces with dots between are a JSON web token. */
static size_t match_jwt(const char *text, size_t size)
{
	size_t at = 0;

	for (int part = 0; part < 3; part++) {
		size_t n = run_length(text + at, size - at, "");

		if (part < 2 && (n < 8 || at + n >= size || text[at + n] != '.'))
			return 0;
		at += n + (part < 2);
	}
	return at;
}

/* A private key in PEM, to its last line, or to the end where that is missing. */
static size_t match_pem(const char *text, size_t size, size_t *ret_keep)
{
	const char *kind = memmem(text, size < 64 ? size : 64, "PRIVATE KEY", 11);
	const char *end;

	if (!kind)
		return 0;
	kind = memmem(kind, size - (size_t)(kind - text) < 32 ? size - (size_t)(kind - text) : 32,
		      "-----", 5);
	if (!kind)
		return 0;
	*ret_keep = (size_t)(kind - text) + 5;
	end = memmem(kind + 5, size - *ret_keep, "-----END", 8);
	return end ? (size_t)(end - text) : size;
}

/* Addresses that are secrets by themselves: whoever knows one may post there. */
static size_t match_hook(const char *text, size_t size, size_t *ret_keep)
{
	static const char *const hooks[] = {"hooks.slack.com/services/",
					    "discord.com/api/webhooks/"};

	for (size_t i = 0; i < ARRAY_SIZE(hooks); i++) {
		size_t start = strlen(hooks[i]);

		if (size <= start || memcmp(text, hooks[i], start) != 0)
			continue;
		*ret_keep = start;
		return start + run_length(text + start, size - start, "/");
	}
	return 0;
}

/* "Bearer" and something that could be one, outside of a header, too. */
static size_t match_bearer(const char *text, size_t size, size_t *ret_keep)
{
	size_t n;

	if (size < 19 || strncasecmp(text, "bearer ", 7) != 0)
		return 0;
	n = run_length(text + 7, size - 7, ".~+/=");
	*ret_keep = 7;
	return n >= 12 && is_mixed(text + 7, n < 256 ? n : 256) ? 7 + n : 0;
}

size_t redact_form(const char *text, size_t size, size_t *ret_keep)
{
	size_t n;

	*ret_keep = 0;
	if (size < 12)
		return 0;
	if (text[0] == '-')
		return memcmp(text, "-----BEGIN ", 11) == 0 ? match_pem(text, size, ret_keep) : 0;
	if (memcmp(text, "eyJ", 3) == 0)
		return match_jwt(text, size);
	if (text[0] == 'h' || text[0] == 'd') {
		n = match_hook(text, size, ret_keep);
		if (n > *ret_keep)
			return n;
		*ret_keep = 0;
	}
	if (text[0] == 'b' || text[0] == 'B') {
		n = match_bearer(text, size, ret_keep);
		return n > *ret_keep ? n : 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		if (forms[i].start[0] != text[0])
			continue;
		n = match_form(&forms[i], text, size);
		if (n)
			return n;
	}
	return 0;
}
