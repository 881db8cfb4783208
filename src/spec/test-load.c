/* SPDX-License-Identifier: Apache-2.0 */
/* What a job file may say; what it may not is in test/functional/bad-jobs.jsonl. */
#include "base/buf.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "base/test.h"
#include "spec/spec.h"

static void free_spec(struct spec **spec)
{
	spec_free(*spec);
}
#define cleanup_spec cleanup_with(free_spec)

static int load(struct spec *spec, const char *text, struct atoll_error *err)
{
	return spec_load(spec, "job.yaml", "/home/u/p/job.yaml", text, strlen(text), err);
}

/* A job from a file, finished. */
static struct spec *job(const char *text)
{
	struct spec *spec = spec_new("/home/u", "/home/u/p", NULL);
	struct atoll_error err = {0};

	CHECK(spec);
	if (load(spec, text, &err) < 0 || spec_finish(spec, &err) < 0) {
		spec_free(spec);
		test_fail(__FILE__, __LINE__, "%s", err.text);
	}
	return spec;
}

static const struct spec_rule *find(const struct spec *spec, enum spec_access access,
				    const char *path)
{
	for (size_t i = 0; i < spec->n_rules; i++)
		if (spec->rules[i].access == access && streq(spec->rules[i].path, path))
			return &spec->rules[i];
	return NULL;
}

static const char everything[] =
	"version: 1\n"
	"command: [npm, test, '']\n"
	"workspace: {path: ., mode: direct, cwd: sub/dir}\n"
	"root: layer\n"
	"checkpoints: every-step\n"
	"filesystem:\n"
	"  read: [/srv/data, data, ~/notes]\n"
	"  write: [/srv/out/]\n"
	"  hide: [.env*, /srv/data/private]\n"
	"  protect: [package.json]\n"
	"  sockets: [/run/user/1/bus]\n"
	"  accept-broad: [/srv]\n"
	"network: {mode: off, allow: [], deny: [], ask: false}\n"
	"identity: offline\n"
	"limits: {wall: 60, cpu: 5m, cpus: 1.5, memory: 512M, pids: 64,\n"
	"         disk: 1G, files: 1000, open-files: 256, output: \"1M\"}\n"
	"environment: {pass: [TERM], set: {A: b, EMPTY: \"\"}, descriptors: [5, 3]}\n"
	"isolation: {tier: process, accept-weaker: [memory]}\n"
	"approval: {mode: never}\n"
	"audit: {record: steps, output: keep}\n";

TEST(every_section_is_taken_in_with_its_line)
{
	cleanup_spec struct spec *spec = job(everything);

	CHECK_STR(spec->command[0], "npm");
	CHECK_STR(spec->command[2], "");
	CHECK(!spec->command[3]);
	CHECK_STR(spec->command_origin, "job.yaml:2");
	CHECK_STR(spec->workspace, "/home/u/p");
	CHECK_STR(spec->workspace_origin, "job.yaml:3");
	CHECK_INT(spec->workspace_mode, SPEC_WORKSPACE_DIRECT);
	CHECK_STR(spec->workspace_mode_origin, "job.yaml:3");
	CHECK(spec->root_is_layer && spec->checkpoints_every_step);
	CHECK_STR(spec->root_origin, "job.yaml:4");
	CHECK_STR(spec->checkpoints_origin, "job.yaml:5");
	CHECK_STR(spec->cwd, "/home/u/p/sub/dir");
	CHECK_STR(find(spec, SPEC_READ, "/srv/data")->origin, "job.yaml:7");
	CHECK(find(spec, SPEC_READ, "/home/u/p/data"));
	CHECK(find(spec, SPEC_READ, "/home/u/notes"));
	CHECK(find(spec, SPEC_WRITE, "/srv/out"));
	CHECK(find(spec, SPEC_HIDE, "/home/u/p/**/.env*")->is_pattern);
	CHECK(!find(spec, SPEC_HIDE, "/srv/data/private")->is_pattern);
	CHECK(find(spec, SPEC_PROTECT, "/home/u/p/package.json"));
	CHECK_STR(spec->sockets[0].text, "/run/user/1/bus");
	CHECK_STR(spec->accepted[0].text, "memory");
	CHECK_STR(spec->accepted[0].origin, "job.yaml:18");
}

