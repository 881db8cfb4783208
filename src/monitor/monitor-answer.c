/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "monitor/monitor.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

/* An answer is one object with one of five words in it. Whatever else comes is none, and what the
 * contract says about that follows: nothing is guessed. */

static int take_verdict(const json_t *map, struct monitor_answer *ret)
{
	const char *word = json_string_value(json_object_get(map, "verdict"));
	int verdict;

	if (!word || streq(word, "off"))
		return -EBADMSG;
	verdict = streq(word, "allow") ? RULE_OFF : rule_find_verdict(word);
	if (verdict < 0)
		return -EBADMSG;
	ret->verdict = (uint32_t)verdict;
	return 0;
}

/* Numbers of events that were asked about; others are made up. */
static int take_about(const json_t *map, const struct batch *batch, struct monitor_answer *ret)
{
	const json_t *list = json_object_get(map, "about"), *item;
	size_t i;

	if (!list || json_is_null(list))
		return 0;
	if (!json_is_array(list))
		return -EBADMSG;
	json_array_foreach(list, i, item)
	{
		json_int_t seq = json_integer_value(item);

		if (!json_is_integer(item) || seq < 0 || (uint64_t)seq < batch->first ||
		    (uint64_t)seq > batch->last)
			return -EBADMSG;
		if (ret->n_about < MONITOR_ABOUT_MAX)
			ret->about[ret->n_about++] = (uint64_t)seq;
	}
	return 0;
}

static int take_content(const char *text, size_t size, const struct batch *batch,
			struct monitor_answer *ret, const char **ret_problem)
{
	json_t *map = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
	const char *why = json_string_value(json_object_get(map, "why"));
	int r = 0;

	*ret_problem = "its answer is no JSON object";
	if (!json_is_object(map))
		r = -EBADMSG;
	if (r == 0) {
		*ret_problem = "its answer has no verdict that there is";
		r = take_verdict(map, ret);
	}
	if (r == 0) {
		*ret_problem = "its answer names events that it was not asked about";
		r = take_about(map, batch, ret);
	}
	if (r == 0)
		str_show(why && why[0] ? why : "no reason was given", ret->why, sizeof ret->why);
	json_decref(map);
	return r;
}

int answer_read(const char *body, size_t size, const struct batch *batch,
		struct monitor_answer *ret, const char **ret_problem)
{
	json_t *map = json_loadb(body, size, JSON_REJECT_DUPLICATES, NULL);
	const json_t *choice = json_array_get(json_object_get(map, "choices"), 0);
	const json_t *content = json_object_get(json_object_get(choice, "message"), "content");
	int r = -EBADMSG;

	*ret = (struct monitor_answer){.last = batch->last};
	*ret_problem = "its answer is no chat completion";
	if (json_is_string(content))
		r = take_content(json_string_value(content), json_string_length(content), batch,
				 ret, ret_problem);
	json_decref(map);
	return r;
}
