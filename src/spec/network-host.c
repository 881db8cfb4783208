/* SPDX-License-Identifier: Apache-2.0 */
/* One line about whom to talk to, from text: hosts, ports, methods, paths. */
#include "spec/network-inner.h"

#include <errno.h>
#include <stdio.h>

void network_rule_done(struct network_rule *rule)
{
	for (size_t i = 0; i < rule->n_methods; i++)
		free(rule->methods[i]);
	for (size_t i = 0; i < rule->n_paths; i++)
		free(rule->paths[i]);
	free(rule->methods);
	free(rule->paths);
	free(rule->ports);
	free(rule->host);
	free(rule->origin);
	*rule = (struct network_rule)NETWORK_RULE_INIT;
}

/* ---- hosts ---- */

struct text {
	const char *start;
	size_t size;
};

static bool has_any(struct text text, const char *characters)
{
	for (size_t i = 0; i < text.size; i++)
		if (text.start[i] && strchr(characters, text.start[i]))
			return true;
	return false;
}

static bool begins(struct text text, const char *prefix)
{
	size_t size = strlen(prefix);

	return text.size >= size && memcmp(text.start, prefix, size) == 0;
}

/* What people write who mean something else than a host; in words that follow "is no host:". */
static const char *habit(struct text text, bool is_deny)
{
	if (memmem(text.start, text.size, "://", 3))
		return "leave the scheme and the path out; paths go into 'paths'";
	if (has_any(text, " \t\r\n"))
		return "there is a blank in it; one line names one host";
	if (has_any(text, "@"))
		return "leave the user name out";
	if (has_any(text, "%"))
		return "zones and escapes are not allowed";
	if (has_any(text, "/\\?#"))
		return "leave the path out; paths go into 'paths'";
	if ((text.size == 1 && text.start[0] == '*') || begins(text, "*:"))
		return is_deny ? "write ** for all hosts"
			       : "for all public hosts write 'network: open' (--net open)";
	if (text.size == 2 && begins(text, "**"))
		return "for all public hosts write 'network: open' (--net open); ** alone stands "
		       "only in 'deny'";
	if (begins(text, "."))
		return "write *.example.com for all below it, **.example.com for it and all below";
	if (has_any(text, "*"))
		return "a star stands only in front: *.example.com, **.example.com";
	return NULL;
}

static int no_host(struct text text, const char *why, const char *origin, struct atoll_error *err)
{
	char copy[512];

	snprintf(copy, sizeof copy, "%.*s", (int)(text.size < 500 ? text.size : 500), text.start);
	return error_set(err, ATOLL_FAULT_REQUEST, 0, "%s: '%s' is no host: %s", origin,
			 shown(copy), why);
}

static int set_host_text(struct network_rule *rule, const char *prefix, const char *domain,
			 struct atoll_error *err)
{
	if (asprintf(&rule->host, "%s%s", prefix, domain) < 0) {
		rule->host = NULL;
		return error_oom(err);
	}
	rule->domain = rule->host + strlen(prefix);
	return 0;
}

static int set_name(struct network_rule *rule, struct text text, bool is_deny, const char *origin,
		    struct atoll_error *err)
{
	static const char *const prefixes[] = {
		[NETWORK_EXACT] = "", [NETWORK_BELOW] = "*.", [NETWORK_WITHIN] = "**."};
	struct text domain = text;
	char name[NETWORK_NAME_MAX];
	const char *problem;

	rule->kind = begins(text, "**.")  ? NETWORK_WITHIN
		     : begins(text, "*.") ? NETWORK_BELOW
					  : NETWORK_EXACT;
	domain.start += strlen(prefixes[rule->kind]);
	domain.size -= strlen(prefixes[rule->kind]);
	problem = habit(domain, is_deny);
	if (!problem)
		problem = idn_to_ascii(domain.start, domain.size, name);
	if (!problem && !idn_is_sound(name))
		problem = "what follows xn-- in it is no Punycode";
	if (problem)
		return no_host(text, problem, origin, err);
	return set_host_text(rule, prefixes[rule->kind], name, err);
}

