/* SPDX-License-Identifier: Apache-2.0 */
/* Security descriptors come from files that strangers made. Whatever the bytes are: a descriptor
 * that is read is written and read again as the same, and its text, if it has one, too. */
#include "base/scope.h"
#include "nt/access-check.h"
#include "nt/sddl.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const struct nt_descriptor *sd)
{
	cleanup_with(nt_descriptor_done) struct nt_descriptor back;
	cleanup_free char *text = NULL, *again = NULL;

	nt_descriptor_init(&back);
	if (nt_sddl_text(sd, &text) < 0)
		return;
	if (nt_sddl_parse(text, &back) < 0 || nt_sddl_text(&back, &again) < 0 ||
	    strcmp(text, again) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_with(nt_descriptor_done) struct nt_descriptor sd, back;
	cleanup_free uint8_t *bytes = NULL, *again = NULL;
	const struct nt_token token = {.user = {.sid = nt_sid_users}};
	int n, m;

	nt_descriptor_init(&back);
	if (nt_descriptor_unpack(data, size, &sd) < 0)
		return 0;
	nt_access_maximum(&sd, &token);
	n = nt_descriptor_pack(&sd, &bytes);
	if (n < 0)
		return 0;
	if (nt_descriptor_unpack(bytes, (size_t)n, &back) < 0)
		abort();
	m = nt_descriptor_pack(&back, &again);
	if (m != n || memcmp(bytes, again, (size_t)n) != 0)
		abort();
	check_text(&sd);
	return 0;
}
