/* SPDX-License-Identifier: Apache-2.0 */
#include "box/config.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "box/config-grants.h"
#include "spec/document.h"
#include "spec/spec.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_MAX (1 << 20)

struct reader {
	const char *name;   /* for errors */
	char dir[PATH_MAX]; /* relative paths count from the file's */
	struct daemon_config *config;
	struct config_tenant *tenant; /* the one at hand */
	struct config_budget *budget;
	struct atoll_error *err;
};

struct key_row {
	const char *key;
	int (*read)(struct reader *reader, const struct tree *tree);
};

void config_init(struct daemon_config *config)
{
	*config = (struct daemon_config){
		.max_boxes = 10000,
		.max_memory_mib = UINT64_MAX,
		.max_disk_mib = UINT64_MAX,
		.max_cpus = UINT64_MAX,
		.least_memory_mib = 256,
		.least_disk_mib = 512,
		.base_memory_mib = 1024,
		.base_disk_mib = 4096,
		.base_cpus = 2,
		.base_pids = 512,
		.base_record = "off",
		.pool_least = 1,
		.pool_most = 16,
		.idle_s = UINT64_MAX,
	};
}

void config_done(struct daemon_config *config)
{
	for (size_t i = 0; i < config->n_listen; i++)
		free(config->listen[i]);
	for (size_t i = 0; i < config->n_names; i++)
		free(config->names[i]);
	free(config->certificate);
	free(config->key);
	for (size_t i = 0; i < config->n_tenants; i++)
		config_tenant_done(&config->tenants[i]);
	free(config->tenants);
	for (size_t i = 0; i < config->n_templates; i++)
		free(config->templates[i].path);
	free(config->templates);
}

struct config_tenant config_free_tenant(const char *name)
{
	struct config_tenant tenant = {
		.max_boxes = UINT64_MAX,
		.max_memory_mib = UINT64_MAX,
		.max_disk_mib = UINT64_MAX,
		.max_cpus = UINT64_MAX,
		.budget = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, CONFIG_BUDGET_PAUSE},
	};

	snprintf(tenant.name, sizeof tenant.name, "%s", name);
	return tenant;
}

/* ---- values ---- */

static int bad(const struct reader *reader, const struct tree *tree, const char *wanted)
{
	char shown[80];

	return error_set(reader->err, ATOLL_FAULT_REQUEST, 0, "%s:%u: '%s' has to be %s%s%s",
			 reader->name, tree->line, tree->key ? tree->key : "an entry", wanted,
			 tree->kind == TREE_TEXT ? ", not " : "",
			 tree->kind == TREE_TEXT ? str_show(tree->text, shown, sizeof shown) : "");
}

static int read_section(struct reader *reader, const struct tree *tree, const struct key_row *rows,
			const char *what)
{
	int r = 0;

	if (tree->kind != TREE_MAP)
		return bad(reader, tree, "a section with keys");
	for (size_t i = 0; r == 0 && i < tree->n_items; i++) {
		const struct tree *item = &tree->items[i];
		const char *words[32] = {0};
		const struct key_row *row = rows;
		const char *nearest;

		while (row->key && !streq(row->key, item->key))
			row++;
		if (row->key) {
			r = row->read(reader, item);
			continue;
		}
		for (size_t k = 0; rows[k].key && k < 31; k++)
			words[k] = rows[k].key;
		nearest = str_nearest(item->key, words);
		r = error_set(reader->err, ATOLL_FAULT_REQUEST, 0,
			      "%s:%u: unknown key '%s' in %s%s%s%s", reader->name, item->key_line,
			      item->key, what, nearest ? "; did you mean '" : "",
			      nearest ? nearest : "", nearest ? "'?" : "");
	}
	return r;
}