/* The number behind "/", or -1. */
static int read_prefix(struct text text, int most)
{
	int value = 0;

	if (text.size < 1 || text.size > 3 || (text.size > 1 && text.start[0] == '0'))
		return -1;
	for (size_t i = 0; i < text.size; i++) {
		if (text.start[i] < '0' || text.start[i] > '9')
			return -1;
		value = value * 10 + text.start[i] - '0';
	}
	return value <= most ? value : -1;
}

static void mask(struct network_address *address, unsigned bits)
{
	for (unsigned i = bits; i < 128; i++)
		address->bytes[i / 8] &= (uint8_t) ~(0x80 >> i % 8);
}

/* Why a literal cannot be in `allow`. */
static const char *literal_problem(const struct network_rule *rule)
{
	bool is_v4 = network_address_is_v4(&rule->base);
	const char *oddity = network_address_oddity(&rule->base);
	struct network_address carried;

	if (is_v4 ? rule->prefix < 96 + 8 : rule->prefix < 7)
		return "that many addresses are not a host any more (at most /8, in IPv6 /7); for "
		       "all public ones write 'network: open' (--net open)";
	if (network_is_synthetic(&rule->base))
		return "addresses of this block stand for names in the sandbox; write the name";
	if (network_carried(&rule->base, &carried) || (oddity && starts_with(oddity, "carrying")))
		return "it carries an IPv4 address; write that one";
	if (oddity && (streq(oddity, "this host") || streq(oddity, "unspecified") ||
		       streq(oddity, "multicast")))
		return "nobody can be reached at such an address";
	return NULL;
}

static int set_literal(struct network_rule *rule, struct text text, struct text bits, bool is_deny,
		       const char *origin, struct atoll_error *err)
{
	struct text whole = {text.start, bits.start ? (size_t)(bits.start + bits.size - text.start)
						    : text.size};
	char address[46], domain[64];
	struct network_address base;
	const char *problem = NULL;
	bool is_v4;
	int prefix;

	if (network_address(text.start, text.size, &rule->base) < 0)
		return no_host(whole, "what stands before '/' is no address", origin, err);
	is_v4 = network_address_is_v4(&rule->base);
	if (is_v4 && has_any(text, ":"))
		return no_host(whole, "write an IPv4 address as such", origin, err);
	prefix = bits.start ? read_prefix(bits, is_v4 ? 32 : 128) : is_v4 ? 32 : 128;
	if (prefix < 0)
		return no_host(whole, "behind '/' stands a number of bits, as in 10.0.0.0/8",
			       origin, err);
	rule->kind = NETWORK_LITERAL;
	rule->prefix = (unsigned)prefix + (is_v4 ? 96 : 0);
	base = rule->base;
	mask(&base, rule->prefix);
	network_address_text(&base, address);
	if (memcmp(&base, &rule->base, sizeof base) != 0)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: the block '%.*s' has bits set beyond its first %d; write "
				 "%s/%d, or the one address",
				 origin, (int)whole.size, whole.start, prefix, address, prefix);
	if (!is_deny)
		problem = literal_problem(rule);
	if (problem)
		return no_host(whole, problem, origin, err);
	snprintf(domain, sizeof domain, "%s", address);
	if (rule->prefix < 128)
		snprintf(domain, sizeof domain, "%s/%d", address, prefix);
	return set_host_text(rule, "", domain, err);
}

/* Meant as an IPv6 address: then a mistake in it is not one in a name. */
static bool looks_literal(struct text text)
{
	return text.size && (text.start[0] == '[' || has_any(text, ":"));
}

static const char *literal_habit(struct text text, bool is_deny)
{
	const char *colon = memchr(text.start, ':', text.size);
	const char *why = habit(text, is_deny);

	if (!why && colon && colon == memrchr(text.start, ':', text.size))
		why = "ports go into 'ports'";
	return why ? why : "it is no IPv6 address either";
}

