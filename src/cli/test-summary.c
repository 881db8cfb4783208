/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/test.h"
#include "cli/summary.h"

#include <atoll/atoll.h>

static struct atoll_result result;

static void check_text(const char *here, const char *want)
{
	cleanup_free char *have = NULL;
	size_t size;
	FILE *out = open_memstream(&have, &size);

	summary_text(&result, here, out);
	fclose(out);
	CHECK_STR(have, want);
}

static void deny(const char *action, const char *path, const char *rule, int count)
{
	struct atoll_denial *denial = &result.denials[result.n_denials++];

	snprintf(denial->action, sizeof denial->action, "%s", action);
	snprintf(denial->path, sizeof denial->path, "%s", path);
	snprintf(denial->rule, sizeof denial->rule, "%s", rule);
	denial->count = count;
}

TEST(a_plain_end_is_not_commented_on)
{
	result = (struct atoll_result){.end = ATOLL_EXITED, .code = 3};
	check_text("/w", "");
}

TEST(denials_are_told_with_their_rule)
{
	result = (struct atoll_result){0};
	deny("create", "/w/.git/hooks/pre-commit", "git hooks", 1);
	deny("connect", "/run/x\033.sock", "sockets", 3);
	deny("write", "/work", "protect /work", 1);
	deny("write", "/w/shared", "owner", 1);
	deny("read", "/home/x", "not granted", 1);
	check_text("/w", "atoll: refused 7 actions:\n"
			 "  create .git/hooks/pre-commit: protected (git hooks)\n"
			 "  connect /run/x\\x1b.sock: not allowed (sockets), 3 times\n"
			 "  write /work: protected (protect /work)\n"
			 "  write shared: the owner has no id in the layer (owner)\n"
			 "  read /home/x: outside the sandbox\n");
}

TEST(ten_denials_are_shown_and_the_rest_counted)
{
	cleanup_free char *have = NULL;
	size_t size;
	FILE *out = open_memstream(&have, &size);

	result = (struct atoll_result){0};
	for (int i = 0; i < ATOLL_DENIALS_MAX; i++)
		deny("create", "/w/x", "git hooks", 1);
	result.n_denials = 1000;
	summary_text(&result, NULL, out);
	fclose(out);
	CHECK(strstr(have, "atoll: refused 1000 actions:\n"));
	CHECK(strstr(have, "\n  and 990 more\n"));
}

TEST(a_limit_is_named_with_its_value)
{
	result = (struct atoll_result){
		.end = ATOLL_TIMED_OUT, .limit = "wall", .limit_value = 90000};
	check_text("/w", "atoll: stopped at the time limit of 90 s (--timeout)\n");
	result.limit_value = 600000;
	check_text("/w", "atoll: stopped at the time limit of 10 min (--timeout)\n");
	result = (struct atoll_result){
		.end = ATOLL_OUT_OF_MEMORY, .limit = "memory", .limit_value = UINT64_C(4) << 30};
	check_text("/w", "atoll: stopped at the memory limit of 4 GiB (--memory)\n");
	result.limit_used = (UINT64_C(4) << 30) + (100 << 20);
	check_text("/w", "atoll: stopped at the memory limit of 4 GiB (--memory); peak 4.10 GiB\n");
	result = (struct atoll_result){.end = ATOLL_OVER_LIMIT,
				       .limit = "disk",
				       .limit_value = 8 << 20,
				       .limit_used = 1000,
				       .limit_note = "less than 1024 MiB were left free at /w"};
	check_text("/w", "atoll: stopped at the disk limit of 8 MiB (--disk); used 1000 bytes; "
			 "less than 1024 MiB were left free at /w\n");
	result = (struct atoll_result){
		.end = ATOLL_OVER_LIMIT, .limit = "output", .limit_value = 1000};
	check_text("/w", "atoll: stopped at the output limit of 1000 bytes (--output)\n");
}

