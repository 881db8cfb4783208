/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/audit.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * Writes logs, for tests of what checks them
 *
 *	write-log ID [sandbox|again] [WORD]...
 *	write-log many N        so many small logs, each closed, with ids of its own
 *
 *	N            so many events
 *	head         sign, and go on
 *	sync         the same, to the disk
 *	close        sign for the last time
 *	flush        write
 *	retry        the same until it works, with a line said and one read after each failure
 *	close-retry  close, in the same way
 *	wait         write, say "ready", and read a line
 *	forever      events and heads without end
 */

static struct audit_log *audit;
static struct atoll_error err;

static void check(int r)
{
	if (r >= 0)
		return;
	fprintf(stderr, "write-log: %s\n", err.text);
	exit(1);
}

static void event(unsigned i)
{
	struct json *json = audit_begin(audit, "exec", 0, 1);

	json_uint(json, "pid", 7 + i);
	json_uint(json, "parent", 1);
	json_str(json, "program", "sh");
	json_str(json, "path", "/usr/bin/\"odd\"\n\xff name");
	json_open(json, "argv", '[');
	json_str(json, NULL, "name");
	json_str(json, NULL, "--option=\xc3\xa4");
	json_close(json, ']');
	json_bool(json, "script", false);
	check(audit_commit(audit, &err));
	if (audit_pending(audit) > 256 << 10)
		check(audit_flush(audit, &err));
}

static void retry(bool is_close)
{
	while ((is_close ? audit_seal(audit, true, false, &err) : audit_flush(audit, &err)) < 0) {
		printf("%s\n", err.text);
		fflush(stdout);
		if (getchar() == EOF)
			exit(1);
	}
}

static void forever(void)
{
	for (unsigned i = 0;; i++) {
		event(i);
		if (i % 7 == 0)
			check(audit_flush(audit, &err));
		if (i % 50 == 0)
			check(audit_seal(audit, false, false, &err));
	}
}

static void word(const char *text)
{
	if (streq(text, "head") || streq(text, "sync"))
		check(audit_seal(audit, false, streq(text, "sync"), &err));
	else if (streq(text, "close"))
		check(audit_seal(audit, true, false, &err));
	else if (streq(text, "flush"))
		check(audit_flush(audit, &err));
	else if (streq(text, "retry"))
		retry(false);
	else if (streq(text, "close-retry"))
		retry(true);
	else if (streq(text, "forever"))
		forever();
	else if (streq(text, "wait")) {
		check(audit_flush(audit, &err));
		puts("ready");
		fflush(stdout);
		getchar();
	} else {
		unsigned n = (unsigned)atoi(text);

		for (unsigned i = 0; i < n; i++)
			event(i);
	}
}

static void many(unsigned n)
{
	char id[16];

	for (unsigned i = 0; i < n; i++) {
		unsigned number = (unsigned)getpid() * 4096 + i;

		for (int j = 0; j < 8; j++, number /= 26)
			id[j] = (char)('a' + number % 26);
		id[8] = '\0';
		check(audit_create(id, "run", NULL, &audit, &err));
		event(1);
		event(2);
		check(audit_seal(audit, true, false, &err));
		audit_close(audit);
	}
}

int main(int argc, char **argv)
{
	bool is_again = argc > 2 && streq(argv[2], "again"),
	     is_sandbox = argc > 2 && streq(argv[2], "sandbox");

	if (argc < 3)
		return 2;
	if (streq(argv[1], "many")) {
		many((unsigned)atoi(argv[2]));
		return 0;
	}
	check(is_again ? audit_reopen(argv[1], &audit, &err)
		       : audit_create(argv[1], is_sandbox ? "sandbox" : "run", NULL, &audit, &err));
	for (int i = is_again || is_sandbox ? 3 : 2; i < argc; i++)
		word(argv[i]);
	audit_close(audit);
	return 0;
}
