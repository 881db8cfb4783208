/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/test.h"
#include "nt/sddl.h"

#include <errno.h>
#include <stdlib.h>

static void check_round_trip(const char *sddl)
{
	cleanup_with(nt_descriptor_done) struct nt_descriptor sd, back;
	cleanup_free char *text = NULL, *again = NULL;
	cleanup_free uint8_t *bytes = NULL;
	int size;

	CHECK_INT(nt_sddl_parse(sddl, &sd), 0);
	CHECK_INT(nt_sddl_text(&sd, &text), 0);
	CHECK_STR(text, sddl);
	size = nt_descriptor_pack(&sd, &bytes);
	CHECK(size >= 20);
	CHECK_INT(nt_descriptor_unpack(bytes, (size_t)size, &back), 0);
	CHECK_INT(nt_sddl_text(&back, &again), 0);
	CHECK_STR(again, sddl);
}

TEST(sddl_text_and_bytes_lead_back_to_the_same_descriptor)
{
	check_round_trip("");
	check_round_trip("D:");
	check_round_trip("O:BAG:SYD:PAI(A;OICI;FA;;;BA)(A;;0x1200a9;;;BU)");
	check_round_trip("O:S-1-5-21-1-2-3-1001D:NO_ACCESS_CONTROL");
	check_round_trip("D:(D;CINPIOID;SD;;;WD)S:AI(AU;SAFA;GA;;;AN)");
}

static void check_result(const char *sddl, int want)
{
	struct nt_descriptor sd;

	CHECK_INT(nt_sddl_parse(sddl, &sd), want);
}

TEST(sddl_reader_refuses_what_the_model_does_not_know)
{
	check_result("D:(XA;;FR;;;WD;(@User.clearance > 1))", -ENOTSUP);
	check_result("D:(OA;;CR;;;WD)", -ENOTSUP);
	check_result("D:(A;;FR;00000000-0000-0000-0000-000000000000;;WD)", -ENOTSUP);
	check_result("S:(ML;;NW;;;LW)", -ENOTSUP);
	check_result("D:(A;;FR;;;DA)", -ENOTSUP);
}

TEST(sddl_reader_refuses_broken_texts)
{
	static const char *const bad[] = {"X",
					  "D",
					  "D:(",
					  "D:()",
					  "D:(A;;FR;;;WD",
					  "D:(A;XX;FR;;;WD)",
					  "D:(A;;ZZ;;;WD)",
					  "D:(A;;0x1ffffffff;;;WD)",
					  "D:(A;;0x;;;WD)",
					  "O:BAO:BA",
					  "D:D:",
					  "D:NO_ACCESS_CONTROL(A;;FR;;;WD)",
					  "O:",
					  "D:(A;;FR;;;WD)x"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		check_result(bad[i], -EINVAL);
}

TEST(descriptor_bytes_with_offsets_outside_are_refused)
{
	cleanup_with(nt_descriptor_done) struct nt_descriptor sd, back;
	cleanup_free uint8_t *bytes = NULL;
	int size;

	CHECK_INT(nt_sddl_parse("O:BAG:SYD:(A;;FA;;;BA)", &sd), 0);
	size = nt_descriptor_pack(&sd, &bytes);
	for (int cut = 0; cut < size; cut++) {
		CHECK_INT(nt_descriptor_unpack(bytes, (size_t)cut, &back), -EINVAL);
	}
	bytes[4] = 3; /* the owner would lie in the header */
	CHECK_INT(nt_descriptor_unpack(bytes, (size_t)size, &back), -EINVAL);
}
