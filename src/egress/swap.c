/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/swap.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "egress/secret-screen.h"

#include <errno.h>
#include <sodium.h>
#include <stdint.h>
#include <strings.h>

/* With how many different user names a secret may be used by Basic in one run: each is one more
 * text to look for in answers. */
#define FORMS_MAX 32

struct secret {
	char *host, *header;
	char *value, *placeholder; /* both of `size` bytes, or no placeholder */
	size_t size;
	size_t n_forms; /* derived from it */
	bool is_set;
};

/* A host with secrets, and what must not come back from it. */
struct home {
	char *host;
	struct screen screen;
};

struct swap {
	struct secret *secrets;
	size_t n_secrets;
	struct home *homes;
	size_t n_homes;
};

static void secret_done(struct secret *secret)
{
	if (secret->value)
		sodium_memzero(secret->value, secret->size);
	free(secret->value);
	free(secret->placeholder);
	free(secret->host);
	free(secret->header);
}

void swap_free(struct swap *swap)
{
	if (!swap)
		return;
	for (size_t i = 0; i < swap->n_secrets; i++)
		secret_done(&swap->secrets[i]);
	for (size_t i = 0; i < swap->n_homes; i++) {
		screen_done(&swap->homes[i].screen);
		free(swap->homes[i].host);
	}
	free(swap->homes);
	free(swap->secrets);
	free(swap);
}

static struct screen *find_screen(const struct swap *swap, const char *host)
{
	for (size_t i = 0; swap && i < swap->n_homes; i++)
		if (streq(swap->homes[i].host, host))
			return &swap->homes[i].screen;
	return NULL;
}

/* There is room for as many homes as secrets. */
static struct screen *make_screen(struct swap *swap, const char *host)
{
	struct screen *screen = find_screen(swap, host);
	struct home *home = &swap->homes[swap->n_homes];

	if (screen)
		return screen;
	home->host = strdup(host);
	if (!home->host)
		return NULL;
	swap->n_homes++;
	return &home->screen;
}

/* What may stand in a header's value, and stays there as it is. */
static bool is_fit(const char *text)
{
	for (const char *p = text; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return false;
	return *text != ' ' && !ends_with(text, " ");
}

static int check(const char *name, const char *placeholder, const char *value, bool is_set,
		 struct atoll_error *err)
{
	size_t least = is_set ? 1 : SWAP_LENGTH_MIN;

	if (strlen(value) < least || strlen(value) > SWAP_LENGTH_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "secret %s: a value of %zu bytes; it needs %zu to %d", name,
				 strlen(value), least, SWAP_LENGTH_MAX);
	if (strlen(value) > SWAP_ESCAPED_MAX && value[strcspn(value, "%\\&")])
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "secret %s: a value with '%%', '\\' or '&' in it has at most %d "
				 "bytes",
				 name, SWAP_ESCAPED_MAX);
	if (!is_fit(value))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "secret %s: its value cannot stand in an HTTP header", name);
	if (is_set && !*placeholder)
		return 0;
	if (strlen(placeholder) != strlen(value) || !is_fit(placeholder))
		return error_set(err, ATOLL_FAULT_BUG, 0,
				 "secret %s: its placeholder has not its shape", name);
	if (streq(placeholder, value))
		return error_set(err, ATOLL_FAULT_BUG, 0,
				 "secret %s: its placeholder is the value itself", name);
	return 0;
}

static int add_secret(struct swap *swap, const struct network_secret *from, const char *placeholder,
		      const char *value, struct atoll_error *err)
{
	struct secret *secret = &swap->secrets[swap->n_secrets++];
	struct screen *screen;
	int r = check(from->name, placeholder, value, from->is_set, err);

	if (r < 0)
		return r;
	secret->host = strdup(from->host);
	secret->header = strdup(from->header);
	secret->value = strdup(value);
	secret->placeholder = strdup(placeholder);
	secret->size = strlen(value);
	secret->is_set = from->is_set;
	if (!secret->host || !secret->header || !secret->value || !secret->placeholder)
		return error_oom(err);
	screen = make_screen(swap, secret->host);
	if (!screen ||
	    (*placeholder && screen_add_value(screen, value, placeholder, secret->size) < 0))
		return error_oom(err);
	return 0;
}