TEST(limits_and_variables_are_taken_in)
{
	cleanup_spec struct spec *spec = job(everything);

	CHECK_INT(spec->limits[SPEC_WALL].value, 60000);
	CHECK_INT(spec->limits[SPEC_CPUS].value, 1500);
	CHECK_INT(spec->limits[SPEC_OUTPUT].value, 1 << 20);
	CHECK_STR(spec->limits[SPEC_OUTPUT].origin, "job.yaml:16");
	CHECK_INT(spec->n_variables, 3);
	CHECK_STR(spec->variables[0].name, "TERM");
	CHECK(!spec->variables[0].value);
	CHECK_STR(spec->variables[2].value, "");
	CHECK_INT(spec->n_descriptors, 2);
}

TEST(one_string_runs_in_a_shell)
{
	cleanup_spec struct spec *spec = job("command: make && make test\n");

	CHECK_STR(spec->command[0], "/bin/sh");
	CHECK_STR(spec->command[1], "-c");
	CHECK_STR(spec->command[2], "make && make test");
}

TEST(json_is_yaml)
{
	cleanup_spec struct spec *spec =
		job("{\"command\": [\"a\", \"\\u00e4\\/\"],\n\t\"limits\": {\"pids\": 16}}");

	CHECK_STR(spec->command[1], "\xc3\xa4/");
	CHECK_INT(spec->limits[SPEC_PIDS].value, 16);
}

TEST(empty_lists_and_sections_mean_nothing)
{
	cleanup_spec struct spec *bare = job("command: [a]\n");
	cleanup_spec struct spec *spec =
		job("command: [a]\nfilesystem: {read: [], hide: []}\nnetwork: {}\n"
		    "limits: {}\nenvironment: {pass: [], set: {}}\n");
	char one[65], two[65];

	CHECK(spec_digest(bare, one, NULL) == 0 && spec_digest(spec, two, NULL) == 0);
	CHECK_STR(one, two);
}

TEST(network_off_is_said_in_many_ways)
{
	spec_free(job("command: [a]\nnetwork: off\n"));
	spec_free(job("command: [a]\nnetwork: 'off'\n"));
	spec_free(job("command: [a]\nnetwork: {mode: off}\n"));
}

TEST(hosts_are_written_in_many_ways)
{
	cleanup_spec struct spec *spec = job("command: [a]\n"
					     "network:\n"
					     "  allow:\n"
					     "    - a.example:443,80\n"
					     "    - \"*.b.example\"\n"
					     "    - {host: c.example, ports: [22]}\n"
					     "    - host: d.example\n"
					     "      methods:\n"
					     "        - GET\n"
					     "  listen: [80, {port: 81}]\n");

	CHECK_INT(spec->network.n_allow, 4);
	CHECK_INT(spec->network.allow[0].n_ports, 2);
	CHECK_STR(spec->network.allow[3].origin, "job.yaml:7");
	CHECK_INT(spec->network.n_listen, 2);
	CHECK_INT(spec->identity, SPEC_ONLINE);
}

TEST(the_same_job_in_another_order_has_the_same_digest)
{
	cleanup_spec struct spec *one =
		job("version: 1\ncommand: [a, b]\n"
		    "filesystem: {read: [/srv/x, /srv/y], hide: ['*.key']}\n"
		    "limits: {memory: 1G, wall: 10m}\n"
		    "environment: {set: {B: \"2\", A: \"1\"}, pass: [TERM, B]}\n");
	cleanup_spec struct spec *two = job("{\"environment\": {\"pass\": [\"B\", \"TERM\"], "
					    "\"set\": {\"A\": \"1\", \"B\": \"2\"}},"
					    "\"limits\": {\"wall\": 600, \"memory\": \"1024M\"},\n"
					    "\"filesystem\": {\"hide\": [\"**/*.key\"], \"read\": "
					    "[\"/srv/y\", \"/srv//x/\", \"/srv/y\"]},"
					    "\"command\": [\"a\", \"b\"]}");
	cleanup_spec struct spec *other = job("command: [a, b]\n");
	char digests[3][65];

	CHECK(spec_digest(one, digests[0], NULL) == 0);
	CHECK(spec_digest(two, digests[1], NULL) == 0);
	CHECK(spec_digest(other, digests[2], NULL) == 0);
	CHECK_STR(digests[0], digests[1]);
	CHECK(!streq(digests[0], digests[2]));
}

