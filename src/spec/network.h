/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct atoll_error;
struct buf;

/*
 * Whom a job may talk to
 *
 * The `network` part of a contract, and the one place where a name, an address, a method or a path
 * is judged. Deny beats allow; what nothing allows is refused; an empty list allows nothing. All
 * of it are pure functions over text; network_judge() and what it calls allocate nothing.
 *
 * One spelling: names are lower case, without a dot at the end, in A-labels ("xn--..."); every
 * name that arrives goes through network_name() before it is compared, label by label.
 */

enum network_mode {
	NETWORK_OFF,
	NETWORK_RULES, /* what `allow` names */
	NETWORK_OPEN,  /* every public address, and what `allow` names; `deny` still beats it */
};

#define NETWORK_NAME_MAX 254 /* with the final NUL */

/* IPv4 as ::ffff:a.b.c.d. */
struct network_address {
	uint8_t bytes[16];
};

enum network_host_kind {
	NETWORK_EXACT,	 /* "d" */
	NETWORK_BELOW,	 /* "*.d": names one or more labels below d */
	NETWORK_WITHIN,	 /* "**.d": d and all below */
	NETWORK_ANY,	 /* "**": only in `deny` */
	NETWORK_LITERAL, /* an address, or a block "10.0.0.0/8" */
};

/* What happens to the bytes. */
enum network_tls {
	NETWORK_TLS_PASS,    /* passed on as they are. On port 443 they must be TLS with the name
			      * in it, on port 80 HTTP with the name in it; on other ports what
			      * looks like either is checked, and the rest passes */
	NETWORK_TLS_INSPECT, /* TLS ends in egress: what is inside is judged, too */
	NETWORK_TLS_OFF,     /* passed on unseen */
};

/* Each SPEC_UNLIMITED if nothing was said. */
struct network_limits {
	uint64_t rate;	      /* bytes a second, both ways together */
	uint64_t bytes;	      /* both ways together, in all */
	uint64_t connections; /* at the same time */
	uint64_t requests;    /* a second: HTTP requests where they are seen, else connections */
};

struct network_rule {
	char *host; /* in its one spelling, for people and for the canonical form */
	enum network_host_kind kind;
	const char *domain;	     /* in `host`, without the stars */
	struct network_address base; /* of NETWORK_LITERAL */
	unsigned prefix;	     /* bits of `base` that count, 96 more for IPv4 */
	uint16_t *ports; /* ascending; none: 80 and 443 of an allow line, all of a deny line */
	size_t n_ports;
	char **methods; /* upper case; none: all */
	size_t n_methods;
	char **paths; /* patterns; none: all */
	size_t n_paths;
	enum network_tls tls;
	bool has_tls; /* somebody said which */
	struct network_limits limits;
	char *origin;
};

enum network_source {
	NETWORK_FROM_ENV,     /* a variable of the caller's */
	NETWORK_FROM_FILE,    /* a file of the caller's; one line end at its end does not count */
	NETWORK_FROM_COMMAND, /* what a command of the caller's prints, likewise; by /bin/sh -c */
	NETWORK_FROM_DAEMON,  /* what a tenant of the daemon's has stored by this name; the daemon
			       * puts a file in its place */
};

/* A credential that stays outside: inside there is a placeholder. */
struct network_secret {
	char *name;   /* the variable inside */
	char *host;   /* exact, in its one spelling */
	char *header; /* lower case: "authorization" */
	enum network_source source;
	char *from; /* variable, absolute path or command; NULL in egress */
	char *origin;
	/* The header is put into every request to the host, in place of what the program says, and
	 * there is no variable inside. Such a value may be short; then it is not looked for in
	 * answers. */
	bool is_set;
};

/* A port of the sandbox's that the host can reach on its loopback. */
struct network_listen {
	uint16_t port;
	uint16_t host_port; /* 0: any that is free */
	char **names; /* that a request's Host may have beside this machine's own; in their one
		       * spelling, and names beneath them as well */
	size_t n_names;
	char *origin;
};

struct network {
	enum network_mode mode;
	char *mode_origin; /* NULL if nobody said */
	struct network_rule *allow, *deny;
	size_t n_allow, n_deny;
	/* Of what is not public, or this host's own, an allow line counts only for these: literals,
	 * all ports if none is named. Without has_near every allow line counts. */
	struct network_rule *near;
	size_t n_near;
	bool has_near;
	struct network_limits limits; /* of the whole run */
	bool asks;
	char *asks_origin;
	struct network_secret *secrets;
	size_t n_secrets;
	struct network_listen *listen;
	size_t n_listen;
	bool has_proxy_variables; /* HTTP_PROXY and its like are set inside; true by default */
	char *upstream; /* "http://host:port": a proxy to go through; NULL: directly; "env": as
			 * HTTPS_PROXY of the caller says, and replaced by that (which may have
			 * "user:password@" in front of the host) before network_write() */
	char *upstream_origin;
};

