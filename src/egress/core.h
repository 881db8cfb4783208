/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What moves connections: shared by the files of egress that know nothing of HTTP or TLS
 */

#include "base/scope.h"
#include "egress/egress-inner.h"

#define SECOND_NS INT64_C(1000000000)
#define MS_NS	  INT64_C(1000000)

#define FLOWS_MAX     10000
#define NAMES_MAX     65536 /* that have an address at the same time */
#define QUESTIONS_MAX 16    /* open at the same time */

struct sockaddr_in6;

/* ---- egress-confine.c ---- */

/* Whom to become; (uid_t)-1: nobody else. Groups go, too. */
int lock_become(uid_t uid, gid_t gid, struct atoll_error *err);
/* Everything else, and a check that it holds. Nothing is opened, bound or started from here on. */
int lock_in(struct atoll_error *err);
/* How many connections can be had with the descriptors there are. */
size_t lock_flows_max(void);

/* ---- egress-config.c ---- */

struct config {
	uid_t uid; /* (uid_t)-1: stay */
	gid_t gid;
	char *trust, *resolv, *hosts;
	bool wants_keystore;
	bool has_heir;	 /* another one may have to go on after us, under the same authority */
	char *authority; /* that of one who was there before; NULL: a new one is made */
	char token[64];
	struct network_address *own;
	size_t n_own;
	char **placeholders, **values; /* of the contract's secrets, in its order */
	size_t n_secrets;
};

int config_read(const char *text, size_t size, struct network *network, struct config *ret,
		struct atoll_error *err);
void config_done(struct config *config); /* wipes the secrets */

/* ---- channel.c ---- */

struct channel *channel_new(struct egress *egress, int fd);
void channel_free(struct channel *channel);
/* Never blocks. What the supervisor is too slow for is kept, up to a limit, and told as one. */
void channel_tell(struct channel *channel, const struct atoll_connection *connection);
void channel_send(struct channel *channel, const struct egress_message *message);
/* What is kept goes out, with waiting; before the end. False: not all of it did. */
bool channel_flush(struct channel *channel);

/* ---- egress-names.c ---- */

struct names *names_new(void);
void names_free(struct names *names);
/* The number of a name in its one spelling; one that has none gets one, for which the name that
 * was not used for longest may lose its own. 0 if memory has run out. */
uint32_t names_number(struct names *names, const char *name);
/* The name behind an address, or NULL. */
const char *names_of(struct names *names, const struct network_address *address);
/* A connection lives by the name: it stays. */
void names_hold(struct names *names, const char *name);
void names_release(struct names *names, const char *name);

/* ---- dns-message.c ---- */

#define DNS_ANSWER_MAX 1232 /* more than any answer of ours needs */
#define DNS_QUERY_MAX  4096

enum dns_type {
	DNS_A = 1,
	DNS_PTR = 12,
	DNS_AAAA = 28,
};

enum dns_code {
	DNS_NOERROR,
	DNS_FORMERR,
	DNS_SERVFAIL,
	DNS_NXDOMAIN,
	DNS_NOTIMP,
	DNS_REFUSED,
	DNS_BADVERS = 16,
};

struct dns_query {
	uint16_t id, flags, type, class;
	size_t question_size;	   /* from byte 12 on; 0 if there is none that could be repeated */
	bool has_edns, is_blocked; /* set `is_blocked` to have the answer say so */
	char text[256];		   /* the name as asked; bytes that are no name's are '?' */
	size_t n_text;
};

/* -EINVAL: drop it, there is nothing to be said. Otherwise the code to answer with: DNS_NOERROR
 * for a query that can be looked into. */
int dns_read(const uint8_t *data, size_t size, struct dns_query *ret);
/* The answer to a query that was read from `data`, with at most one address. Returns its size. */
size_t dns_write(const uint8_t *data, const struct dns_query *query, enum dns_code code,
		 const uint8_t *address, size_t address_size, uint8_t ret[DNS_ANSWER_MAX]);

/* ---- dns.c ---- */

int dns_serve(struct egress *egress, int udp_fd); /* takes the descriptor */
/* A TCP connection to port 53: takes the descriptor. */
void dns_take(struct egress *egress, int fd);
/* Tell what was refused and not yet told. */
void dns_flush(struct egress *egress);

/* ---- egress-resolve.c ---- */

#define RESOLVE_MAX 16

struct resolve; /* one question under way */

/* Real addresses; or none, and why: -EACCES if it has some that are not allowed. */
typedef void resolve_fn(void *data, const struct network_address *addresses, size_t n, int error,
			const char *reason);

int resolver_new(struct egress *egress, const struct config *config, struct resolver **ret,
		 struct atoll_error *err);
void resolver_free(struct resolver *resolver);
/* `port` is what odd addresses are judged for; 0: any address will do (a proxy of the caller's).
 * `done` is called once, later. */
struct resolve *resolve_start(struct egress *egress, const char *name, uint16_t port,
			      resolve_fn *done, void *data);
void resolve_cancel(struct resolve *resolve); /* takes NULL */
/* Give the answer within this time, and remember for a minute that there was none. */
int resolve_hurry(struct resolve *resolve, int64_t within_ns);
/* Why an address may not be connected to, or NULL. */
const char *resolve_refuses(struct egress *egress, const struct network_address *address,
			    uint16_t port);

void address_to_socket(const struct network_address *address, uint16_t port,
		       struct sockaddr_storage *ret, socklen_t *ret_size);
void address_of_socket(const struct sockaddr_storage *from, struct network_address *ret,
		       uint16_t *ret_port);

/* Is it an address of this host, and the port one that atoll itself listens at? */
bool resolve_is_own_listener(struct egress *egress, const struct network_address *address,
			     uint16_t port);