TEST(the_result_is_one_line_of_json)
{
	cleanup_free char *have = NULL;
	size_t size;
	FILE *out = open_memstream(&have, &size);

	result = (struct atoll_result){.end = ATOLL_EXITED, .code = 3, .wall_ns = 5};
	result.usage[ATOLL_MEMORY] = (struct atoll_usage){7, 9};
	result.usage[ATOLL_DISK] = (struct atoll_usage){1, ATOLL_UNLIMITED};
	deny("create", "/w/a\nb\"", "git hooks", 1);
	summary_json(&result, "abc", out);
	fclose(out);
	CHECK_STR(have,
		  "{\"status\":3,\"end\":\"exited\",\"code\":3,\"limit\":null,\"wall_ns\":5,"
		  "\"cpu_ns\":0,\"peak_memory\":0,\"output_bytes\":0,"
		  "\"usage\":{\"wall\":{\"used\":0,\"limit\":0},"
		  "\"cpu\":{\"used\":0,\"limit\":0},\"memory\":{\"used\":7,\"limit\":9},"
		  "\"pids\":{\"used\":0,\"limit\":0},\"disk\":{\"used\":1,\"limit\":null},"
		  "\"files\":{\"used\":0,\"limit\":0},\"output\":{\"used\":0,\"limit\":0}},"
		  "\"contract\":\"abc\",\"run\":null,\"record_note\":null,"
		  "\"stopped_by\":null,\"n_flags\":0,\"flags\":[],\"events_note\":null,"
		  "\"n_denials\":1,\"denials\":[{\"action\":\"create\","
		  "\"path\":\"/w/a\\nb\\\"\",\"rule\":\"git hooks\",\"program\":\"\",\"pid\":0,"
		  "\"count\":1,\"allow\":null}],\"network_note\":null,\"published\":[],\"n_"
		  "connections\":0,"
		  "\"connections\":[],\"record\":null,\"changes\":{\"added\":0,\"changed\":0,"
		  "\"deleted\":0,\"marked\":0,\"conflicts\":0},\"layer_note\":null,"
		  "\"applied\":null}\n");
}

static void talk(const char *name, const char *address, unsigned port, int verdict,
		 const char *rule, const char *reason, unsigned count)
{
	struct atoll_connection *one = &result.connections[result.n_connections++];

	*one = (struct atoll_connection){
		.port = (uint16_t)port, .verdict = verdict, .count = count, .sent = 300};
	one->received = verdict == ATOLL_CONN_ALLOWED ? 5 << 20 : 0;
	snprintf(one->name, sizeof one->name, "%s", name);
	snprintf(one->address, sizeof one->address, "%s", address);
	snprintf(one->rule, sizeof one->rule, "%s", rule);
	snprintf(one->reason, sizeof one->reason, "%s", reason);
}

TEST(who_was_talked_to_and_refused_is_a_table)
{
	result = (struct atoll_result){0};
	talk("pypi.org", "192.0.2.1", 443, ATOLL_CONN_ALLOWED, "allow pypi.org", "", 2);
	talk("evil\033.test", "", 443, ATOLL_CONN_REFUSED, "", "", 3);
	talk("git.test", "", 22, ATOLL_CONN_REFUSED, "", "not allowed", 1);
	talk("", "2001:db8::1", 5432, ATOLL_CONN_REFUSED, "", "not allowed", 1);
	talk("x.test", "", 443, ATOLL_CONN_REFUSED, "deny x.test (--deny)", "denied", 1);
	talk("down.test", "", 80, ATOLL_CONN_FAILED, "allow down.test", "Connection refused", 1);
	snprintf(result.network_note, sizeof result.network_note, "it ended");
	check_text("/w",
		   "atoll: connections:\n"
		   "  pypi.org:443                               2 connections      300 B out    "
		   "5.0 MiB in\n"
		   "atoll: could not make 1 connection:\n"
		   "  down.test:80: Connection refused\n"
		   "atoll: refused 6 connections:\n"
		   "  evil\\x1b.test:443: not allowed, 3 times; --allow evil\\x1b.test\n"
		   "  git.test:22: not allowed; --allow git.test:22\n"
		   "  [2001:db8::1]:5432: not allowed; --allow [2001:db8::1]:5432\n"
		   "  x.test:443: denied (deny x.test (--deny))\n"
		   "atoll: it ended\n");
}

TEST(connections_are_in_the_json)
{
	cleanup_free char *have = NULL;
	size_t size;
	FILE *out = open_memstream(&have, &size);

	result = (struct atoll_result){.end = ATOLL_EXITED, .n_published = 1};
	result.published[0] = (struct atoll_published){8080, 43211};
	talk("pypi.org", "192.0.2.1", 443, ATOLL_CONN_ALLOWED, "allow pypi.org", "", 2);
	summary_json(&result, NULL, out);
	fclose(out);
	CHECK(strstr(have, "\"published\":[{\"port\":8080,\"host_port\":43211}]"));
	CHECK(strstr(have, "\"connections\":[{\"name\":\"pypi.org\",\"address\":\"192.0.2.1\","
			   "\"port\":443,\"verdict\":\"allowed\",\"rule\":\"allow pypi.org\","
			   "\"reason\":null,\"request\":null,"));
}
