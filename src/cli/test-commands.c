/* SPDX-License-Identifier: Apache-2.0 */
#include "base/test.h"
#include "cli/cli.h"

#include <atoll/error.h>

TEST(every_command_describes_itself)
{
	struct atoll_error err = {0};

	for (size_t i = 0; atoll_commands[i]; i++) {
		CHECK(atoll_commands[i]->name && atoll_commands[i]->usage &&
		      atoll_commands[i]->summary);
		CHECK(atoll_commands[i]->description && atoll_commands[i]->description[0]);
		CHECK(atoll_commands[i]->options && atoll_commands[i]->run);
		CHECK(find_command(atoll_commands[i]->name, &err) == atoll_commands[i]);
		for (const struct option *row = atoll_commands[i]->options; option_is_row(row);
		     row++)
			CHECK(row->help && row->id < 32);
	}
	CHECK(!find_command("rum", &err));
	CHECK_STR(err.text, "unknown command 'rum'; did you mean 'run'?");
}