int network_rule_set_host(struct network_rule *rule, const char *start, size_t size, bool is_deny,
			  const char *origin, struct atoll_error *err)
{
	struct text text = {start, size}, bits = {0}, address = text;
	const char *slash = memrchr(start, '/', size);
	struct network_address ignored;

	if (size == 0)
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "%s: the host is empty; name one",
				 origin);
	if (is_deny && size == 2 && begins(text, "**")) {
		rule->kind = NETWORK_ANY;
		return set_host_text(rule, "", "**", err);
	}
	if (slash) {
		bits = (struct text){slash + 1, (size_t)(start + size - slash - 1)};
		address.size = (size_t)(slash - start);
		/* A path behind a name is no block. */
		if (network_address(start, address.size, &ignored) < 0 && !looks_literal(address))
			return set_name(rule, text, is_deny, origin, err);
	}
	if (slash || network_address(start, size, &ignored) == 0)
		return set_literal(rule, address, bits, is_deny, origin, err);
	if (looks_literal(text))
		return no_host(text, literal_habit(text, is_deny), origin, err);
	return set_name(rule, text, is_deny, origin, err);
}

int network_broad_host(const char *text, const char *origin, char **ret_host,
		       struct atoll_error *err)
{
	struct network_rule rule = NETWORK_RULE_INIT;
	int r = network_rule_set_host(&rule, text, strlen(text), false, origin, err);

	if (r == 0 && rule.kind != NETWORK_BELOW && rule.kind != NETWORK_WITHIN)
		r = error_set(err, ATOLL_FAULT_REQUEST, 0,
			      "%s: '%s' is no wide pattern; write *.NAME or **.NAME as in 'allow'",
			      origin, shown(text));
	if (r == 0)
		*ret_host = take_ptr(rule.host);
	network_rule_done(&rule);
	return r;
}

/* ---- ports ---- */

uint16_t network_port(const char *text, size_t size)
{
	unsigned value = 0;

	if (size < 1 || size > 5 || text[0] == '0')
		return 0;
	for (size_t i = 0; i < size; i++) {
		if (text[i] < '0' || text[i] > '9')
			return 0;
		value = value * 10 + (unsigned)(text[i] - '0');
	}
	return (uint16_t)(value <= 65535 ? value : 0);
}

int network_rule_add_port(struct network_rule *rule, const char *text, size_t size,
			  const char *origin, struct atoll_error *err)
{
	uint16_t port = network_port(text, size), *grown;
	size_t i = rule->n_ports;
	char copy[64];

	snprintf(copy, sizeof copy, "%.*s", (int)(size < 60 ? size : 60), text);
	if (port == 0)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: '%s' is no port; a port is a whole number from 1 to 65535, "
				 "and several stand with commas: example.com:443,8443",
				 origin, shown(copy));
	for (size_t j = 0; j < rule->n_ports; j++)
		if (rule->ports[j] == port)
			return 0;
	if (rule->n_ports == NETWORK_PORTS_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: more than %d ports for one host; write several lines", origin,
				 NETWORK_PORTS_MAX);
	grown = spec_grow(rule->ports, rule->n_ports, sizeof *grown);
	if (!grown)
		return error_oom(err);
	rule->ports = grown;
	for (; i > 0 && grown[i - 1] > port; i--)
		grown[i] = grown[i - 1];
	grown[i] = port;
	rule->n_ports++;
	return 0;
}

static int add_ports(struct network_rule *rule, const char *text, const char *origin,
		     struct atoll_error *err)
{
	int r;

	for (;; text++) {
		size_t length = strcspn(text, ",");

		r = network_rule_add_port(rule, text, length, origin, err);
		text += length;
		if (r < 0 || *text == '\0')
			return r;
	}
}

/* Where ":PORT" begins in a line, or its end. Of "a:b:c" the first colon: that is no host, and
 * the error will say so. */
static size_t host_length(const char *line)
{
	const char *bracket = line[0] == '[' ? strchr(line, ']') : line;

	return bracket ? (size_t)(bracket - line) + strcspn(bracket, ":") : strlen(line);
}

int network_rule_set_line(struct network_rule *rule, const char *line, bool is_deny,
			  const char *origin, struct atoll_error *err)
{
	struct text whole = {line, strlen(line)};
	size_t length = host_length(line);
	const char *colon = line + length;
	int r;

	if (begins((struct text){colon, strlen(colon)}, "://"))
		return no_host(whole, habit(whole, is_deny), origin, err);
	/* Would "2001:db8::1:443" mean a port? */
	if (line[0] != '[' && colon[0] && strchr(colon + 1, ':'))
		return no_host(whole,
			       "an IPv6 address stands in brackets in such a line: "
			       "[2001:db8::1]:443",
			       origin, err);
	r = network_rule_set_host(rule, line, length, is_deny, origin, err);
	if (r == 0 && colon[0])
		r = add_ports(rule, colon + 1, origin, err);
	return r;
}

