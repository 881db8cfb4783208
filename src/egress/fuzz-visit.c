/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a visitor of a published port says first: there is an answer, it does not depend on how
 * the bytes are cut, what was clear once stays so, and no request whose Host is readable and
 * somebody else's passes. */
#include "egress/visit.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct visit_names names = {"box.corp.test", NULL, 0};

static bool is_final(enum visit visit)
{
	return visit == VISIT_PASS || visit == VISIT_REFUSE;
}

/* The strict reader of whole requests agrees with what passes. */
static void compare(const char *text, size_t size)
{
	static struct http_head head;
	const char *why;

	if (http_read_request(text, size, &head, &why) != HTTP_OK || head.form != HTTP_ORIGIN ||
	    !head.has_host || !head.host.name[0])
		return;
	if (!host_name_is_local(head.host.name, names.own))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct visit_refusal refusal = {0}, part = {0};
	size_t half;
	enum visit whole, first;

	if (size > HTTP_HEAD_MAX)
		size = HTTP_HEAD_MAX;
	half = size ? data[size - 1] % (size + 1) : 0;
	whole = visit_read(text, size, &names, &refusal);
	first = visit_read(text, half, &names, &part);
	if (is_final(first) && (first != whole || part.status != refusal.status))
		abort();
	if (whole == VISIT_REFUSE && (!refusal.status || !refusal.why))
		abort();
	if (size == HTTP_HEAD_MAX && (whole == VISIT_LINE || whole == VISIT_HEAD))
		abort();
	if (whole == VISIT_PASS)
		compare(text, size);
	visit_read_on(text, size, &refusal);
	return 0;
}
