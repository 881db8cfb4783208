/* SPDX-License-Identifier: Apache-2.0 */
/* What a contract may say about the network, and what becomes of it. More mistakes are in
 * test/functional/bad-jobs.jsonl. */
#include "base/buf.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "base/test.h"
#include "spec/network-inner.h"

static void free_spec(struct spec **spec)
{
	spec_free(*spec);
}
#define cleanup_spec	cleanup_with(free_spec)
#define cleanup_network cleanup_with(network_done)

static struct spec *bare(void)
{
	char *argv[] = {(char *)"true", NULL};
	struct spec *spec = spec_new("/home/u", "/home/u/p", NULL);

	CHECK(spec && spec_set_command(spec, argv, "--", NULL) == 0);
	return spec;
}

static int load(struct spec *spec, const char *text, struct atoll_error *err)
{
	return spec_load(spec, "job.yaml", NULL, text, strlen(text), err);
}

static struct spec *job(const char *text)
{
	struct spec *spec = bare();
	struct atoll_error err = {0};

	if (load(spec, text, &err) < 0 || spec_finish(spec, &err) < 0) {
		spec_free(spec);
		test_fail(__FILE__, __LINE__, "%s", err.text);
	}
	return spec;
}

/* What a section is refused with. */
static const char *why(const char *text)
{
	static struct atoll_error err;
	cleanup_spec struct spec *spec = bare();

	err = (struct atoll_error){0};
	if (load(spec, text, &err) == 0 && spec_finish(spec, &err) == 0)
		return "";
	CHECK(starts_with(err.text, "job.yaml:") || starts_with(err.text, "--"));
	CHECK(!strchr(err.text, '\n'));
	return err.text;
}

static bool refused(const char *text, const char *part)
{
	if (strstr(why(text), part))
		return true;
	printf("# %s: '%s'\n", text, why(text));
	return false;
}

static const char everything[] =
	"network:\n"
	"  mode: rules\n"
	"  allow:\n"
	"    - PyPI.org.\n"
	"    - '*.pythonhosted.org:443'\n"
	"    - {host: '**.example.com', ports: [8443, 443], tls: off}\n"
	"    - {host: api.test, methods: [get], paths: [/v1/**], rate: 1M, bytes: 2G,\n"
	"       connections: 3, requests: 4}\n"
	"    - 10.0.0.0/8\n"
	"  deny: ['**:25', {host: bad.pythonhosted.org, ports: [443]}]\n"
	"  rate: 10M\n"
	"  bytes: 1024\n"
	"  connections: 50\n"
	"  requests: unlimited\n"
	"  ask: true\n"
	"  secrets:\n"
	"    - {name: KEY, host: API.test, header: X-Api-Key, from: 'file:~/key'}\n"
	"  listen: [8080, {port: 3000, host: 3001, names: [App.test., b.test, app.test]}]\n"
	"  proxy: false\n"
	"  upstream: http://proxy.test:3128/\n";