/* ---- dial.c ---- */

/* A connection that lasts: notice when the other side is no longer there. Short ones end before
 * that would ever be asked, so they are spared the calls. */
#define DIAL_LASTS_NS (5 * SECOND_NS)
void dial_keep_alive(int fd);

/* ---- flow.c ---- */

/* A new flow over an accepted socket, which it takes, from `peer`. NULL: no memory, and the socket
 * is closed. */
struct flow *flow_new(struct egress *egress, int fd, enum flow_kind kind,
		      const struct sockaddr_storage *peer);
/* Accepted sockets are born with what their listener has: once for all of them. */
void flow_prepare_listener(int fd);
/* What a socket may hold in the kernel: as much as it likes as long as there are few. */
void flow_bound_socket(const struct egress *egress, int fd);
/* End what has a limit used up (`share`), or all (NULL). */
void flow_cut(struct egress *egress, const struct pace_share *share, enum atoll_verdict verdict,
	      const char *reason);

/* ---- egress-ask.c ---- */

struct question;

/* Somebody who waits for an answer. */
struct ask_wait {
	struct question *question; /* NULL: nobody does */
	struct ask_wait *previous, *next;
	void (*told)(struct ask_wait *wait, bool is_allowed, const char *reason);
};
enum ask_result {
	ASK_NO,
	ASK_YES,
	ASK_WAIT,  /* `told` will be called, once, unless ask_forget() is */
	ASK_FLOOD, /* too many questions are open */
};
struct asker *asker_new(struct egress *egress);
void asker_free(struct asker *asker);
enum ask_result ask_person(struct egress *egress, const char *who, uint16_t port,
			   uint16_t local_port, struct ask_wait *wait);
void ask_forget(struct ask_wait *wait);
/* `is_once`: for those that wait now; the next one asks again. */
void ask_answer(struct egress *egress, uint64_t id, bool is_allowed, bool is_once);

/* ---- client.c ---- */

int client_serve(struct egress *egress, int listener_fd); /* takes the descriptor */
/* It is known for whom a flow is (name or address, port): judge, ask, dial, look at what it says,
 * and hand it on. `reply` (NULL: there is nobody to be told) says to the client that it may go on,
 * where `reason` is NULL, or why not; false: it could not. */
typedef bool client_reply_fn(struct flow *flow, enum atoll_verdict verdict, const char *reason);
void client_take(struct flow *flow, client_reply_fn *reply);

/* ---- proxy.c ---- */

void proxy_take(struct flow *flow);

enum proxy_result {
	PROXY_MORE,
	PROXY_BAD,	   /* no proxy request; `status` says how to answer */
	PROXY_NEEDS_TOKEN, /* right but for the password */
	PROXY_CONNECT,
	PROXY_FORWARD,
};
struct proxy_request {
	enum proxy_result result;
	char name[NETWORK_NAME_MAX]; /* "" for an address as such */
	struct network_address address;
	uint16_t port;
	size_t used;	     /* bytes of the head */
	const char *problem; /* of PROXY_BAD */
};

#define PROXY_HEAD_MAX 16384

/* The head of a request to the proxy. `token` "" needs no password. */
enum proxy_result proxy_read(const uint8_t *data, size_t size, const char *token,
			     struct proxy_request *ret);

enum socks_step {
	SOCKS_GREETING, /* which ways to say who one is */
	SOCKS_PASSWORD,
	SOCKS_REQUEST,
};
enum socks_result {
	SOCKS_MORE,
	SOCKS_BAD,	/* close */
	SOCKS_REPLY,	/* say `reply` and close */
	SOCKS_CONTINUE, /* say `reply` and go on with `step` */
	SOCKS_CONNECT,
};
struct socks {
	enum socks_step step;
	bool is_v4;
	char name[NETWORK_NAME_MAX];
	struct network_address address;
	uint16_t port;
	size_t used; /* of the bytes given, by what was just read */
	uint8_t reply[10];
	size_t n_reply;
};

/* The next message of a SOCKS client. */
enum socks_result socks_read(struct socks *socks, const uint8_t *data, size_t size,
			     const char *token);
/* The last reply: `code` is one of SOCKS 5. */
size_t socks_reply(const struct socks *socks, uint8_t code, uint8_t ret[10]);

/* ---- pace.c ---- */

struct pace *pace_new(struct egress *egress);
void pace_free(struct pace *pace);
/* A flow whose rule is known counts from here on. False: too many at the same time, or a total is
 * used up. */
bool pace_open(struct flow *flow, const char **ret_reason);
void pace_close(struct flow *flow);

/* A rate, for itself: `level` goes up by `rate` a second to at most `burst`. */
struct bucket {
	uint64_t rate; /* SPEC_UNLIMITED: none */
	uint64_t burst;
	uint64_t level;	  /* what may be taken now */
	int64_t fresh_ns; /* when `level` was right */
};
void bucket_init(struct bucket *bucket, uint64_t rate, uint64_t burst, int64_t now_ns);
/* How much may be taken; if less than `least`, `*ret_again_ns` is when that much will be there. */
uint64_t bucket_look(struct bucket *bucket, uint64_t least, int64_t now_ns, int64_t *ret_again_ns);
void bucket_take(struct bucket *bucket, uint64_t amount);

/* ---- publish.c ---- */

/* Open the host's side of `listen`; before locking in. */
int publish_open(struct egress *egress, uint16_t ret_ports[EGRESS_LISTEN_MAX],
		 struct atoll_error *err);
void publish_serve(struct egress *egress);
void publish_inside(struct egress *egress, const int *fds, size_t n); /* takes them */
