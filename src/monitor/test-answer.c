/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/test.h"
#include "monitor/monitor.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

static const struct batch asked = {.n = 5, .first = 10, .last = 14};

/* What a service says, with this as the model's words. */
static char *completion(const char *content)
{
	json_t *map = json_pack("{s:[{s:{s:s,s:s}}]}", "choices", "message", "role", "assistant",
				"content", content);
	char *text = json_dumps(map, 0);

	json_decref(map);
	return text;
}

static int read_content(const char *content, struct monitor_answer *ret)
{
	cleanup_free char *text = completion(content);
	const char *problem;

	return answer_read(text, strlen(text), &asked, ret, &problem);
}

TEST(each_verdict_is_understood)
{
	static const char *const words[RULE_VERDICTS] = {"allow", "flag", "ask", "pause", "kill"};

	for (int i = 0; i < RULE_VERDICTS; i++) {
		struct monitor_answer answer;
		char text[100];

		snprintf(text, sizeof text,
			 "{\"verdict\":\"%s\",\"why\":\"x\\ny\",\"about\":[10,14]}", words[i]);
		CHECK(read_content(text, &answer) == 0);
		CHECK_INT(answer.verdict, i);
		CHECK_STR(answer.why, "x\\x0ay");
		CHECK_INT(answer.n_about, 2);
		CHECK(answer.about[1] == 14 && answer.last == 14 && !answer.is_failure);
	}
}

TEST(what_makes_no_sense_is_no_answer)
{
	static const char *const contents[] = {
		"",
		"ok",
		"[]",
		"{}",
		"{\"verdict\":\"off\"}",
		"{\"verdict\":\"Kill\"}",
		"{\"verdict\":1}",
		"{\"verdict\":\"allow\",\"verdict\":\"kill\"}",
		"```json\n{\"verdict\":\"allow\"}\n```",
		"{\"verdict\":\"allow\"} and more",
		"{\"verdict\":\"flag\",\"about\":[9]}",
		"{\"verdict\":\"flag\",\"about\":[15]}",
		"{\"verdict\":\"flag\",\"about\":[\"10\"]}",
		"{\"verdict\":\"flag\",\"about\":10}",
	};
	static const char *const bodies[] = {"",
					     "x",
					     "{}",
					     "[]",
					     "{\"choices\":[]}",
					     "{\"choices\":[{\"message\":{}}]}",
					     "{\"choices\":[{\"message\":{\"content\":null}}]}",
					     "{\"error\":{\"message\":\"quota\"}}"};
	struct monitor_answer answer;
	const char *problem;

	for (size_t i = 0; i < ARRAY_SIZE(contents); i++)
		CHECK_INT(read_content(contents[i], &answer), -EBADMSG);
	for (size_t i = 0; i < ARRAY_SIZE(bodies); i++)
		CHECK_INT(answer_read(bodies[i], strlen(bodies[i]), &asked, &answer, &problem),
			  -EBADMSG);
}

TEST(a_question_hands_events_over_as_a_quoted_text)
{
	struct monitor_config config = {.model = (char[]){"m\"x"}, .batch = 10};
	static const char line[] =
		"{\"prev\":\"0000000000000000000000000000000000000000000000000000000000000000\","
		"\"seq\":7,\"kind\":\"exec\",\"argv\":[\"a\\\"\\udcff\\n\"]}";
	struct batch batch = {0};
	cleanup_free char *body = NULL;
	json_t *map, *messages;

	CHECK(batch_add(&batch, line, sizeof line - 1));
	CHECK(batch_add(&batch, "{\"kind\":\"lost\",\"count\":3}", 25));
	CHECK(batch.n == 2 && batch.first == 7 && batch.last == 7);
	body = question_body(&config, &batch);
	map = json_loads(body, JSON_REJECT_DUPLICATES, NULL);
	CHECK(map);
	CHECK_STR(json_string_value(json_object_get(map, "model")), "m\"x");
	messages = json_object_get(map, "messages");
	CHECK_INT(json_array_size(messages), 2);
	CHECK_STR(json_string_value(json_object_get(json_array_get(messages, 1), "content")),
		  "{\"events\":[{\"seq\":7,\"kind\":\"exec\",\"argv\":[\"a\\\"\\udcff\\n\"]},"
		  "{\"kind\":\"lost\",\"count\":3}]}");
	json_decref(map);
	batch_done(&batch);
}

TEST(a_batch_has_an_end)
{
	struct batch batch = {0};
	static char line[100000];

	memset(line, 'x', sizeof line);
	CHECK(batch_add(&batch, line, sizeof line));
	CHECK(batch_add(&batch, line, sizeof line));
	CHECK(!batch_add(&batch, line, sizeof line));
	CHECK_INT(batch.n, 2);
	batch_done(&batch);
}