void network_init(struct network *network);
void network_done(struct network *network);

/* Is there anything beyond the sandbox's own loopback, in either direction? */
bool network_is_on(const struct network *network);

/* Does any rule or secret need egress to open TLS? Then a certificate is needed before the start.
 */
bool network_inspects(const struct network *network);

/* ---- one spelling ---- */

/* Put a name into its one spelling: `size` bytes at `text`, not NUL-terminated. One dot at the end
 * is dropped. -EINVAL for what is no host name: empty or long labels, over 253 bytes, other
 * characters than letters, digits, "-" and "_", a label that begins or ends with "-", an address.
 * Text beyond ASCII is refused here: on the wire names are A-labels. */
int network_name(const char *text, size_t size, char ret[NETWORK_NAME_MAX]);

/* "192.0.2.1", "2001:db8::1", "[2001:db8::1]"; nothing else: no octal, no short forms, no zone. */
int network_address(const char *text, size_t size, struct network_address *ret);
/* Four bytes as the network has them. */
static inline void network_address_of_v4(const void *v4, struct network_address *ret)
{
	*ret = (struct network_address){{[10] = 0xff, 0xff}};
	memcpy(ret->bytes + 12, v4, 4);
}
void network_address_text(const struct network_address *address, char ret[46]);
bool network_address_is_v4(const struct network_address *address);

/* Why an address is not simply one of the Internet ("loopback", "private", "link-local", "shared
 * (CGNAT)", "multicast", "metadata service", "reserved", ...), or NULL if it is. Addresses that
 * carry another (mapped, NAT64, 6to4, Teredo) are judged by what they carry, or refused. */
const char *network_address_oddity(const struct network_address *address);

/* Is every address of this block simply one of the Internet? */
bool network_block_is_public(const struct network_address *base, unsigned bits);
/* Do the first `bits` bits agree? 96 more for IPv4. */
bool network_block_has(const struct network_address *base, unsigned bits,
		       const struct network_address *address);
/* One of the addresses that stand for names in the sandbox: never meant as such. */
bool network_is_synthetic(const struct network_address *address);
bool network_is_loopback(const struct network_address *address);

/* ---- judging ---- */

enum network_verdict {
	NETWORK_REFUSED, /* nothing allows it */
	NETWORK_DENIED,	 /* a deny line: `*ret_rule` */
	NETWORK_ALLOWED, /* `*ret_rule`, or NULL by NETWORK_OPEN */
	NETWORK_ASK,	 /* nothing speaks about it, and a person may be asked */
};

/* A connection to a name (in its one spelling, `address` NULL) or to an address as such (`name`
 * NULL). Of several allow lines the most specific host counts, then the one that names the port,
 * then the first. An address as such is allowed only by a literal line, or, if it is public, by
 * NETWORK_OPEN. The address that a name resolved to is asked about once more, as such: if the
 * answer is NETWORK_DENIED, a deny line names it, and no name helps. */
enum network_verdict network_judge(const struct network *network, const char *name,
				   const struct network_address *address, uint16_t port,
				   const struct network_rule **ret_rule);

/* May this name be looked up: would network_judge() say allowed or ask for some port? */
bool network_knows(const struct network *network, const char *name);

/* May a name that a rule allows lead to this address, which is not simply public? Only where a
 * literal allow line names it with that port, and `near`, if somebody said so, does as well; a
 * metadata service only by a line of its own, not as a part of a block. */
bool network_allows_odd(const struct network *network, const struct network_address *address,
			uint16_t port);

bool network_rule_has_port(const struct network_rule *rule, bool is_deny, uint16_t port);
/* The n-th port of an allow line, its own or those by default; 0 behind the last. */
uint16_t network_rule_port(const struct network_rule *rule, size_t n);

/* A request within a connection that `rule` allowed; NULL allows all. `path` is the request
 * target's path without the query; one that could mean another to a server ("..", "//", "%2f",
 * "%00", a bare "%", a backslash) matches no pattern. In a pattern "*" stands for any characters
 * but "/", "**" for any at all; "%61" is "a" on both sides. */
bool network_rule_permits(const struct network_rule *rule, const char *method, const char *path);

/* The line for people: "allow *.pypi.org:443 (job.yaml:4)"; a name beyond ASCII in both spellings:
 * "allow xn--bcher-kva.example "bücher.example" (--allow)". */
void network_rule_text(const struct network_rule *rule, bool is_deny, char *ret, size_t size);

/* ---- for the process that does it ---- */

/* As JSON, and back: what egress gets. Not the canonical form (origins are in it, sources of
 * secrets are not). network_read() trusts its input no more than a job file. */
int network_write(const struct network *network, struct buf *out, struct atoll_error *err);
int network_read(const char *text, size_t size, struct network *ret, struct atoll_error *err);
