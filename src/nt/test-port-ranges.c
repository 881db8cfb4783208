/* SPDX-License-Identifier: Apache-2.0 */
#include "base/test.h"
#include "nt/port-ranges.h"

#include <errno.h>

static void check_ranges(const uint16_t *ports, size_t n, const char *want)
{
	char text[128];

	CHECK_INT(nt_port_complement(ports, n, text, sizeof text), (int)strlen(want));
	CHECK_STR(text, want);
}

TEST(every_port_but_the_given_ones_is_named)
{
	check_ranges(NULL, 0, "1-65535");
	check_ranges((const uint16_t[]){3128}, 1, "1-3127,3129-65535");
	check_ranges((const uint16_t[]){65535, 1, 3, 3, 0}, 5, "2,4-65534");
}

TEST(a_text_that_does_not_fit_is_an_error)
{
	char text[8];

	CHECK_INT(nt_port_complement((const uint16_t[]){9}, 1, text, sizeof text), -E2BIG);
}
