/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/daemon-options.h"

#include "base/error.h"
#include "base/path.h"
#include "base/str.h"
#include "box/box.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * `atoll serve` has read the same words before, with its table of options, and has said what is
 * wrong with them: here they are only taken.
 */

struct row {
	const char *name;
	int (*parse)(struct serve_options *options, const char *value, struct atoll_error *err);
	bool has_value;
};

static int parse_listen(struct serve_options *options, const char *value, struct atoll_error *err)
{
	if (options->n_listen == CONFIG_LISTEN_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "--listen: %d places are the most",
				 CONFIG_LISTEN_MAX);
	options->listen[options->n_listen++] = value;
	return 0;
}

static int parse_config(struct serve_options *options, const char *value, struct atoll_error *err)
{
	return config_read(value, &options->config, err);
}

static int parse_certificate(struct serve_options *options, const char *value,
			     struct atoll_error *err)
{
	(void)err;
	options->certificate = value;
	return 0;
}

static int parse_key(struct serve_options *options, const char *value, struct atoll_error *err)
{
	(void)err;
	options->key = value;
	return 0;
}

static int parse_state(struct serve_options *options, const char *value, struct atoll_error *err)
{
	char here[PATH_MAX] = "";
	int length;

	if (!value[0])
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "--state: there is no directory");
	options->has_dir = true;
	if (value[0] != '/' && !getcwd(here, sizeof here))
		return error_set(err, ATOLL_FAULT_REQUEST, errno, "--state %s", value);
	length = snprintf(options->dir, sizeof options->dir, "%s%s%s", value[0] == '/' ? "" : here,
			  value[0] == '/' ? "" : "/", value);
	if (length >= (int)sizeof options->dir)
		return error_set(err, ATOLL_FAULT_REQUEST, ENAMETOOLONG, "--state");
	path_normalize(options->dir);
	return 0;
}

static int parse_end(struct serve_options *options, const char *value, struct atoll_error *err)
{
	(void)value;
	(void)err;
	options->ends_sandboxes = true;
	return 0;
}

static int parse_log(struct serve_options *options, const char *value, struct atoll_error *err)
{
	(void)value;
	(void)err;
	options->config.logs_requests = true;
	return 0;
}

static int parse_tenant(struct serve_options *options, const char *value, struct atoll_error *err)
{
	(void)err;
	options->tenant = value;
	return 0;
}

static int parse_label(struct serve_options *options, const char *value, struct atoll_error *err)
{
	(void)err;
	options->label = value;
	return 0;
}

static int parse_count(struct serve_options *options, const char *value, const char *flag,
		       uint64_t *ret, struct atoll_error *err)
{
	char *end;

	errno = 0;
	options->has_quotas = true;
	if (streq(value, "unlimited")) {
		*ret = UINT64_MAX;
		return 0;
	}
	*ret = strtoull(value, &end, 10);
	if (errno || *end || end == value || value[0] == '-' || *ret > INT64_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "%s '%s': a whole number", flag,
				 value);
	return 0;
}

static int parse_size(struct serve_options *options, const char *value, const char *flag,
		      uint64_t *ret, struct atoll_error *err)
{
	char of[64];
	int r;

	options->has_quotas = true;
	snprintf(of, sizeof of, "%s:", flag);
	r = spec_parse_amount(SPEC_DISK, of, value, ret, err);
	if (r < 0)
		return r;
	if (*ret != UINT64_MAX)
		*ret = (*ret + (1 << 20) - 1) >> 20;
	return 0;
}

static int parse_max_boxes(struct serve_options *options, const char *value,
			   struct atoll_error *err)
{
	return parse_count(options, value, "--max-sandboxes", &options->quotas.max_boxes, err);
}

static int parse_max_cpus(struct serve_options *options, const char *value, struct atoll_error *err)
{
	return parse_count(options, value, "--max-cpus", &options->quotas.max_cpus, err);
}

static int parse_max_memory(struct serve_options *options, const char *value,
			    struct atoll_error *err)
{
	return parse_size(options, value, "--max-memory", &options->quotas.max_memory_mib, err);
}

static int parse_max_disk(struct serve_options *options, const char *value, struct atoll_error *err)
{
	return parse_size(options, value, "--max-disk", &options->quotas.max_disk_mib, err);
}

static const struct row rows[] = {
	{"--listen", parse_listen, true},	 {"--config", parse_config, true},
	{"--tls-cert", parse_certificate, true}, {"--tls-key", parse_key, true},
	{"--state", parse_state, true},		 {"--end-sandboxes", parse_end, false},
	{"--log-requests", parse_log, false},	 {"--tenant", parse_tenant, true},
	{"--label", parse_label, true},		 {"--max-sandboxes", parse_max_boxes, true},
	{"--max-cpus", parse_max_cpus, true},	 {"--max-memory", parse_max_memory, true},
	{"--max-disk", parse_max_disk, true},	 {0},
};

static const struct row *find_row(const char *word)
{
	const size_t length = strcspn(word, "=");
	const struct row *row = rows;

	while (row->name && (strlen(row->name) != length || strncmp(row->name, word, length) != 0))
		row++;
	return row->name ? row : NULL;
}

/* One option, with its value behind "=" or in the next word. */
static int parse(struct serve_options *options, char ***args, struct atoll_error *err)
{
	const char *word = *(*args)++, *value = strchr(word, '=');
	const struct row *row = find_row(word);

	if (!row || (value && !row->has_value))
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "serve: unknown option '%s'", word);
	if (value)
		value++;
	else if (row->has_value)
		value = *(*args)++;
	if (row->has_value && !value)
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "serve: %s wants a value", word);
	return row->parse(options, value, err);
}

int options_read(char **args, struct serve_options *ret, struct atoll_error *err)
{
	char **words = args;
	int r = 0;

	*ret = (struct serve_options){.words = args};
	config_init(&ret->config);
	ret->quotas = config_free_tenant("");
	while (r == 0 && *args) {
		if (starts_with(*args, "--"))
			r = parse(ret, &args, err);
		else
			*words++ = *args++;
	}
	*words = NULL;
	if (r == 0 && !ret->dir[0])
		r = daemon_find_dir(ret->dir, err);
	if (r == 0 && !ret->certificate != !ret->key)
		r = error_set(err, ATOLL_FAULT_REQUEST, 0,
			      "--tls-cert and --tls-key go together: one is missing");
	return r;
}

void options_done(struct serve_options *options)
{
	config_done(&options->config);
}
