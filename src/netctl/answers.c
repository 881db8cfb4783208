/* SPDX-License-Identifier: Apache-2.0 */
#include "netctl/answers.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/layer.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <sys/file.h>
#include <time.h>

#define ANSWERS_FILE "answers"
#define ANSWERS_MAX  1024 /* for one contract */

void answers_free(struct network_rule *rules, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(rules[i].host);
		free(rules[i].ports);
		free(rules[i].origin);
	}
	free(rules);
}

static bool is_date(const char *text)
{
	static const char form[] = "dddd-dd-dd";

	for (size_t i = 0; form[i]; i++) {
		if (form[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != form[i])
			return false;
	}
	return text[sizeof form - 1] == '\0';
}

static int set_host(struct network_rule *rule, const char *text, size_t size,
		    struct atoll_error *err)
{
	char name[NETWORK_NAME_MAX];

	if (network_address(text, size, &rule->base) == 0) {
		/* Nobody is asked about a private address, so no answer is about one: a line that
		 * says so, also of an older version, allows nothing. */
		if (network_address_oddity(&rule->base))
			return -EINVAL;
		rule->kind = NETWORK_LITERAL;
		rule->prefix = 128;
		network_address_text(&rule->base, name);
	} else if (network_name(text, size, name) == 0) {
		rule->kind = NETWORK_EXACT;
	} else {
		return -EINVAL;
	}
	rule->host = strdup(name);
	rule->domain = rule->host;
	return rule->host ? 0 : error_oom(err);
}

/* "HOST:PORT DATE", in place. What does not look like that allows nothing. */
static int read_line(char *line, struct network_rule *ret, struct atoll_error *err)
{
	static const struct network_limits none = {SPEC_UNLIMITED, SPEC_UNLIMITED, SPEC_UNLIMITED,
						   SPEC_UNLIMITED};
	char *date = strchr(line, ' '), *port, *end;
	unsigned long number;
	int r;

	*ret = (struct network_rule){.limits = none};
	if (!date)
		return -EINVAL;
	*date++ = '\0';
	port = strrchr(line, ':');
	if (!port || !is_date(date))
		return -EINVAL;
	number = strtoul(port + 1, &end, 10);
	if (*end || number == 0 || number > 65535)
		return -EINVAL;
	r = set_host(ret, line, (size_t)(port - line), err);
	if (r < 0)
		return r;
	ret->ports = malloc(sizeof *ret->ports);
	if (!ret->ports || asprintf(&ret->origin, "answer of %s", date) < 0)
		return error_oom(err);
	ret->ports[0] = (uint16_t)number;
	ret->n_ports = 1;
	return 0;
}

static int read_lines(char *text, const char *digest, struct network_rule *rules, size_t *n,
		      struct atoll_error *err)
{
	for (char *line = text, *next; line && *n < ANSWERS_MAX; line = next) {
		int r;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (strncmp(line, digest, 64) != 0 || line[64] != ' ')
			continue;
		r = read_line(line + 65, &rules[*n], err);
		if (r == 0 || r == -ENOMEM)
			++*n; /* also half of one has to be freed */
		if (r == -ENOMEM)
			return r;
	}
	return 0;
}

static int open_answers(const struct spec *spec, bool create, struct atoll_error *err)
{
	cleanup_fd int fd = user_config_open(ANSWERS_FILE, create, err);

	if (fd >= 0 && user_config_is_in_reach(fd, spec, SPEC_READ))
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "the list of answers about the network lies where this job reads "
				 "or writes; set XDG_CONFIG_HOME to a place of your own");
	return take_fd(&fd);
}

int answers_read(const struct spec *spec, struct network_rule **ret, size_t *ret_n,
		 struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(4 << 20);
	cleanup_fd int fd = -1;
	struct network_rule *rules;
	char digest[65];
	int r;

	*ret = NULL;
	*ret_n = 0;
	if (!spec->network.asks)
		return 0;
	fd = open_answers(spec, false, err);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	r = fd_read_all(fd, &text);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r,
				 "read the list of answers about the network");
	r = spec_digest(spec, digest, err);
	if (r < 0 || !text.data)
		return r;
	rules = calloc(ANSWERS_MAX, sizeof *rules);
	if (!rules)
		return error_oom(err);
	r = read_lines(text.data, digest, rules, ret_n, err);
	if (r < 0 || *ret_n == 0) {
		answers_free(rules, *ret_n);
		*ret_n = 0;
		return r;
	}
	*ret = rules;
	return 0;
}

int answers_add(const struct spec *spec, const char *name, unsigned port, struct atoll_error *err)
{
	struct network_address address;
	cleanup_fd int fd = -1;
	char digest[65], line[512], plain[NETWORK_NAME_MAX];
	time_t now = time(NULL);
	struct tm date;
	int r = spec_digest(spec, digest, err), length;

	if (r < 0)
		return r;
	if (network_address(name, strlen(name), &address) == 0)
		network_address_text(&address, plain);
	else if (network_name(name, strlen(name), plain) < 0)
		return error_set(err, ATOLL_FAULT_BUG, 0, "note an answer about no host name");
	fd = open_answers(spec, true, err);
	if (fd < 0)
		return fd;
	gmtime_r(&now, &date);
	length = snprintf(line, sizeof line, "%s %s:%u %04d-%02d-%02d\n", digest, plain, port,
			  date.tm_year + 1900, date.tm_mon + 1, date.tm_mday);
	/* One write with O_APPEND: lines of two runs do not mix. */
	r = fd_write_all(fd, line, (size_t)length);
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r,
				 "write the list of answers about the network")
		     : 0;
}