int swap_new(const struct network *network, const char *const *placeholders,
	     const char *const *values, struct swap **ret, struct atoll_error *err)
{
	struct swap *swap = calloc(1, sizeof *swap);
	int r = 0;

	if (!swap)
		return error_oom(err);
	swap->secrets = calloc(network->n_secrets + 1, sizeof *swap->secrets);
	swap->homes = calloc(network->n_secrets + 1, sizeof *swap->homes);
	if (!swap->secrets || !swap->homes)
		r = error_oom(err);
	for (size_t i = 0; r == 0 && i < network->n_secrets; i++)
		r = add_secret(swap, &network->secrets[i], placeholders[i], values[i], err);
	if (r < 0) {
		swap_free(swap);
		return r;
	}
	*ret = swap;
	return 0;
}

bool swap_concerns(const struct swap *swap, const char *host)
{
	for (size_t i = 0; swap && i < swap->n_secrets; i++)
		if (streq(swap->secrets[i].host, host))
			return true;
	return false;
}

/* All of `from` to `to`, which is of the same size. Returns whether there was any. */
static bool replace(char *data, size_t size, const char *from, const char *to, size_t length)
{
	char *found;
	bool is_found = false;

	while (size > 0 && (found = memmem(data, size, from, length))) {
		memcpy(found, to, length);
		size -= (size_t)(found - data) + length;
		data = found + length;
		is_found = true;
	}
	return is_found;
}

/* ---- into requests ---- */

/*
 * The base64 of "user:placeholder" at `text`, in place. What it becomes must not come back any more
 * than the value itself, so it is remembered. Text that is no base64 is left as it is.
 */
static int swap_basic(struct swap *swap, struct secret *secret, char *text, size_t size)
{
	int variant = size > 0 && text[size - 1] != '=' && size % 4 != 0
			      ? sodium_base64_VARIANT_ORIGINAL_NO_PADDING
			      : sodium_base64_VARIANT_ORIGINAL;
	cleanup_free char *inner = malloc(size + 1), *outer = malloc(size + 8);
	struct screen *screen = find_screen(swap, secret->host);
	size_t n = 0;
	int r = 0;

	if (!inner || !outer)
		return -ENOMEM;
	if (sodium_base642bin((unsigned char *)inner, size + 1, text, size, NULL, &n, NULL,
			      variant) < 0 ||
	    sodium_base64_encoded_len(n, variant) != size + 1)
		return 0;
	if (replace(inner, n, secret->placeholder, secret->value, secret->size)) {
		sodium_bin2base64(outer, size + 1, (unsigned char *)inner, n, variant);
		if (!screen_has(screen, outer, size)) {
			if (secret->n_forms == FORMS_MAX)
				r = -E2BIG;
			else if ((r = screen_add_text(screen, outer, text, size)) == 0)
				secret->n_forms++;
		}
		if (r == 0)
			memcpy(text, outer, size);
	}
	sodium_memzero(inner, size + 1);
	sodium_memzero(outer, size + 8);
	return r;
}

static int swap_value(struct swap *swap, struct secret *secret, char *text, size_t size)
{
	size_t skip = strlen("Basic ");

	replace(text, size, secret->placeholder, secret->value, secret->size);
	if (size <= skip || strncasecmp(text, "Basic ", skip) != 0)
		return 0;
	while (skip < size && text[skip] == ' ')
		skip++;
	return swap_basic(swap, secret, text + skip, size - skip);
}

int swap_field(struct swap *swap, const char *host, struct http_slice name, struct http_slice value,
	       struct buf *out)
{
	size_t start = out->used;
	int r;

	buf_add(out, value.at, value.size);
	if ((r = buf_error(out)) < 0)
		return r;
	for (size_t i = 0; swap && i < swap->n_secrets; i++) {
		struct secret *secret = &swap->secrets[i];

		if (secret->is_set || !streq(secret->host, host) ||
		    !http_slice_is_like(name, secret->header))
			continue;
		r = swap_value(swap, secret, out->data + start, value.size);
		if (r < 0)
			return r;
	}
	return 0;
}