static int read_count(const struct reader *reader, const struct tree *tree, uint64_t most,
		      uint64_t *ret)
{
	unsigned long long value;
	char *end;

	if (tree->kind == TREE_TEXT && streq(tree->text, "unlimited") && most == UINT64_MAX) {
		*ret = UINT64_MAX;
		return 0;
	}
	if (tree->kind != TREE_TEXT || tree->type != TREE_INTEGER || tree->text[0] == '-')
		return bad(reader, tree, "a whole number");
	errno = 0;
	value = strtoull(tree->text, &end, 10);
	if (errno || *end || value > (most == UINT64_MAX ? INT64_MAX : most))
		return bad(reader, tree, "a smaller number");
	*ret = value;
	return 0;
}

static int read_amount(const struct reader *reader, const struct tree *tree, enum spec_limit_id id,
		       uint64_t *ret)
{
	char of[sizeof reader->err->text];

	if (tree->kind != TREE_TEXT)
		return bad(reader, tree, "an amount");
	snprintf(of, sizeof of, "%s:%u: '%s':", reader->name, tree->line, tree->key);
	return spec_parse_amount(id, of, tree->text, ret, reader->err);
}

/* In MiB, rounded up. */
static int read_size(const struct reader *reader, const struct tree *tree, uint64_t *ret)
{
	int r = read_amount(reader, tree, SPEC_DISK, ret);

	if (r == 0 && *ret != UINT64_MAX)
		*ret = (*ret + (1 << 20) - 1) >> 20;
	return r;
}

static int read_size_32(const struct reader *reader, const struct tree *tree, uint32_t *ret)
{
	uint64_t value;
	int r = read_size(reader, tree, &value);

	if (r == 0 && (value > UINT32_MAX || value < 16))
		return bad(reader, tree, "from 16M to 1024T");
	if (r == 0)
		*ret = (uint32_t)value;
	return r;
}

static int read_seconds(const struct reader *reader, const struct tree *tree, uint64_t *ret)
{
	int r = read_amount(reader, tree, SPEC_WALL, ret);

	if (r == 0 && *ret != UINT64_MAX)
		*ret = (*ret + 999) / 1000;
	return r;
}

static int read_count_32(const struct reader *reader, const struct tree *tree, uint32_t most,
			 uint32_t *ret)
{
	uint64_t value;
	int r = read_count(reader, tree, most, &value);

	if (r == 0)
		*ret = (uint32_t)value;
	return r;
}

static int read_word(const struct reader *reader, const struct tree *tree, const char *const *words,
		     const char *wanted, size_t *ret)
{
	for (size_t i = 0; tree->kind == TREE_TEXT && words[i]; i++) {
		if (streq(words[i], tree->text)) {
			*ret = i;
			return 0;
		}
	}
	return bad(reader, tree, wanted);
}

static int read_path(const struct reader *reader, const struct tree *tree, char **ret)
{
	if (tree->kind != TREE_TEXT || !tree->text[0])
		return bad(reader, tree, "a path");
	free(*ret);
	*ret = tree->text[0] == '/' ? strdup(tree->text) : path_join(reader->dir, tree->text);
	return *ret ? 0 : error_oom(reader->err);
}

/* ---- the file, from its leaves to its root ---- */

#define READ(name, call)                                                                           \
	static int name(struct reader *reader, const struct tree *tree)                            \
	{                                                                                          \
		return call;                                                                       \
	}