/* ---- what may be asked there ---- */

static int add_word(char ***words, size_t *n, const char *what, const char *text,
		    const char *origin, struct atoll_error *err)
{
	char **grown;

	for (size_t i = 0; i < *n; i++)
		if (streq((*words)[i], text))
			return 0;
	if (*n == NETWORK_WORDS_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "%s: more than %d %s for one host",
				 origin, NETWORK_WORDS_MAX, what);
	grown = spec_grow(*words, *n, sizeof *grown);
	if (!grown)
		return error_oom(err);
	*words = grown;
	grown[*n] = NULL;
	if (spec_set_text(&grown[*n], text, err) < 0)
		return -ENOMEM;
	++*n;
	return 0;
}

bool network_is_token(const char *text)
{
	static const char token[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

	return text[0] && text[strspn(text, token)] == '\0';
}

int network_rule_add_method(struct network_rule *rule, const char *text, const char *origin,
			    struct atoll_error *err)
{
	char method[32];
	size_t i;

	if (!network_is_token(text) || strlen(text) >= sizeof method)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: '%s' is no HTTP method; write one word each: [GET, HEAD]%s",
				 origin, shown(text),
				 text[0] == '*' ? "; leave 'methods' out for all" : "");
	if (strchr(text, '*'))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: '%s' is no HTTP method; leave 'methods' out for all", origin,
				 shown(text));
	for (i = 0; text[i]; i++)
		method[i] = (char)(text[i] >= 'a' && text[i] <= 'z' ? text[i] - 32 : text[i]);
	method[i] = '\0';
	if (streq(method, "CONNECT") || streq(method, "TRACE"))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s: method '%s' is never passed on; leave it out", origin,
				 shown(text));
	return add_word(&rule->methods, &rule->n_methods, "methods", method, origin, err);
}

static const char *path_problem(const char *path)
{
	if (path[0] != '/')
		return "a path begins with '/'";
	if (strlen(path) > NETWORK_WORD_MAX)
		return "it is longer than 1024 bytes";
	if (strpbrk(path, "?#"))
		return "a query is no part of a path and is not looked at; leave it out";
	if (strstr(path, "***"))
		return "* stands for what is between two slashes, ** for everything";
	for (const char *p = path; *p; p++)
		if (*p <= ' ' || *p > '~' || strchr("\\\"<>^`{|}", *p))
			return "characters that no URL has are written as %XX";
	return network_path_is_plain(path) ? NULL
					   : "'.', '..', '//' and escapes like %2f could mean "
					     "another path to a server";
}

int network_rule_add_path(struct network_rule *rule, const char *text, const char *origin,
			  struct atoll_error *err)
{
	const char *problem = path_problem(text);

	if (problem)
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "%s: path '%s' cannot match: %s",
				 origin, shown(text), problem);
	return add_word(&rule->paths, &rule->n_paths, "paths", text, origin, err);
}

static const char *const tls_words[] = {[NETWORK_TLS_PASS] = "pass",
					[NETWORK_TLS_INSPECT] = "inspect",
					[NETWORK_TLS_OFF] = "off",
					NULL};

const char *network_tls_word(enum network_tls tls)
{
	return tls_words[tls];
}

int network_rule_set_tls(struct network_rule *rule, const char *word, const char *origin,
			 struct atoll_error *err)
{
	for (int i = 0; tls_words[i]; i++) {
		if (!streq(word, tls_words[i]))
			continue;
		rule->tls = (enum network_tls)i;
		rule->has_tls = true;
		return 0;
	}
	return error_set(err, ATOLL_FAULT_REQUEST, 0, "%s: tls cannot be '%s'; %s", origin,
			 shown(word), words_hint(word, tls_words, (char[192]){0}, 192));
}
