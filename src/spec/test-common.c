/* SPDX-License-Identifier: Apache-2.0 */
#include "base/test.h"
#include "spec/common.h"

TEST(system_places_are_common_and_nothing_near_them)
{
	CHECK(common_has("/usr"));
	CHECK(common_has("/usr/bin/python3"));
	CHECK(common_has("/bin/sh"));
	CHECK(common_has("/lib64/ld-linux-x86-64.so.2"));
	CHECK(common_has("/nix/store/x"));
	CHECK(common_has("/dev/null"));
	CHECK(!common_has("/dev/nullx"));
	CHECK(!common_has("/dev/tty"));
	CHECK(!common_has("/usrx"));
	CHECK(!common_has("/etc/passwd"));
	CHECK(!common_has("/nix"));
	CHECK(!common_has("/"));
	CHECK(!common_has("usr/bin"));
}

TEST(dots_lead_out_of_a_common_place)
{
	CHECK(!common_has("/usr/.."));
	CHECK(!common_has("/usr/../etc/shadow"));
	CHECK(!common_has("/usr/lib/x/../../../etc"));
	CHECK(common_has("/usr/lib/..x/y"));
	CHECK(common_has("/usr/lib/x.."));
}

TEST(relative_targets_begin_at_the_directory_of_the_link)
{
	CHECK(common_has_target("/home/me/work", "/usr/bin/env"));
	CHECK(common_has_target("/home/me/work", "../../../usr/bin/env"));
	CHECK(common_has_target("/home/me/work", "../../../../../usr/bin/env"));
	CHECK(!common_has_target("/home/me/work", "../../usr/bin/env"));
	CHECK(!common_has_target("/home/me/work", "../../../usr/../etc/shadow"));
	CHECK(!common_has_target("/home/me/work", "x/../../../../usr/bin/env"));
	CHECK(!common_has_target("/home/me/work", "usr/bin/env"));
	CHECK(!common_has_target("/home/me/work", ""));
	CHECK(common_has_target("/usr/src/work", "f"));
}