TEST(how_things_are_written_is_part_of_the_digest)
{
	static const char *const texts[] = {
		"command: [a]\nworkspace: {mode: layer}\n",
		"command: [a]\nworkspace: {mode: direct}\n",
		"command: [a]\nworkspace: {mode: read-only}\n",
		"command: [a]\nworkspace: {mode: layer}\nroot: layer\n",
		"command: [a]\nworkspace: {mode: layer}\ncheckpoints: every-step\n",
	};
	char digests[ARRAY_SIZE(texts)][65];

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		cleanup_spec struct spec *spec = job(texts[i]);

		CHECK(spec_digest(spec, digests[i], NULL) == 0);
		for (size_t j = 0; j < i; j++)
			CHECK(!streq(digests[i], digests[j]));
	}
}

TEST(the_defaults_of_root_and_checkpoints_can_be_written_out)
{
	cleanup_spec struct spec *one = job("command: [a]\n");
	cleanup_spec struct spec *two = job("command: [a]\nroot: read-only\ncheckpoints: manual\n");
	char digests[2][65];

	CHECK(spec_digest(one, digests[0], NULL) == 0 && spec_digest(two, digests[1], NULL) == 0);
	CHECK_STR(digests[0], digests[1]);
	CHECK_STR(one->root_origin, "default");
	CHECK_STR(two->root_origin, "job.yaml:2");
}

TEST(the_canonical_form_tells_a_pattern_from_a_name)
{
	cleanup_spec struct spec *one = job("command: [a]\nfilesystem: {hide: ['/srv/*']}\n");
	cleanup_spec struct spec *two = job("command: [a]\nfilesystem: {hide: ['/srv/\\*']}\n");
	char digests[2][65];

	CHECK(spec_digest(one, digests[0], NULL) == 0);
	CHECK(spec_digest(two, digests[1], NULL) == 0);
	CHECK(!streq(digests[0], digests[1]));
}

TEST(the_job_file_is_protected_and_its_name_is_not_in_the_digest)
{
	const char text[] = "command: [a]\n";
	cleanup_spec struct spec *named = job(text);
	cleanup_spec struct spec *piped = spec_new("/home/u", "/home/u/p", NULL);
	char digests[2][65];

	CHECK(spec_load(piped, "-", NULL, text, strlen(text), NULL) == 0);
	CHECK(spec_finish(piped, NULL) == 0);
	CHECK(spec_is_protected(named, "/home/u/p/job.yaml"));
	CHECK(!spec_is_protected(piped, "/home/u/p/job.yaml"));
	CHECK(spec_digest(named, digests[0], NULL) == 0);
	CHECK(spec_digest(piped, digests[1], NULL) == 0);
	CHECK_STR(digests[0], digests[1]);
}

TEST(flags_override_and_add_to_the_file)
{
	cleanup_spec struct spec *spec = spec_new("/home/u", "/home/u/p", NULL);
	char *argv[] = {(char *)"c", NULL};

	CHECK(load(spec, everything, NULL) == 0);
	CHECK(spec_set_command(spec, argv, "--", NULL) == 0);
	CHECK(spec_set_workspace(spec, "../q", "--workspace", NULL) == 0);
	CHECK(spec_set_limit(spec, SPEC_MEMORY, "1G", "--memory", NULL) == 0);
	CHECK(spec_add_variable(spec, "A=c=d", "--env", NULL) == 0);
	CHECK(spec_finish(spec, NULL) == 0);
	CHECK_STR(spec->command[0], "c");
	CHECK_STR(spec->workspace, "/home/u/q");
	/* Relative paths of the file follow the workspace that the flag chose. */
	CHECK(find(spec, SPEC_READ, "/home/u/q/data"));
	CHECK_STR(spec->cwd, "/home/u/q/sub/dir");
	CHECK_STR(spec->limits[SPEC_MEMORY].origin, "--memory");
	CHECK_INT(spec->n_variables, 3);
	CHECK_STR(spec->variables[2].name, "A");
	CHECK_STR(spec->variables[2].value, "c=d");
}

