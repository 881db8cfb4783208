/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the model of Windows for access checks, for test_nt_model.py
 *
 * Each line of standard input is one case: SDDL, the desired rights in hexadecimal, and the SIDs of
 * the token, all separated by blanks. The first SID is the user. The answer is one line: "granted",
 * "denied", or "error" with the reason. Only one walk is made: Samba knows no restricted token.
 */
#include "nt/nt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUPS_MAX 16

static bool read_sid(const char *text, struct nt_sid *ret)
{
	return text && nt_sid_parse(text, strlen(text), ret) == (int)strlen(text);
}

static const char *answer(char *line)
{
	struct nt_group groups[GROUPS_MAX];
	struct nt_token token = {.groups = groups};
	struct nt_descriptor sd;
	char *rest = line;
	const char *sddl = strsep(&rest, " "), *rights = strsep(&rest, " ");
	int r;

	if (!rights || !read_sid(strsep(&rest, " "), &token.user.sid))
		return "error: line";
	while (rest && token.n_groups < GROUPS_MAX) {
		groups[token.n_groups] = (struct nt_group){0};
		if (!read_sid(strsep(&rest, " "), &groups[token.n_groups++].sid))
			return "error: SID";
	}
	if (nt_sddl_parse(sddl, &sd) < 0)
		return "error: SDDL";
	r = nt_access_check(&sd, &token, (uint32_t)strtoul(rights, NULL, 16));
	nt_descriptor_done(&sd);
	return r == 0 ? "granted" : r == -EACCES ? "denied" : "error: check";
}

int main(void)
{
	static char line[65536];

	while (fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = '\0';
		puts(answer(line));
	}
	return 0;
}