READ(certificate, read_path(reader, tree, &reader->config->certificate))
READ(tls_key, read_path(reader, tree, &reader->config->key))
READ(max_boxes, read_count(reader, tree, UINT64_MAX, &reader->config->max_boxes))
READ(max_memory, read_size(reader, tree, &reader->config->max_memory_mib))
READ(max_disk, read_size(reader, tree, &reader->config->max_disk_mib))
READ(max_cpus, read_count(reader, tree, UINT64_MAX, &reader->config->max_cpus))
READ(least_memory, read_size(reader, tree, &reader->config->least_memory_mib))
READ(least_disk, read_size(reader, tree, &reader->config->least_disk_mib))
READ(base_memory, read_size_32(reader, tree, &reader->config->base_memory_mib))
READ(base_disk, read_size_32(reader, tree, &reader->config->base_disk_mib))
READ(base_cpus, read_count_32(reader, tree, 4096, &reader->config->base_cpus))
READ(base_pids, read_count_32(reader, tree, 100000, &reader->config->base_pids))
READ(pool_least, read_count_32(reader, tree, 1000, &reader->config->pool_least))
READ(pool_most, read_count_32(reader, tree, 1000, &reader->config->pool_most))
READ(idle, read_seconds(reader, tree, &reader->config->idle_s))
READ(tenant_boxes, read_count(reader, tree, UINT64_MAX, &reader->tenant->max_boxes))
READ(tenant_memory, read_size(reader, tree, &reader->tenant->max_memory_mib))
READ(tenant_disk, read_size(reader, tree, &reader->tenant->max_disk_mib))
READ(tenant_cpus, read_count(reader, tree, UINT64_MAX, &reader->tenant->max_cpus))
READ(budget_cpu, read_seconds(reader, tree, &reader->budget->cpu_s))
READ(budget_memory, read_count(reader, tree, UINT64_MAX, &reader->budget->gib_s))
READ(budget_bytes, read_amount(reader, tree, SPEC_DISK, &reader->budget->bytes))
READ(budget_steps, read_count(reader, tree, UINT64_MAX, &reader->budget->steps))

static int budget_then(struct reader *reader, const struct tree *tree)
{
	static const char *const words[] = {"pause", "end", NULL};
	size_t word = 0;
	int r = read_word(reader, tree, words, "'pause' or 'end'", &word);

	if (r == 0)
		reader->budget->then = word ? CONFIG_BUDGET_END : CONFIG_BUDGET_PAUSE;
	return r;
}

static int base_record(struct reader *reader, const struct tree *tree)
{
	static const char *const words[] = {"off", "steps", "full", NULL};
	size_t word = 0;
	int r = read_word(reader, tree, words, "'off', 'steps' or 'full'", &word);

	if (r == 0)
		snprintf(reader->config->base_record, sizeof reader->config->base_record, "%s",
			 words[word]);
	return r;
}

static int log_requests(struct reader *reader, const struct tree *tree)
{
	static const char *const words[] = {"false", "true", NULL};
	size_t word = 0;
	int r = read_word(reader, tree, words, "true or false", &word);

	if (r == 0)
		reader->config->logs_requests = word;
	return r;
}

static int budget(struct reader *reader, const struct tree *tree)
{
	static const struct key_row rows[] = {
		{"cpu", budget_cpu},	 {"gib-seconds", budget_memory}, {"bytes", budget_bytes},
		{"steps", budget_steps}, {"then", budget_then},		 {0}};

	reader->budget = &reader->tenant->budget;
	return read_section(reader, tree, rows, "'budget'");
}

/* A list of texts, each of which `grant` takes. */
static int read_grants(const struct reader *reader, const struct tree *tree,
		       int (*grant)(struct config_tenant *tenant, const char *text,
				    struct atoll_error *err))
{
	int r = 0;

	if (tree->kind != TREE_LIST)
		return bad(reader, tree, "a list");
	for (size_t i = 0; r == 0 && i < tree->n_items; i++) {
		const struct tree *item = &tree->items[i];
		struct atoll_error why = {0};

		if (item->kind != TREE_TEXT)
			return bad(reader, tree, "a list of texts");
		if (grant(reader->tenant, item->text, &why) < 0)
			r = error_set(reader->err, ATOLL_FAULT_REQUEST, 0, "%s:%u: '%s': %s",
				      reader->name, item->line, tree->key, why.text);
	}
	return r;
}

READ(tenant_workspaces, read_grants(reader, tree, config_grant_workspace))
READ(tenant_near, read_grants(reader, tree, config_grant_near))

