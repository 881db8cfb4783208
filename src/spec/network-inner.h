/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of the network part share
 *
 *   network.c         life cycle, lists, and the setters behind flags
 *   network-names.c   one spelling for names and addresses; which addresses are odd
 *   network-idn.c     names beyond ASCII: Punycode, and what is refused before
 *   network-host.c    a line "HOST[:PORT,...]" becomes a rule
 *   network-load.c    the section of a job file, and what egress reads
 *   network-wire.c    what egress gets
 *   network-finish.c  the whole: what is filled in, merged, refused
 *   network-judge.c   verdicts
 *   network-canon.c   the canonical form
 *   network-explain.c the words for the command inside
 */

#include "spec/spec-inner.h"

struct json;
struct tree;

#define NETWORK_LINES_MAX  512
#define NETWORK_PORTS_MAX  64
#define NETWORK_WORDS_MAX  64	/* methods or paths of a line */
#define NETWORK_WORD_MAX   1024 /* bytes of one */
#define NETWORK_LISTEN_MAX 16	/* EGRESS_LISTEN_MAX */

/* ---- network-names.c ---- */

/* Like network_name(); returns what is wrong, in words that follow "is no host:", or NULL. */
const char *network_name_problem(const char *text, size_t size, char ret[NETWORK_NAME_MAX]);

/* A service that gives credentials of this machine to whoever asks. */
bool network_is_metadata(const struct network_address *address);
/* The IPv4 address inside, where a gateway would go on to it; false if there is none. */
bool network_carried(const struct network_address *address, struct network_address *ret);

/* ---- network-idn.c ---- */

/* A name that may have labels beyond ASCII, in A-labels. Returns what is wrong, or NULL. */
const char *idn_to_ascii(const char *text, size_t size, char ret[NETWORK_NAME_MAX]);

/* Are the A-labels of a name in its one spelling Punycode? */
bool idn_is_sound(const char *name);

/* How a name with A-labels reads; false if there is nothing better to show than the name. */
bool idn_to_unicode(const char *name, char *ret, size_t size);

/* ---- network-host.c ---- */

#define NETWORK_RULE_INIT                                                                          \
	{                                                                                          \
		.limits = { SPEC_UNLIMITED, SPEC_UNLIMITED, SPEC_UNLIMITED, SPEC_UNLIMITED }       \
	}

void network_rule_done(struct network_rule *rule);
int network_rule_set_host(struct network_rule *rule, const char *text, size_t size, bool is_deny,
			  const char *origin, struct atoll_error *err);
int network_rule_add_port(struct network_rule *rule, const char *text, size_t size,
			  const char *origin, struct atoll_error *err);
int network_rule_add_method(struct network_rule *rule, const char *text, const char *origin,
			    struct atoll_error *err);
int network_rule_add_path(struct network_rule *rule, const char *text, const char *origin,
			  struct atoll_error *err);
int network_rule_set_tls(struct network_rule *rule, const char *word, const char *origin,
			 struct atoll_error *err);
/* A word as HTTP's methods and header names are. */
bool network_is_token(const char *text);
/* "HOST[:PORT[,PORT...]]" */
int network_rule_set_line(struct network_rule *rule, const char *line, bool is_deny,
			  const char *origin, struct atoll_error *err);
/* "*.COM" as "*.com", for accept-broad. */
int network_broad_host(const char *text, const char *origin, char **ret_host,
		       struct atoll_error *err);

/* ---- network.c: add or set one thing. Errors begin with `origin`. ---- */

enum network_limit {
	NETWORK_RATE,
	NETWORK_BYTES,
	NETWORK_CONNECTIONS,
	NETWORK_REQUESTS,
	NETWORK_LIMIT_COUNT,
};
extern const struct spec_limit_info network_limits[NETWORK_LIMIT_COUNT];
uint64_t *network_limit(struct network_limits *limits, enum network_limit id);
uint64_t network_limit_value(const struct network_limits *limits, enum network_limit id);

int network_set_mode(struct network *network, const char *word, const char *origin,
		     struct atoll_error *err);
int network_set_limit(struct network_limits *limits, enum network_limit id, const char *text,
		      const char *origin, struct atoll_error *err);
int network_set_ask(struct network *network, bool asks, const char *origin,
		    struct atoll_error *err);
int network_set_upstream(struct network *network, const char *text, bool may_have_login,
			 const char *origin, struct atoll_error *err);
/* The rule becomes the list's, or on failure nobody's. */
int network_add_rule(struct network *network, bool is_deny, struct network_rule *rule,
		     const char *origin, struct atoll_error *err);
/* The same; only addresses. */
int network_add_near(struct network *network, struct network_rule *rule, const char *origin,
		     struct atoll_error *err);
/* `from` NULL: not known here. `file` is the absolute path of "file:...". */
int network_add_secret(struct network *network, const char *name, const char *host,
		       const char *header, enum network_source source, const char *from,
		       const char *origin, struct atoll_error *err);
int network_add_listen(struct network *network, const char *port, const char *host_port,
		       const char *origin, struct atoll_error *err);
/* To the line that was added last. */
int network_add_listen_name(struct network *network, const char *name, size_t size,
			    const char *origin, struct atoll_error *err);
void network_listen_done(struct network_listen *listen);
void network_drop_rule(struct network_rule *rules, size_t *n, size_t i);

/* A whole number from 1 to 65535 without a zero in front; 0 for anything else. */
uint16_t network_port(const char *text, size_t size);

const char *network_mode_word(enum network_mode mode);
const char *network_tls_word(enum network_tls tls);
const char *network_source_word(enum network_source source);

/* ---- network-load.c ---- */

/* The section of a job file, whose shape is right. */
int network_load(struct spec *spec, const char *name, const struct tree *section,
		 struct atoll_error *err);
/* The same from egress's configuration. */
int network_load_wire(struct network *network, const struct tree *section, struct atoll_error *err);

/* ---- network-finish.c ---- */

int network_finish(struct spec *spec, struct atoll_error *err);
/* The part of it that needs no job around. */
int network_settle(struct network *network, struct atoll_error *err);

/* ---- network-judge.c ---- */

/* Can a path mean only itself to any server? */
bool network_path_is_plain(const char *path);
bool network_rule_has_name(const struct network_rule *rule, const char *name);

/* ---- network-wire.c ---- */

/* Fields of a JSON object; what was not said is left out. */
void network_write_words(struct json *json, const char *key, char *const *words, size_t n);
void network_write_limits(struct json *json, const struct network_limits *limits);

/* ---- the two texts ---- */

bool network_canonical(const struct network *network, struct json *json);
void network_explain_json(const struct network *network, struct json *json);
void network_explain_text(const struct network *network, struct buf *out);
