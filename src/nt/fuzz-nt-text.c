/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that a person or a stranger's program wrote: paths, SDDL, command lines, frames. A path
 * that is accepted has one form, which is read as itself; SDDL that is read is written and read as
 * the same; a command line that is split gives arguments that come back. */
#include "base/scope.h"
#include "nt/command-line.h"
#include "nt/frame.h"
#include "nt/nt-path.h"
#include "nt/sddl.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_path(const char *text)
{
	static char once[32768], twice[32768];

	if (nt_path_read(text, once, sizeof once) != NT_PATH_OK)
		return;
	if (nt_path_read(once, twice, sizeof twice) != NT_PATH_OK || strcmp(once, twice) != 0)
		abort();
	if (!nt_path_is_within(once, once) || !nt_path_equal(once, twice))
		abort();
}

static void check_sddl(const char *text)
{
	cleanup_with(nt_descriptor_done) struct nt_descriptor sd, back;
	cleanup_free char *once = NULL, *twice = NULL;

	nt_descriptor_init(&back);
	if (nt_sddl_parse(text, &sd) < 0 || nt_sddl_text(&sd, &once) < 0)
		return;
	if (nt_sddl_parse(once, &back) < 0 || nt_sddl_text(&back, &twice) < 0 ||
	    strcmp(once, twice) != 0)
		abort();
}

static void check_command(const char *text)
{
	cleanup_free char **argv = NULL, **again = NULL;
	cleanup_free char *line = NULL;
	int n = nt_command_split(text, &argv);

	if (n < 0 || nt_command_line((const char *const *)argv, &line) < 0)
		return;
	if (nt_command_split(line, &again) != n)
		abort();
	for (int i = 0; i < n; i++)
		if (strcmp(argv[i], again[i]) != 0)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_free char *text = malloc(size + 1);
	struct nt_frame frame;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	check_path(text);
	check_sddl(text);
	check_command(text);
	if (nt_frame_read(data, size, &frame) > (int)size)
		abort();
	return 0;
}