static int tenant(struct reader *reader, const struct tree *tree)
{
	static const struct key_row rows[] = {
		{"sandboxes", tenant_boxes}, {"memory", tenant_memory},
		{"disk", tenant_disk},	     {"cpus", tenant_cpus},
		{"budget", budget},	     {"workspaces", tenant_workspaces},
		{"near", tenant_near},	     {0}};

	*reader->tenant = config_free_tenant(tree->key);
	if (strlen(tree->key) >= sizeof reader->tenant->name)
		return bad(reader, tree, "the section of a tenant, whose name is shorter");
	/* A tenant without quotas is a name and nothing behind it. */
	if (tree->kind == TREE_TEXT && tree->type == TREE_NULL)
		return 0;
	return read_section(reader, tree, rows, "a tenant");
}

static int tenants(struct reader *reader, const struct tree *tree)
{
	struct daemon_config *config = reader->config;
	int r = 0;

	if (tree->kind != TREE_MAP)
		return bad(reader, tree, "a section of tenants by name");
	config->tenants = calloc(tree->n_items + 1, sizeof *config->tenants);
	if (!config->tenants)
		return error_oom(reader->err);
	for (size_t i = 0; r == 0 && i < tree->n_items; i++) {
		reader->tenant = &config->tenants[config->n_tenants++];
		r = tenant(reader, &tree->items[i]);
	}
	return r;
}

static int templates(struct reader *reader, const struct tree *tree)
{
	struct daemon_config *config = reader->config;
	int r = 0;

	if (tree->kind != TREE_MAP)
		return bad(reader, tree, "a section of directories or archives by name");
	config->templates = calloc(tree->n_items + 1, sizeof *config->templates);
	if (!config->templates)
		return error_oom(reader->err);
	for (size_t i = 0; r == 0 && i < tree->n_items; i++) {
		const struct tree *item = &tree->items[i];
		struct config_template *made = &config->templates[config->n_templates++];

		if (!str_is_plain_name(item->key, strcspn(item->key, ":")) ||
		    strlen(item->key) >= sizeof made->name || strstr(item->key, "..") ||
		    item->key[strspn(item->key, "abcdefghijklmnopqrstuvwxyz0123456789-_.:")])
			return bad(reader, item,
				   "called by a-z, 0-9, '-', '_', '.' and perhaps ':TAG'");
		snprintf(made->name, sizeof made->name, "%s", item->key);
		r = read_path(reader, item, &made->path);
	}
	return r;
}

static int listen_at(struct reader *reader, const struct tree *tree)
{
	struct daemon_config *config = reader->config;

	if (tree->kind != TREE_TEXT)
		return bad(reader, tree, "an address like 127.0.0.1:8642 or unix:/run/atoll.sock");
	if (config->n_listen == CONFIG_LISTEN_MAX)
		return bad(reader, tree, "one of at most 8 addresses");
	config->listen[config->n_listen] = strdup(tree->text);
	return config->listen[config->n_listen++] ? 0 : error_oom(reader->err);
}

static int listens(struct reader *reader, const struct tree *tree)
{
	int r = 0;

	if (tree->kind == TREE_TEXT)
		return listen_at(reader, tree);
	if (tree->kind != TREE_LIST)
		return bad(reader, tree, "an address, or a list of them");
	for (size_t i = 0; r == 0 && i < tree->n_items; i++)
		r = listen_at(reader, &tree->items[i]);
	return r;
}

static int name_of(struct reader *reader, const struct tree *tree)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789-._";
	struct daemon_config *config = reader->config;

	if (tree->kind != TREE_TEXT || !tree->text[0] || tree->text[0] == '.' ||
	    tree->text[strspn(tree->text, letters)])
		return bad(reader, tree, "a host's name like sandboxes.example.com");
	if (config->n_names == CONFIG_NAMES_MAX)
		return bad(reader, tree, "one of at most 64 names");
	config->names[config->n_names] = strdup(tree->text);
	return config->names[config->n_names++] ? 0 : error_oom(reader->err);
}