static void check_everything(const struct network *network)
{
	CHECK_INT(network->mode, NETWORK_RULES);
	CHECK_INT(network->n_allow, 5);
	CHECK_STR(network->allow[0].host, "pypi.org");
	CHECK_STR(network->allow[0].origin, "job.yaml:4");
	CHECK_INT(network->allow[0].n_ports, 0);
	CHECK_INT(network->allow[0].tls, NETWORK_TLS_PASS);
	CHECK_INT(network->allow[1].kind, NETWORK_BELOW);
	CHECK_STR(network->allow[1].domain, "pythonhosted.org");
	CHECK_INT(network->allow[2].kind, NETWORK_WITHIN);
	CHECK_INT(network->allow[2].ports[0], 443);
	CHECK_INT(network->allow[2].ports[1], 8443);
	CHECK_INT(network->allow[2].tls, NETWORK_TLS_OFF);
	CHECK_INT(network->allow[3].tls, NETWORK_TLS_INSPECT);
	CHECK_STR(network->allow[3].methods[0], "GET");
	CHECK_STR(network->allow[3].paths[0], "/v1/**");
	CHECK_INT(network->allow[3].limits.rate, 1 << 20);
	CHECK_INT(network->allow[3].limits.bytes, 1LL << 31);
	CHECK_INT(network->allow[3].limits.connections, 3);
	CHECK_INT(network->allow[3].limits.requests, 4);
	CHECK_INT(network->allow[4].kind, NETWORK_LITERAL);
	CHECK_INT(network->allow[4].prefix, 104);
	CHECK_INT(network->n_deny, 2);
	CHECK_INT(network->deny[0].kind, NETWORK_ANY);
	CHECK_INT(network->deny[0].ports[0], 25);
	CHECK_INT(network->limits.rate, 10 << 20);
	CHECK_INT(network->limits.bytes, 1024);
	CHECK_INT(network->limits.connections, 50);
	CHECK(network->limits.requests == SPEC_UNLIMITED);
	CHECK(network->asks && !network->has_proxy_variables);
	CHECK_STR(network->secrets[0].name, "KEY");
	CHECK_STR(network->secrets[0].host, "api.test");
	CHECK_STR(network->secrets[0].header, "x-api-key");
	CHECK_STR(network->secrets[0].origin, "job.yaml:17");
	CHECK_INT(network->listen[0].port, 8080);
	CHECK_INT(network->listen[0].host_port, 0);
	CHECK_INT(network->listen[1].host_port, 3001);
	CHECK_INT(network->listen[0].n_names, 0);
	CHECK_INT(network->listen[1].n_names, 2);
	CHECK_STR(network->listen[1].names[0], "app.test");
	CHECK_STR(network->upstream, "http://proxy.test:3128");
	CHECK(network_is_on(network) && network_inspects(network));
}

TEST(everything_is_taken_in)
{
	cleanup_spec struct spec *spec = job(everything);

	check_everything(&spec->network);
	CHECK_INT(spec->network.secrets[0].source, NETWORK_FROM_FILE);
	CHECK_STR(spec->network.secrets[0].from, "/home/u/key");
	CHECK_INT(spec->identity, SPEC_ONLINE);
}

