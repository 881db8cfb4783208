/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/test.h"
#include "nt/sddl.h"

#include <errno.h>
#include <stdlib.h>

#define cleanup_descriptor cleanup_with(nt_descriptor_done)

static const struct nt_sid cap = {.authority = 5, .n_subs = 5, .subs = {21, 1, 2, 3, 4}};

static struct nt_descriptor parsed(const char *sddl)
{
	struct nt_descriptor sd;

	CHECK_INT(nt_sddl_parse(sddl, &sd), 0);
	return sd;
}

static void check_text(const struct nt_descriptor *sd, const char *want)
{
	cleanup_free char *text = NULL;

	CHECK_INT(nt_sddl_text(sd, &text), 0);
	CHECK_STR(text, want);
}

TEST(added_entries_stand_in_canonical_order)
{
	cleanup_descriptor struct nt_descriptor sd =
		parsed("D:(A;;FR;;;BU)(D;ID;FW;;;WD)(A;ID;FA;;;SY)");

	CHECK_INT(nt_acl_add(&sd.dacl, NT_ACE_ALLOW, 3, NT_FILE_GENERIC_WRITE, &cap), 0);
	CHECK_INT(nt_acl_add(&sd.dacl, NT_ACE_DENY, 3, NT_DELETE, &cap), 0);
	CHECK(nt_acl_is_canonical(&sd.dacl));
	check_text(&sd, "D:(D;OICI;SD;;;S-1-5-21-1-2-3-4)(A;;FR;;;BU)"
			"(A;OICI;FW;;;S-1-5-21-1-2-3-4)(D;ID;FW;;;WD)(A;ID;FA;;;SY)");
}

TEST(a_grant_before_a_denial_is_not_canonical)
{
	cleanup_descriptor struct nt_descriptor sd = parsed("D:(A;;FR;;;BU)(D;;FW;;;WD)");

	CHECK(!nt_acl_is_canonical(&sd.dacl));
}

static void check_inherited(const char *parent, bool is_directory, const char *want)
{
	cleanup_descriptor struct nt_descriptor above = parsed(parent);
	cleanup_descriptor struct nt_descriptor sd = {.has_dacl = true};

	CHECK_INT(
		nt_acl_inherit(&above.dacl, is_directory, &nt_sid_system, &nt_sid_users, &sd.dacl),
		0);
	check_text(&sd, want);
}

TEST(files_inherit_entries_for_objects_without_their_inheritance_flags)
{
	check_inherited("D:(A;OICI;FR;;;BU)(A;CI;FW;;;BU)(A;OIIO;FX;;;BU)(A;;FA;;;SY)", false,
			"D:(A;ID;FR;;;BU)(A;ID;FX;;;BU)");
}

TEST(directories_hand_inherited_entries_on)
{
	check_inherited("D:(A;OICI;FR;;;BU)", true, "D:(A;OICIID;FR;;;BU)");
	check_inherited("D:(A;OI;FR;;;BU)", true, "D:(A;OIIOID;FR;;;BU)");
	check_inherited("D:(A;CIIO;FR;;;BU)", true, "D:(A;CIID;FR;;;BU)");
	check_inherited("D:(A;OICINP;FR;;;BU)", true, "D:(A;ID;FR;;;BU)");
	check_inherited("D:(A;OINP;FR;;;BU)", true, "D:");
}

TEST(creator_and_generic_entries_are_split_when_inherited)
{
	check_inherited("D:(A;OICIIO;GA;;;CO)", false, "D:(A;ID;FA;;;SY)");
	check_inherited("D:(A;OICIIO;GA;;;CO)", true, "D:(A;ID;FA;;;SY)(A;OICIIOID;GA;;;CO)");
	check_inherited("D:(A;CI;GR;;;CG)", true, "D:(A;ID;FR;;;BU)(A;CIIOID;GR;;;CG)");
}

TEST(lists_survive_their_binary_form)
{
	cleanup_descriptor struct nt_descriptor sd =
		parsed("D:P(D;OICI;SD;;;WD)(A;;0x1301bf;;;S-1-5-21-1-2-3-4)");
	struct nt_acl back;
	uint8_t bytes[256];
	size_t size = nt_acl_size(&sd.dacl);

	CHECK(size <= sizeof bytes);
	nt_acl_pack(&sd.dacl, bytes);
	CHECK_INT(nt_acl_unpack(bytes, sizeof bytes, &back), (int)size);
	CHECK_INT(back.n_aces, 2);
	CHECK_INT(back.aces[1].mask, 0x1301bf);
	CHECK(nt_sid_equal(&back.aces[1].sid, &cap));
	nt_acl_done(&back);
	for (size_t cut = 0; cut < size; cut++)
		CHECK_INT(nt_acl_unpack(bytes, cut, &back), -EINVAL);
}

TEST(entries_of_other_kinds_keep_their_bytes)
{
	/* An entry of type 9 (a condition) of 12 bytes, which the model does not understand. */
	static const uint8_t bytes[] = {2,  0, 20, 0, 1, 0, 0, 0, 9, 3,
					12, 0, 1,  2, 3, 4, 5, 6, 7, 8};
	uint8_t again[sizeof bytes];
	struct nt_acl acl, copy;

	CHECK_INT(nt_acl_unpack(bytes, sizeof bytes, &acl), sizeof bytes);
	CHECK_INT(nt_acl_copy(&acl, &copy), 0);
	nt_acl_done(&acl);
	CHECK_INT(nt_acl_size(&copy), sizeof bytes);
	nt_acl_pack(&copy, again);
	CHECK(memcmp(bytes, again, sizeof bytes) == 0);
	nt_acl_done(&copy);
}