static int names(struct reader *reader, const struct tree *tree)
{
	int r = 0;

	if (tree->kind == TREE_TEXT)
		return name_of(reader, tree);
	if (tree->kind != TREE_LIST)
		return bad(reader, tree, "a host's name, or a list of them");
	for (size_t i = 0; r == 0 && i < tree->n_items; i++)
		r = name_of(reader, &tree->items[i]);
	return r;
}

static int tls(struct reader *reader, const struct tree *tree)
{
	static const struct key_row rows[] = {{"certificate", certificate}, {"key", tls_key}, {0}};
	int r = read_section(reader, tree, rows, "'tls'");

	if (r == 0 && (!reader->config->certificate || !reader->config->key))
		r = bad(reader, tree, "given with both 'certificate' and 'key'");
	return r;
}

static int machine(struct reader *reader, const struct tree *tree)
{
	static const struct key_row rows[] = {{"sandboxes", max_boxes},
					      {"memory", max_memory},
					      {"disk", max_disk},
					      {"cpus", max_cpus},
					      {"free-memory", least_memory},
					      {"free-disk", least_disk},
					      {0}};

	return read_section(reader, tree, rows, "'machine'");
}

static int base(struct reader *reader, const struct tree *tree)
{
	static const struct key_row rows[] = {{"memory", base_memory}, {"disk", base_disk},
					      {"cpus", base_cpus},     {"pids", base_pids},
					      {"record", base_record}, {0}};

	return read_section(reader, tree, rows, "'base'");
}

static int pool(struct reader *reader, const struct tree *tree)
{
	static const struct key_row rows[] = {{"least", pool_least}, {"most", pool_most}, {0}};

	return read_section(reader, tree, rows, "'pool'");
}

static int log_section(struct reader *reader, const struct tree *tree)
{
	static const struct key_row rows[] = {{"requests", log_requests}, {0}};

	return read_section(reader, tree, rows, "'log'");
}

static const struct key_row root_rows[] = {{"listen", listens},
					   {"tls", tls},
					   {"machine", machine},
					   {"base", base},
					   {"pool", pool},
					   {"idle", idle},
					   {"log", log_section},
					   {"tenants", tenants},
					   {"templates", templates},
					   {"names", names},
					   {0}};

/* ---- */

static int read_file(const char *path, struct buf *text, struct atoll_error *err)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	int r;

	if (fd < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, errno, "configuration '%s'", path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "configuration '%s' is not a plain file", path);
	r = fd_read_all(fd, text);
	return r < 0 ? error_set(err, ATOLL_FAULT_REQUEST, -r, "read configuration '%s'", path) : 0;
}

int config_read(const char *path, struct daemon_config *config, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(FILE_MAX);
	struct reader reader = {.config = config, .err = err};
	char name[160], real[PATH_MAX];
	struct tree *tree;
	int r = read_file(path, &text, err);

	if (r < 0)
		return r;
	reader.name = str_show(path, name, sizeof name);
	if (!realpath(path, real))
		return error_set(err, ATOLL_FAULT_REQUEST, errno, "configuration '%s'", path);
	snprintf(reader.dir, sizeof reader.dir, "%.*s", (int)(path_name(real) - real), real);
	r = tree_read(reader.name, text.data ? text.data : "", text.used, &tree, err);
	if (r < 0)
		return r;
	/* An empty file says nothing, which is fine. */
	if (tree->kind != TREE_TEXT || tree->type != TREE_NULL)
		r = read_section(&reader, tree, root_rows, "the configuration");
	tree_free(tree);
	if (r == 0)
		r = config_check_grants(config, err);
	if (r == 0 && config->pool_least > config->pool_most)
		config->pool_most = config->pool_least;
	return r;
}