bool swap_sets(const struct swap *swap, const char *host, struct http_slice name)
{
	for (size_t i = 0; swap && i < swap->n_secrets; i++) {
		const struct secret *secret = &swap->secrets[i];

		if (secret->is_set && streq(secret->host, host) &&
		    http_is_same_variable(name, secret->header))
			return true;
	}
	return false;
}

void swap_add_fields(const struct swap *swap, const char *host, struct buf *out)
{
	for (size_t i = 0; swap && i < swap->n_secrets; i++) {
		const struct secret *secret = &swap->secrets[i];

		if (!secret->is_set || !streq(secret->host, host))
			continue;
		buf_add_str(out, secret->header);
		buf_add_str(out, ": ");
		buf_add(out, secret->value, secret->size);
		buf_add_str(out, "\r\n");
	}
}

/* ---- out of answers ---- */

void swap_hide(const struct swap *swap, const char *host, char *data, size_t size)
{
	const struct screen *screen = find_screen(swap, host);

	if (screen)
		screen_hide(screen, data, size);
}

static void bytes_done(struct swap_bytes *bytes)
{
	if (bytes->at)
		sodium_memzero(bytes->at, bytes->room);
	free(bytes->at);
	*bytes = (struct swap_bytes){0};
}

static int bytes_set(struct swap_bytes *bytes, const char *data, size_t size)
{
	if (size > bytes->room) {
		char *grown = malloc(size);

		if (!grown)
			return -ENOMEM;
		bytes_done(bytes);
		*bytes = (struct swap_bytes){grown, size};
	}
	if (size > 0)
		memcpy(bytes->at, data, size);
	return 0;
}

/*
 * Hides values in the last `n` bytes of `out`, and keeps the last `tail` of them for the next call.
 * A tail that is as long as it can be may begin within a value: then the bytes before it are needed
 * again. It is one only if something was hidden.
 */
static int hide_and_keep(struct swap_filter *filter, const struct screen *screen, struct buf *out,
			 size_t n, size_t tail)
{
	const size_t passed = screen_tail(screen, out->data + out->used - n, n - tail);
	const char *end = out->data + out->used;
	int r = bytes_set(&filter->raw, end - tail - passed, tail + passed);

	screen_hide(screen, out->data + out->used - n, n);
	if (r == 0)
		r = bytes_set(&filter->held, end - tail, tail);
	if (r < 0)
		return r;
	filter->n_held = tail;
	filter->n_passed = passed;
	if (passed > 0 && memcmp(filter->raw.at, end - tail - passed, tail + passed) == 0) {
		memmove(filter->raw.at, filter->raw.at + passed, tail);
		filter->n_passed = 0;
	}
	return 0;
}

int swap_filter(struct swap_filter *filter, const struct swap *swap, const char *host,
		const char *data, size_t size, struct buf *out)
{
	const struct screen *screen = find_screen(swap, host);
	const size_t start = out->used, skip = filter->n_passed;
	size_t n, tail;
	int r;

	buf_add(out, filter->raw.at, filter->n_passed + filter->n_held);
	buf_add(out, data, size);
	filter->n_held = filter->n_passed = 0;
	if ((r = buf_error(out)) < 0)
		return r;
	n = out->used - start;
	if (!screen || n == 0)
		return 0;
	tail = screen_tail(screen, out->data + start, n);
	/* What was passed on is not held again. */
	if (tail > n - skip)
		tail = n - skip;
	r = hide_and_keep(filter, screen, out, n, tail);
	if (skip > 0)
		memmove(out->data + start, out->data + start + skip, n - skip - tail);
	out->used -= skip + tail;
	return r;
}

void swap_filter_end(struct swap_filter *filter, struct buf *out)
{
	buf_add(out, filter->held.at, filter->n_held);
	filter->n_held = filter->n_passed = 0;
}

void swap_filter_done(struct swap_filter *filter)
{
	bytes_done(&filter->held);
	bytes_done(&filter->raw);
	*filter = (struct swap_filter){0};
}