TEST(errors_name_the_line_and_a_way_out)
{
	cleanup_spec struct spec *spec = spec_new("/home/u", "/home/u/p", NULL);
	struct atoll_error err = {0};

	CHECK(load(spec, "command: [a]\nfilesystem:\n  wirte: [b]\n", &err) < 0);
	CHECK_STR(err.text,
		  "job.yaml:3: unknown key 'wirte' in 'filesystem'; did you mean 'write'?");
	CHECK_INT(err.fault, ATOLL_FAULT_REQUEST);
	CHECK(load(spec, "command: [a]\nimage: b\n", &err) < 0);
	CHECK_STR(err.text, "job.yaml:2: 'image' is not yet available in this version");
	CHECK_INT(err.fault, ATOLL_FAULT_HOST);
}

TEST(the_text_for_the_command_keeps_secrets)
{
	cleanup_spec struct spec *spec =
		job("command: [a]\n"
		    "filesystem: {hide: [secret-plans], write: [/srv/o`ut]}\n"
		    "environment: {set: {TOKEN: hunter2}}\n");
	cleanup_buf struct buf json = BUF_INIT(1 << 20), text = BUF_INIT(1 << 20);

	CHECK(spec_explain_json(spec, &json, NULL) == 0);
	CHECK(spec_explain_text(spec, &text, NULL) == 0);
	CHECK(!strstr(json.data, "secret-plans") && !strstr(text.data, "secret-plans"));
	CHECK(!strstr(json.data, "/home/u/.ssh") && !strstr(text.data, "/home/u/.ssh"));
	CHECK(!strstr(json.data, "hunter2") && !strstr(text.data, "hunter2"));
	CHECK(strstr(json.data, "\"/srv/o`ut\"") && strstr(text.data, "- `/srv/o'ut`"));
	CHECK(strstr(json.data, "\"network\":\"off\"") && strstr(text.data, "## Network\n\nNone"));
}

/* What the command is told about a job. */
static struct buf told(const char *text, bool is_json)
{
	cleanup_spec struct spec *spec = job(text);
	struct buf out = BUF_INIT(1 << 20);

	CHECK((is_json ? spec_explain_json : spec_explain_text)(spec, &out, NULL) == 0);
	return out;
}

TEST(the_command_is_told_where_its_changes_go)
{
	cleanup_buf struct buf layer = told("command: [a]\nworkspace: {mode: layer}\n", false);
	cleanup_buf struct buf direct = told("command: [a]\nworkspace: {mode: direct}\n", false);
	cleanup_buf struct buf json = told("command: [a]\nworkspace: {mode: layer}\n", true);
	cleanup_buf struct buf other = told("command: [a]\nworkspace: {mode: direct}\n", true);

	CHECK(strstr(layer.data, "kept in a layer") && strstr(layer.data, "`atoll apply`"));
	CHECK(strstr(layer.data, "held back until the person names"));
	CHECK(!strstr(layer.data, "fails with EACCES"));
	CHECK(!strstr(direct.data, "layer") && strstr(direct.data, "fails with EACCES"));
	CHECK(strstr(json.data, "\"workspace_mode\":\"layer\""));
	CHECK(strstr(json.data, "\"protected_when\":\"apply\""));
	CHECK(strstr(other.data, "\"protected_when\":\"write\""));
}

TEST(the_command_is_told_that_the_root_vanishes)
{
	cleanup_buf struct buf plain = told("command: [a]\n", false);
	cleanup_buf struct buf layer = told("command: [a]\nroot: layer\n", false);
	cleanup_buf struct buf json =
		told("command: [a]\nroot: layer\ncheckpoints: every-step\n", true);

	CHECK(!strstr(plain.data, "System directories"));
	CHECK(strstr(layer.data, "System directories") && strstr(layer.data, "gone at the end"));
	CHECK(strstr(json.data, "\"root\":\"layer\",\"checkpoints\":\"every-step\""));
}

TEST(the_schema_is_there)
{
	CHECK(strstr(spec_schema, "https://json-schema.org/draft/2020-12/schema"));
	for (size_t i = 0; i < SPEC_LIMIT_COUNT; i++)
		CHECK(strstr(spec_schema, spec_limits[i].key));
}
