/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/swap.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"

#include <errno.h>
#include <sodium.h>
#include <stdint.h>
#include <strings.h>

/* With how many different user names a secret may be used by Basic in one run: each is one more
 * text to look for in answers. */
#define FORMS_MAX 32

/* A text that must not come back, and what is shown instead, of the same size. */
struct form {
	const char *host; /* of the secret */
	char *value;
	char *placeholder;
	size_t size;
};

struct secret {
	char *host, *header;
	struct form form;
	size_t n_forms; /* derived from it */
	bool is_set;
};

struct swap {
	struct secret *secrets;
	size_t n_secrets;
	struct form *forms; /* all that must not come back, the longest first */
	size_t n_forms;
};

static void form_done(struct form *form)
{
	if (form->value)
		sodium_memzero(form->value, form->size);
	free(form->value);
	free(form->placeholder);
}

void swap_free(struct swap *swap)
{
	if (!swap)
		return;
	for (size_t i = 0; i < swap->n_forms; i++)
		form_done(&swap->forms[i]);
	for (size_t i = 0; i < swap->n_secrets; i++) {
		form_done(&swap->secrets[i].form);
		free(swap->secrets[i].host);
		free(swap->secrets[i].header);
	}
	free(swap->forms);
	free(swap->secrets);
	free(swap);
}

static int form_init(struct form *form, const char *host, const char *value,
		     const char *placeholder, size_t size)
{
	*form = (struct form){host, strndup(value, size), strndup(placeholder, size), size};
	return form->value && form->placeholder ? 0 : -ENOMEM;
}

/* The longest first: one value may be a part of another. */
static int forms_add(struct swap *swap, const struct form *from)
{
	struct form *grown, form;
	size_t place = 0;

	grown = reallocarray(swap->forms, swap->n_forms + 1, sizeof *grown);
	if (!grown)
		return -ENOMEM;
	swap->forms = grown;
	if (form_init(&form, from->host, from->value, from->placeholder, from->size) < 0) {
		form_done(&form);
		return -ENOMEM;
	}
	while (place < swap->n_forms && grown[place].size >= form.size)
		place++;
	memmove(&grown[place + 1], &grown[place], (swap->n_forms - place) * sizeof *grown);
	grown[place] = form;
	swap->n_forms++;
	return 0;
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
	int r = check(from->name, placeholder, value, from->is_set, err);

	if (r < 0)
		return r;
	secret->host = strdup(from->host);
	secret->header = strdup(from->header);
	secret->is_set = from->is_set;
	if (!secret->host || !secret->header ||
	    form_init(&secret->form, secret->host, value, placeholder, strlen(value)) < 0 ||
	    (*placeholder && forms_add(swap, &secret->form) < 0))
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
	if (!swap->secrets)
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

static bool knows_form(const struct swap *swap, const struct form *form)
{
	for (size_t i = 0; i < swap->n_forms; i++)
		if (swap->forms[i].size == form->size && streq(swap->forms[i].host, form->host) &&
		    memcmp(swap->forms[i].value, form->value, form->size) == 0)
			return true;
	return false;
}

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
	struct form form = {
		.host = secret->host, .value = outer, .placeholder = text, .size = size};
	size_t n = 0;
	int r = 0;

	if (!inner || !outer)
		return -ENOMEM;
	if (sodium_base642bin((unsigned char *)inner, size + 1, text, size, NULL, &n, NULL,
			      variant) < 0 ||
	    sodium_base64_encoded_len(n, variant) != size + 1)
		return 0;
	if (replace(inner, n, secret->form.placeholder, secret->form.value, secret->form.size)) {
		sodium_bin2base64(outer, size + 1, (unsigned char *)inner, n, variant);
		if (!knows_form(swap, &form)) {
			if (secret->n_forms == FORMS_MAX)
				r = -E2BIG;
			else if ((r = forms_add(swap, &form)) == 0)
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

	replace(text, size, secret->form.placeholder, secret->form.value, secret->form.size);
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
		    http_slice_is_like(name, secret->header))
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
		buf_add(out, secret->form.value, secret->form.size);
		buf_add_str(out, "\r\n");
	}
}

/* ---- out of answers ---- */

void swap_hide(const struct swap *swap, const char *host, char *data, size_t size)
{
	for (size_t i = 0; swap && i < swap->n_forms; i++)
		if (streq(swap->forms[i].host, host))
			replace(data, size, swap->forms[i].value, swap->forms[i].placeholder,
				swap->forms[i].size);
}

/* How many bytes at the end could be the beginning of this text. */
static size_t count_begun(const struct form *form, const char *data, size_t size)
{
	size_t n = size < form->size - 1 ? size : form->size - 1;
	const char *end = data + size, *start = end - n;

	while (start < end && (start = memchr(start, form->value[0], (size_t)(end - start)))) {
		if (memcmp(start, form->value, (size_t)(end - start)) == 0)
			return (size_t)(end - start);
		start++;
	}
	return 0;
}

int swap_filter(struct swap_filter *filter, const struct swap *swap, const char *host,
		const char *data, size_t size, struct buf *out)
{
	size_t start = out->used, n, begun = 0;
	char *held;
	int r;

	buf_add(out, filter->held, filter->n_held);
	buf_add(out, data, size);
	if ((r = buf_error(out)) < 0)
		return r;
	n = out->used - start;
	swap_hide(swap, host, out->data + start, n);
	for (size_t i = 0; swap && i < swap->n_forms; i++)
		if (streq(swap->forms[i].host, host)) {
			size_t here = count_begun(&swap->forms[i], out->data + start, n);

			begun = here > begun ? here : begun;
		}
	filter->n_held = 0;
	if (begun == 0)
		return 0;
	held = realloc(filter->held, begun);
	if (!held)
		return -ENOMEM;
	memcpy(held, out->data + out->used - begun, begun);
	filter->held = held;
	filter->n_held = begun;
	out->used -= begun;
	return 0;
}

void swap_filter_end(struct swap_filter *filter, struct buf *out)
{
	buf_add(out, filter->held, filter->n_held);
	filter->n_held = 0;
}

void swap_filter_done(struct swap_filter *filter)
{
	free(filter->held);
	*filter = (struct swap_filter){0};
}
