/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Secrets in arguments and addresses
 *
 * A value is a secret because of its name (redact-names.c) or its form (redact-forms.c). The value
 * of "password=" is always a secret; that of "key=" only if it looks random. Services give their
 * tokens a known beginning, so that they can be found. redact.c scans a text once and asks both.
 */

enum redact_telling {
	REDACT_PLAIN,  /* the name does not name a secret */
	REDACT_MAYBE,  /* a secret if the value looks random */
	REDACT_SECRET, /* a secret, whatever the value is */
};

static inline bool redact_is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '-';
}
