/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/audit-section.h"

#include "spec/document.h"
#include "spec/spec-inner.h"

#include <stdio.h>
#include <stdlib.h>

#define PROMPT_MAX ((size_t)16 << 10)
#define URL_MAX	   2048

static const struct spec_limit_info batch_info = {"batch", "", "count",	    1,
						  1000,	   50, "1 to 1000", "50"};
static const struct spec_limit_info interval_info = {"interval", "",   "ms",	      100,
						     3600000,	 5000, "100ms to 1h", "5s"};
static const struct spec_limit_info timeout_info = {"timeout", "",    "ms",	      100,
						    600000,    30000, "100ms to 10m", "30s"};

struct taker {
	struct spec *spec;
	const char *name;
	char origin[192];
	struct atoll_error *err;
};

static const char *origin_of(struct taker *taker, const struct tree *tree)
{
	snprintf(taker->origin, sizeof taker->origin, "%s:%u", taker->name, tree->line);
	return taker->origin;
}

/* To this machine itself: the only place to which events may go unencrypted. */
static bool is_loopback(const char *url)
{
	static const char *const hosts[] = {"http://127.0.0.1", "http://[::1]", "http://localhost"};

	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
		size_t size = strlen(hosts[i]);

		if (starts_with(url, hosts[i]) && (url[size] == ':' || url[size] == '/'))
			return true;
	}
	return false;
}

static int check_url(struct taker *taker, const struct tree *at)
{
	const char *url = at->text, *host, *end;

	if (!starts_with(url, "https://") && !is_loopback(url))
		return error_set(taker->err, ATOLL_FAULT_REQUEST, 0,
				 "%s: '%s' is no address of a monitor; write https://HOST/PATH "
				 "(http:// only for 127.0.0.1, [::1] and localhost)",
				 origin_of(taker, at), shown(url));
	host = strstr(url, "://") + 3;
	end = host + strcspn(host, "/?#");
	if (memchr(host, '@', (size_t)(end - host)))
		return error_set(taker->err, ATOLL_FAULT_REQUEST, 0,
				 "%s: a monitor's address holds no credentials; name a variable in "
				 "'key'",
				 origin_of(taker, at));
	for (const char *c = url; *c; c++)
		if (*c <= ' ' || *c > '~' || c - url > URL_MAX)
			return error_set(taker->err, ATOLL_FAULT_REQUEST, 0,
					 "%s: a monitor's address is printable ASCII of at most %d "
					 "characters",
					 origin_of(taker, at), URL_MAX);
	return 0;
}

static int take_number(struct taker *taker, const struct tree *map,
		       const struct spec_limit_info *info, uint64_t *ret)
{
	const struct tree *at = tree_get(map, info->key);
	int r;

	*ret = info->preset;
	r = at ? values_parse(info, false, at->text, ret, taker->err) : 0;
	return r < 0 ? error_context(taker->err, r, "%s", origin_of(taker, at)) : 0;
}

static int take_text(struct taker *taker, const struct tree *map, const char *key, char **slot)
{
	const struct tree *at = tree_get(map, key);

	return at ? spec_set_text(slot, at->text, taker->err) : 0;
}

static int take_key(struct taker *taker, const struct tree *map)
{
	const struct tree *at = tree_get(map, "key");

	if (!at)
		return 0;
	if (at->text[strspn(at->text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
				      "0123456789")] ||
	    (at->text[0] >= '0' && at->text[0] <= '9'))
		return error_set(taker->err, ATOLL_FAULT_REQUEST, 0,
				 "%s: 'key' is the name of a variable that holds it, not the key "
				 "itself",
				 origin_of(taker, at));
	return take_text(taker, map, "key", &taker->spec->watch.monitor.key);
}

static int take_on_failure(struct taker *taker, const struct tree *map)
{
	const struct tree *at = tree_get(map, "on-failure");
	struct spec_monitor *monitor = &taker->spec->watch.monitor;

	monitor->on_failure = RULE_FLAG;
	if (at)
		monitor->on_failure = streq(at->text, "allow")
					      ? RULE_OFF
					      : (enum rule_verdict)rule_find_verdict(at->text);
	return 0;
}

static int take_monitor(struct taker *taker, const struct tree *map)
{
	struct spec_monitor *monitor = &taker->spec->watch.monitor;
	const struct tree *url = tree_get(map, "url"), *prompt = tree_get(map, "prompt");
	uint64_t batch = 0;
	int r;

	if (!url || !tree_get(map, "model"))
		return error_set(taker->err, ATOLL_FAULT_REQUEST, 0,
				 "%s: a monitor without '%s'; add it", origin_of(taker, map),
				 url ? "model" : "url");
	if (prompt && strlen(prompt->text) > PROMPT_MAX)
		return error_set(taker->err, ATOLL_FAULT_REQUEST, 0,
				 "%s: a monitor's prompt is longer than 16 KiB",
				 origin_of(taker, prompt));
	r = check_url(taker, url);
	if (r == 0)
		r = take_text(taker, map, "url", &monitor->url);
	if (r == 0)
		r = take_text(taker, map, "model", &monitor->model);
	if (r == 0)
		r = take_text(taker, map, "prompt", &monitor->prompt);
	if (r == 0)
		r = take_key(taker, map);
	if (r == 0)
		r = take_number(taker, map, &batch_info, &batch);
	if (r == 0)
		r = take_number(taker, map, &interval_info, &monitor->interval_ms);
	if (r == 0)
		r = take_number(taker, map, &timeout_info, &monitor->timeout_ms);
	if (r == 0)
		r = take_on_failure(taker, map);
	monitor->batch = (uint32_t)batch;
	return r < 0 ? r : spec_set_text(&monitor->origin, origin_of(taker, url), taker->err);
}

static int take_rules(struct taker *taker, const struct tree *map)
{
	int r = 0;

	for (int i = 0; r == 0 && i < RULE_COUNT; i++) {
		const struct tree *at = tree_get(map, rule_name((enum rule_id)i));

		if (!at)
			continue;
		taker->spec->watch.rules[i] = (enum rule_verdict)rule_find_verdict(at->text);
		r = spec_set_text(&taker->spec->watch.rule_origins[i], origin_of(taker, at),
				  taker->err);
	}
	return r;
}

int spec_watch_load(struct spec *spec, const char *name, const struct tree *audit,
		    struct atoll_error *err)
{
	struct taker taker = {.spec = spec, .name = name, .err = err};
	const struct tree *rules = tree_get(audit, "rules"), *monitor = tree_get(audit, "monitor"),
			  *hold = tree_get(audit, "hold"), *size = tree_get(audit, "size");
	int r = 0;

	if (rules)
		r = take_rules(&taker, rules);
	if (r == 0 && monitor)
		r = take_monitor(&taker, monitor);
	if (r == 0 && hold)
		r = spec_set_hold(spec, hold->text, origin_of(&taker, hold), err);
	if (r == 0 && size)
		r = spec_set_log_size(spec, size->text, origin_of(&taker, size), err);
	return r;
}