TEST(egress_reads_what_was_written)
{
	cleanup_spec struct spec *spec = job(everything);
	cleanup_network struct network network;
	cleanup_buf struct buf text = BUF_INIT(1 << 20), again = BUF_INIT(1 << 20);
	struct atoll_error err = {0};

	network_init(&network);
	CHECK(network_write(&spec->network, &text, &err) == 0);
	CHECK(!strstr(text.data, "/home/u/key"));
	if (network_read(text.data, text.used, &network, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	check_everything(&network);
	CHECK(!network.secrets[0].from);
	CHECK(network_write(&network, &again, &err) == 0);
	CHECK_STR(again.data, text.data);
}

TEST(egress_doubts_what_it_reads)
{
	static const char *const bad[] = {
		"",
		"[]",
		"{",
		"off",
		"{\"mode\":\"on\"}",
		"{\"allow\":[\"a.test\"]}",
		"{\"mode\":\"rules\",\"allow\":[{\"host\":\"a b\"}]}",
		"{\"mode\":\"rules\",\"allow\":[{\"host\":\"a.test\",\"ports\":[0]}]}",
		"{\"mode\":\"rules\",\"allow\":[{\"host\":\"a.test\",\"ports\":[]}]}",
		"{\"mode\":\"rules\",\"allow\":[{\"host\":\"**\"}]}",
		"{\"mode\":\"rules\",\"allow\":[{}]}",
		"{\"mode\":\"rules\",\"allow\":[{\"host\":\"a.test\",\"x\":1}]}",
		"{\"mode\":\"off\",\"allow\":[{\"host\":\"a.test\"}]}",
		"{\"mode\":\"rules\",\"secrets\":[{\"name\":\"A\",\"host\":\"a.test\"}]}",
		"{\"secrets\":[{\"name\":\"A\",\"host\":\"a.test\",\"from\":\"env\"}]}",
		"{\"mode\":\"rules\",\"accept-broad\":[]}",
		"{\"mode\":\"rules\",\"listen\":[1023]}",
		"{\"mode\":\"rules\",\"mode\":\"open\"}",
	};
	static const char login[] = "{\"mode\":\"rules\",\"upstream\":\"http://u:p@h.test:1\"}";
	struct network network;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (network_read(bad[i], strlen(bad[i]), &network, NULL) >= 0)
			test_fail(__FILE__, __LINE__, "'%s' was taken", bad[i]);
	/* The password of a proxy that the caller's environment names. */
	CHECK(network_read(login, sizeof login - 1, &network, NULL) == 0);
	CHECK_STR(network.upstream, "http://u:p@h.test:1");
	network_done(&network);
}

TEST(flags_say_the_same)
{
	cleanup_spec struct spec *file = job(
		"network: {allow: [a.test, 'b.test:22,443', 'k.test'], deny: ['**:25'], rate: 1M, "
		"bytes: 2M, "
		"connections: 3, requests: 4, ask: true, listen: [80, {port: 81, host: 82, names: "
		"[b.test, a.test]}], "
		"secrets: [{name: K, host: k.test, header: X-Key}], proxy: false, upstream: "
		"env}\n");
	cleanup_spec struct spec *spec = bare();
	char one[65], two[65];

	CHECK(spec_add_allow(spec, "b.test:443,22", "--allow", NULL) == 0);
	CHECK(spec_add_allow(spec, "k.test", "--allow", NULL) == 0);
	CHECK(spec_add_allow(spec, "A.test", "--allow", NULL) == 0);
	CHECK(spec_add_allow(spec, "a.test:443", "--allow", NULL) == 0);
	CHECK(spec_add_deny(spec, "**:25", "--deny", NULL) == 0);
	CHECK(spec_add_deny(spec, "**:25", "--deny", NULL) == 0);
	CHECK(spec_set_rate(spec, "1M", "--rate", NULL) == 0);
	CHECK(spec_set_net_bytes(spec, "2M", "--net-bytes", NULL) == 0);
	CHECK(spec_set_connections(spec, "3", "--connections", NULL) == 0);
	CHECK(spec_set_requests(spec, "4", "--requests", NULL) == 0);
	CHECK(spec_set_ask(spec, "on", "--ask", NULL) == 0);
	CHECK(spec_add_listen(spec, "81=82/a.test,B.test", "--listen", NULL) == 0);
	CHECK(spec_add_listen(spec, "80", "--listen", NULL) == 0);
	CHECK(spec_add_secret(spec, "K=k.test/x-key", "--secret", NULL) == 0);
	CHECK(spec_set_proxy(spec, "off", "--proxy", NULL) == 0);
	CHECK(spec_set_upstream(spec, "env", "--upstream", NULL) == 0);
	CHECK(spec_finish(spec, NULL) == 0);
	CHECK_INT(spec->network.n_allow, 3);
	CHECK_INT(spec->network.n_deny, 1);
	CHECK(spec_digest(file, one, NULL) == 0 && spec_digest(spec, two, NULL) == 0);
	CHECK_STR(one, two);
}

TEST(off_by_a_flag_takes_away_what_the_file_asks_for)
{
	cleanup_spec struct spec *spec = bare(), *other = bare();
	struct atoll_error err = {0};

	CHECK(load(spec, everything, NULL) == 0 && load(other, everything, NULL) == 0);
	CHECK(spec_set_network_mode(spec, "off", "--net", NULL) == 0);
	CHECK(spec_finish(spec, &err) == 0);
	CHECK(!network_is_on(&spec->network) && spec->identity == SPEC_OFFLINE);
	CHECK(spec_set_network_mode(other, "off", "--net", NULL) == 0);
	CHECK(spec_add_allow(other, "a.test", "--allow", NULL) == 0);
	CHECK(spec_finish(other, &err) < 0);
	CHECK_STR(err.text, "--allow: 'allow' contradicts 'network: off' (--net); take one of them "
			    "away");
}

TEST(without_a_network_nothing_changes)
{
	cleanup_spec struct spec *without = job("identity: offline\n");
	cleanup_spec struct spec *off =
		job("network: {mode: off, deny: ['**'], rate: 1M, upstream: env}\n");
	cleanup_buf struct buf text = BUF_INIT(1 << 20);
	char one[65], two[65];

	CHECK(spec_digest(without, one, NULL) == 0 && spec_digest(off, two, NULL) == 0);
	CHECK_STR(one, two);
	CHECK(spec_canonical(without, &text, NULL) == 0);
	CHECK(strstr(text.data, "\"mode\":\"layer\",\"network\":\"off\",\"root\":\"read-only\","));
	CHECK(!network_is_on(&off->network) && !network_inspects(&off->network));
}

TEST(the_canonical_form_is_complete_and_has_no_order)
{
	cleanup_spec struct spec *one = job(
		"network: {allow: [{host: b.test, methods: [PUT, GET], paths: [/b, /a]}, a.test], "
		"deny: [d.test, c.test], listen: [2, 1]}\n");
	cleanup_spec struct spec *two =
		job("network:\n  listen: [1, 2]\n  deny: [c.test, D.test, c.test]\n"
		    "  allow: ['a.test:80,443', {paths: [/a, /b], methods: [get, put], "
		    "ports: [443, 80], host: b.test}]\n");
	cleanup_buf struct buf text = BUF_INIT(1 << 20), same = BUF_INIT(1 << 20);

	CHECK(spec_canonical(one, &text, NULL) == 0 && spec_canonical(two, &same, NULL) == 0);
	CHECK_STR(text.data, same.data);
	CHECK(strstr(
		text.data,
		"\"network\":{\"allow\":["
		"{\"bytes\":\"unlimited\",\"connections\":\"unlimited\",\"host\":\"a.test\","
		"\"methods\":\"all\",\"paths\":\"all\",\"ports\":[80,443],\"rate\":\"unlimited\","
		"\"requests\":\"unlimited\",\"tls\":\"pass\"},"
		"{\"bytes\":\"unlimited\",\"connections\":\"unlimited\",\"host\":\"b.test\","
		"\"methods\":[\"GET\",\"PUT\"],\"paths\":[\"/a\",\"/b\"],\"ports\":[80,443],"
		"\"rate\":\"unlimited\",\"requests\":\"unlimited\",\"tls\":\"inspect\"}],"
		"\"ask\":false,\"bytes\":\"unlimited\",\"connections\":\"unlimited\","
		"\"deny\":[{\"host\":\"c.test\",\"ports\":\"all\"},"
		"{\"host\":\"d.test\",\"ports\":\"all\"}],"
		"\"listen\":[{\"host\":\"any\",\"port\":1},{\"host\":\"any\",\"port\":2}],"
		"\"mode\":\"rules\",\"proxy\":true,\"rate\":\"unlimited\","
		"\"requests\":\"unlimited\",\"secrets\":[],\"upstream\":\"none\"},\"root\":"));
}

TEST(every_term_is_in_the_digest)
{
	static const char *const jobs[] = {
		"network: rules\n",
		"network: open\n",
		"network: {allow: [a.test]}\n",
		"network: {allow: ['*.a.test']}\n",
		"network: {allow: ['a.test:443']}\n",
		"network: {allow: [{host: a.test, tls: off}]}\n",
		"network: {allow: [{host: a.test, methods: [GET]}]}\n",
		"network: {allow: [{host: a.test, paths: [/GET]}]}\n",
		"network: {allow: [{host: a.test, rate: 1M}]}\n",
		"network: {allow: [{host: a.test, bytes: 1M}]}\n",
		"network: {allow: [{host: a.test, connections: 9}]}\n",
		"network: {allow: [{host: a.test, requests: 9}]}\n",
		"network: {allow: [a.test], deny: [b.test]}\n",
		"network: {allow: [a.test], deny: ['b.test:80']}\n",
		"network: {allow: [a.test], near: []}\n",
		"network: {allow: [a.test], near: [10.0.0.1]}\n",
		"network: {allow: [a.test], near: ['10.0.0.1:80']}\n",
		"network: {allow: [a.test], rate: 1M}\n",
		"network: {allow: [a.test], bytes: 1M}\n",
		"network: {allow: [a.test], connections: 9}\n",
		"network: {allow: [a.test], requests: 9}\n",
		"network: {allow: [a.test], ask: true}\n",
		"network: {allow: [a.test], proxy: false}\n",
		"network: {allow: [a.test], upstream: env}\n",
		"network: {allow: [a.test], upstream: 'http://p.test:1'}\n",
		"network: {allow: [a.test], listen: [1]}\n",
		"network: {allow: [a.test], listen: [{port: 1, host: 1}]}\n",
		"network: {allow: [a.test], listen: [{port: 1, names: [a.test]}]}\n",
		"network: {allow: [a.test], secrets: [{name: A, host: a.test}]}\n",
		"network: {allow: [a.test], secrets: [{name: B, host: a.test}]}\n",
		"network: {allow: [a.test], secrets: [{name: A, host: a.test, header: x}]}\n",
		"network: {allow: [a.test], secrets: [{name: A, host: a.test, from: 'env:B'}]}\n",
		"network: {allow: [a.test], secrets: [{name: A, host: a.test, from: 'file:/A'}]}\n",
		"network: {allow: [a.test], secrets: [{name: A, host: a.test, from: command:A}]}\n",
		"network: {allow: [a.test], secrets: [{name: A, host: a.test, from: secret:a}]}\n",
	};
	char digests[ARRAY_SIZE(jobs)][65];

	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++) {
		cleanup_spec struct spec *spec = job(jobs[i]);

		CHECK(spec_digest(spec, digests[i], NULL) == 0);
		for (size_t j = 0; j < i; j++)
			if (streq(digests[i], digests[j]))
				test_fail(__FILE__, __LINE__, "%s is as %s", jobs[i], jobs[j]);
	}
}

TEST(contradictions_are_told)
{
	CHECK_STR(why("network:\n  mode: off\n  allow: [a.test]\n"),
		  "job.yaml:3: 'allow' contradicts 'network: off' (job.yaml:2); take one of them "
		  "away");
	CHECK(refused("network: {mode: off, ask: true}\n", "'ask' contradicts"));
	CHECK(refused("network: {mode: off, listen: [80]}\n", "'listen' contradicts"));
	CHECK(refused("network: {mode: open, ask: true}\n", "nothing is left to ask about"));
	CHECK(refused("network: rules\nidentity: offline\n",
		      "job.yaml:2: identity 'offline' contradicts the network"));
	CHECK_STR(why("identity: online\n"), "");
	CHECK(refused("network: {listen: [80, 80]}\n", "port 80 is there already (job.yaml:1)"));
	CHECK(refused("network: {listen: [{port: 1, host: 9}, {port: 2, host: 9}]}\n",
		      "host port 9 is there already"));
	CHECK(refused("network: {listen: [1023]}\n", "atoll's own"));
	CHECK(refused("network: {listen: [{port: 1, names: ['*.a.test']}]}\n", "is no host name"));
}

TEST(two_lines_for_one_port_must_say_the_same)
{
	CHECK_STR(why("network: {allow: [a.test, a.test, 'a.test:443', 'a.test:22']}\n"), "");
	CHECK_STR(why("network: {allow: [a.test, {host: a.test, ports: [22], tls: off}]}\n"), "");
	CHECK(refused("network:\n  allow:\n    - a.test\n    - {host: a.test, methods: [GET]}\n",
		      "job.yaml:4: 'a.test' with port 80 is there already (job.yaml:3), with other "
		      "terms"));
	CHECK(refused(
		"network: {allow: [{host: a.test, rate: 1M}, {host: a.test, ports: [443], rate: "
		"1M}]}\n",
		"with other terms"));
}

TEST(tls_must_fit)
{
	CHECK(refused("network: {allow: [{host: a.test, methods: [GET], tls: pass}]}\n",
		      "'methods' contradicts 'tls: pass'"));
	CHECK(refused("network: {allow: [{host: a.test, paths: [/], tls: off}]}\n",
		      "'paths' contradicts 'tls: off'"));
	CHECK(refused("network: {allow: [{host: 10.0.0.1, methods: [GET]}]}\n", "at an address"));
	CHECK(refused("network: {allow: [{host: 10.0.0.1, tls: inspect}]}\n", "at an address"));
	CHECK_STR(why("network: {allow: [{host: 10.0.0.1, tls: off}]}\n"), "");
}

TEST(secrets_must_fit)
{
	static const char key[] = "secrets: [{name: K, host: a.test}]}\n";
	char text[512];
	static const char *const cases[][2] = {
		{"network: {", "which no line allows; add --allow a.test"},
		{"network: {mode: open, ", "which no line allows"},
		{"network: {allow: ['**.test'], ", "give the host a line of its own"},
		{"network: {allow: ['a.test:80'], ", "goes only over TLS"},
		{"network: {allow: [{host: a.test, tls: pass}], ", "says 'tls: pass'"},
		{"network: {allow: [{host: a.test, ports: [8443], tls: off}], ", "says 'tls: off'"},
		{"environment: {set: {K: x}}\nnetwork: {allow: [a.test], ",
		 "the variable 'K' is a secret (job.yaml:2)"},
		{"environment: {pass: [K]}\nnetwork: {allow: [a.test], ",
		 "only a placeholder goes inside"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		snprintf(text, sizeof text, "%s%s", cases[i][0], key);
		if (i == 2)
			snprintf(text, sizeof text,
				 "network: {accept-broad: ['**.test'], allow: ['**.test'], %s",
				 key);
		CHECK(refused(text, cases[i][1]));
	}
	CHECK(refused(
		"network: {allow: [a.test, b.test], secrets: [{name: K, host: a.test}, {name: K, "
		"host: b.test}]}\n",
		"the secret 'K' is there already"));
}

TEST(a_secret_opens_tls_only_where_it_goes)
{
	cleanup_spec struct spec *spec =
		job("network: {allow: [a.test, 'a.test:22', b.test, {host: '**.c.test'}], secrets: "
		    "[{name: K, host: a.test}]}\n");
	cleanup_spec struct spec *other =
		job("network: {allow: ['a.test:8443,80'], secrets: [{name: K, host: a.test}]}\n");

	CHECK_INT(spec->network.allow[0].tls, NETWORK_TLS_INSPECT);
	CHECK_INT(spec->network.allow[1].tls, NETWORK_TLS_PASS);
	CHECK_INT(spec->network.allow[2].tls, NETWORK_TLS_PASS);
	CHECK_INT(spec->network.allow[3].tls, NETWORK_TLS_PASS);
	CHECK_INT(other->network.allow[0].tls, NETWORK_TLS_INSPECT);
	CHECK_STR(spec->network.secrets[0].header, "authorization");
	CHECK_STR(spec->network.secrets[0].from, "K");
}

TEST(wide_patterns_must_be_asked_for_twice)
{
	CHECK(refused("network: {allow: ['*.com']}\n",
		      "job.yaml:1: allow '*.com' would open everything below 'com'"));
	CHECK(refused("network: {allow: ['**.Test']}\n", "add --accept-broad '**.test'"));
	CHECK_STR(why("network: {allow: ['**.Test'], accept-broad: ['**.TEST']}\n"), "");
	CHECK_STR(why("network: {allow: ['*.x.test', localhost], deny: ['**.com']}\n"), "");
	CHECK(refused("network: {allow: ['**.test'], accept-broad: ['*.test']}\n", "would open"));
	CHECK(refused("network: {accept-broad: [/etc]}\n", "is no wide pattern"));
	CHECK(refused("network: {allow: [128.0.0.0/1]}\n", "that many addresses"));
	CHECK(refused("network: {allow: ['**']}\n", "** alone stands only in 'deny'"));
}

static const char *widens(const char *text)
{
	static char found[256];
	cleanup_spec struct spec *spec = job(text);
	char *clause = spec_file_widens(spec);

	snprintf(found, sizeof found, "%s", clause ? clause : "");
	free(clause);
	return found;
}

TEST(a_network_widens)
{
	CHECK_STR(widens("network: off\n"), "");
	CHECK_STR(widens("network: rules\n"), "");
	CHECK_STR(widens("network: {mode: rules, deny: ['**'], rate: 1M, proxy: false}\n"), "");
	CHECK_STR(widens("network: open\n"), "network open (job.yaml:1)");
	CHECK_STR(widens("network: {allow: [a.test]}\n"), "network.allow a.test (job.yaml:1)");
	CHECK_STR(widens("network: {ask: true}\n"), "network.ask true (job.yaml:1)");
	CHECK_STR(widens("network: {listen: [8080]}\n"), "network.listen 8080 (job.yaml:1)");
	CHECK_STR(widens("network: {mode: rules, upstream: env}\n"),
		  "network.upstream env (job.yaml:1)");
	CHECK_STR(widens("identity: online\n"), "identity online (job.yaml:1)");
}

TEST(flags_that_open_do_not_make_a_file_suspect)
{
	cleanup_spec struct spec *spec = bare(), *other = bare();
	char *clause;

	CHECK(load(spec, "network: {deny: [x.test]}\n", NULL) == 0);
	CHECK(spec_add_allow(spec, "a.test", "--allow", NULL) == 0);
	CHECK(spec_finish(spec, NULL) == 0);
	CHECK(!spec_file_widens(spec));
	/* A secret for a host that the flag allows is the file's doing. */
	CHECK(load(other, "network: {secrets: [{name: K, host: a.test, from: 'command:id'}]}\n",
		   NULL) == 0);
	CHECK(spec_add_allow(other, "a.test", "--allow", NULL) == 0);
	CHECK(spec_finish(other, NULL) == 0);
	clause = spec_file_widens(other);
	CHECK_STR(clause, "network.secrets K (job.yaml:1)");
	free(clause);
}

TEST(the_command_learns_whom_it_may_talk_to)
{
	cleanup_spec struct spec *spec = job(everything);
	cleanup_buf struct buf json = BUF_INIT(1 << 20), text = BUF_INIT(1 << 20);

	CHECK(spec_explain_json(spec, &json, NULL) == 0);
	CHECK(spec_explain_text(spec, &text, NULL) == 0);
	CHECK(strstr(text.data, "- `pypi.org`, port 80, 443\n"));
	CHECK(strstr(text.data,
		     "- `api.test`, port 80, 443; only methods `GET`; only paths `/v1/**`; "
		     "at most 1 MiB a second; at most 2 GiB in all; at most 3 connections at "
		     "once; at most 4 requests a second; TLS is opened"));
	CHECK(strstr(text.data, "- `KEY`: in the header `x-api-key`, to `api.test` over TLS"));
	CHECK(strstr(text.data, "- 8080\n- 3000\n"));
	CHECK(strstr(text.data, "a person is asked"));
	CHECK(strstr(json.data, "\"placeholders\":[{\"variable\":\"KEY\",\"host\":\"api.test\","
				"\"header\":\"x-api-key\"}]"));
	CHECK(strstr(json.data, "\"published_ports\":[8080,3000]"));
	/* Neither where the secret is, nor who is denied. */
	CHECK(!strstr(json.data, "/home/u/key") && !strstr(text.data, "/home/u/key"));
	CHECK(!strstr(json.data, "bad.pythonhosted") && !strstr(text.data, "bad.pythonhosted"));
	CHECK(!strstr(text.data, "proxy.test") && !strstr(json.data, "proxy.test"));
}

TEST(a_password_of_a_proxy_is_never_shown)
{
	cleanup_spec struct spec *spec = bare();
	struct atoll_error err = {0};

	CHECK(spec_set_upstream(spec, "http://me:hunter2@p.test:1", "--upstream", &err) < 0);
	CHECK(!strstr(err.text, "hunter2"));
	CHECK(network_set_upstream(&spec->network, "http://me:hunter2@p test:1", true, "x", &err) <
	      0);
	CHECK(!strstr(err.text, "hunter2"));
}

TEST(lists_are_bounded)
{
	cleanup_spec struct spec *spec = bare();
	struct atoll_error err = {0};
	int r = 0;

	for (int i = 0; r == 0 && i < 600; i++) {
		char host[32];

		snprintf(host, sizeof host, "h%d.test", i);
		r = spec_add_allow(spec, host, "--allow", &err);
	}
	CHECK(r < 0 && strstr(err.text, "more than 512 lines"));
	for (int i = 1; i <= 16; i++) {
		char port[8];

		snprintf(port, sizeof port, "%d", i);
		CHECK(spec_add_listen(spec, port, "--listen", NULL) == 0);
	}
	CHECK(spec_add_listen(spec, "17", "--listen", &err) < 0);
}
