/* SPDX-License-Identifier: Apache-2.0 */
/* Answers are strangers' bytes in any spelling. Units stay within the text and keep their size when
 * they are written; a value does not survive, and what waits depends on nothing but the kinds of
 * bytes. */
#include "base/scope.h"
#include "egress/secret-screen.h"
#include "egress/unit.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_units(const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		struct unit unit, again;
		uint8_t text[UNIT_MAX];

		unit_read(data + i, data + size, -1, &unit);
		if (unit.size == 0 || unit.size > UNIT_MAX || unit.size > size - i)
			abort();
		memcpy(text, data + i, unit.size);
		unit_write(text, &unit, 'b');
		unit_read(text, text + unit.size, 'b', &again);
		if (unit.n_digits > 0 && unit.c >= ' ' &&
		    (again.size != unit.size || (again.c != 'b' && again.c != '*')))
			abort();
	}
}

/* Other letters in the place of letters, other digits in the place of digits. */
static void disguise(uint8_t *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (text[i] == 'a' || text[i] == 'b')
			text[i] = 'q';
		else if (text[i] >= '0' && text[i] <= '9')
			text[i] = '7';
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_free char *text = malloc(size + 1), *other = malloc(size + 1);
	struct screen screen = {0};

	if (!text || !other || size > 1 << 16 || sodium_init() < 0)
		return 0;
	if (screen_add_value(&screen, "ab%1ab0/b", "xy%9yy9/x", 9) < 0)
		abort();
	fuzz_units(data, size);
	memcpy(text, data, size);
	memcpy(other, data, size);
	disguise((uint8_t *)other, size);
	if (screen_tail(&screen, text, size) != screen_tail(&screen, other, size))
		abort();
	screen_hide(&screen, text, size);
	if (memmem(text, size, "ab%1ab0/b", 9) || memmem(text, size, "616225316162302f62", 18))
		abort();
	screen_done(&screen);
	return 0;
}
