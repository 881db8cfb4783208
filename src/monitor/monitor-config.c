/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/monitor.h"

#include <errno.h>
#include <jansson.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

static char *copy_text(const json_t *map, const char *key)
{
	const char *text = json_string_value(json_object_get(map, key));

	return text ? strdup(text) : NULL;
}

static uint32_t number(const json_t *map, const char *key)
{
	return (uint32_t)json_integer_value(json_object_get(map, key));
}

int config_read(char *text, size_t size, struct monitor_config *ret)
{
	json_t *map = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);

	sodium_memzero(text, size);
	if (!map)
		return -EINVAL;
	*ret = (struct monitor_config){
		.url = copy_text(map, "url"),
		.model = copy_text(map, "model"),
		.prompt = copy_text(map, "prompt"),
		.key = copy_text(map, "key"),
		.batch = number(map, "batch"),
		.interval_ms = number(map, "interval_ms"),
		.timeout_ms = number(map, "timeout_ms"),
		.on_failure = (enum rule_verdict)number(map, "on_failure"),
	};
	json_decref(map);
	if (!ret->url || !ret->model || !ret->batch || !ret->timeout_ms ||
	    ret->on_failure >= RULE_VERDICTS) {
		config_done(ret);
		return -EINVAL;
	}
	return 0;
}

void config_done(struct monitor_config *config)
{
	if (config->key)
		sodium_memzero(config->key, strlen(config->key));
	free(config->url);
	free(config->model);
	free(config->prompt);
	free(config->key);
}
