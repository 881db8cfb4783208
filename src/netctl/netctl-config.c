/* SPDX-License-Identifier: Apache-2.0 */
#include "netctl/netctl-config.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "netctl/netctl.h"
#include "spec/spec.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <sys/mman.h>

/*
 * The configuration of egress: one JSON object in a sealed memfd
 *
 * It has the network section of the contract with earlier answers, placeholders and values of the
 * secrets, this host's addresses and the token. netctl_start() sends it.
 */

/* Enough for the largest job file with the longest spelling of each value. */
#define CONFIG_MAX (16U << 20)

#define AUTHORITY_KEY_MAX 16384

int netctl_find_trust(char *ret, size_t size, struct atoll_error *err)
{
	static const char *const places[] = {"/etc/ssl/certs/ca-certificates.crt",
					     "/etc/pki/tls/certs/ca-bundle.crt",
					     "/etc/ssl/cert.pem"};
	const char *file = getenv("SSL_CERT_FILE");

	if (file && file[0] == '/') {
		if (access(file, R_OK) < 0)
			return error_set(err, ATOLL_FAULT_REQUEST, errno, "SSL_CERT_FILE '%s'",
					 file);
		snprintf(ret, size, "%s", file);
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		if (access(places[i], R_OK) == 0) {
			snprintf(ret, size, "%s", places[i]);
			return 0;
		}
	}
	return error_set(err, ATOLL_FAULT_HOST, ENOENT,
			 "opening TLS needs the authorities that servers are checked with; install "
			 "ca-certificates, or set SSL_CERT_FILE");
}

int netctl_find_upstream(const struct spec *spec, const char **ret, struct atoll_error *err)
{
	static const char *const names[] = {"HTTPS_PROXY", "https_proxy", "HTTP_PROXY",
					    "http_proxy",  "ALL_PROXY",	  "all_proxy"};
	const char *value = NULL, *name = NULL;

	*ret = spec->network.upstream;
	if (!*ret || !streq(*ret, "env"))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(names) && !(value && value[0]); i++)
		value = getenv(name = names[i]);
	*ret = NULL;
	if (!value || !value[0])
		return 0;
	if (!starts_with(value, "http://"))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "upstream: env (%s): %s does not begin with http://, which is the "
				 "only kind of proxy that can be gone through",
				 spec->network.upstream_origin, name);
	*ret = value;
	return 0;
}

/* The contract's network section, with earlier answers as further `allow` lines. */
static int write_network(const struct netctl *net, struct buf *out, struct atoll_error *err)
{
	struct network network = net->spec->network;
	size_t n = network.n_allow + net->n_answers;
	cleanup_free struct network_rule *allow = calloc(n ? n : 1, sizeof *allow);
	const char *upstream;
	int r = netctl_find_upstream(net->spec, &upstream, err);

	if (r < 0)
		return r;
	if (!allow)
		return error_oom(err);
	if (network.n_allow)
		memcpy(allow, network.allow, network.n_allow * sizeof *allow);
	if (net->n_answers)
		memcpy(allow + network.n_allow, net->answers, net->n_answers * sizeof *allow);
	network.allow = allow;
	network.n_allow = n;
	network.upstream = (char *)upstream;
	return network_write(&network, out, err);
}

static void write_secrets(const struct netctl *net, struct json *json)
{
	json_open(json, "secrets", '[');
	for (size_t i = 0; i < net->secrets.n; i++) {
		const struct secret *secret = &net->secrets.list[i];

		json_open(json, NULL, '{');
		json_str(json, "placeholder", secret->placeholder);
		json_strn(json, "value", secret->value, secret->size);
		json_close(json, '}');
	}
	json_close(json, ']');
}

/* Egress refuses this host's own addresses like private ones, even if they are public. */
static void write_own(struct json *json)
{
	struct ifaddrs *all = NULL;

	json_open(json, "own", '[');
	if (getifaddrs(&all) < 0)
		all = NULL;
	for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
		char text[INET6_ADDRSTRLEN];
		const void *address = NULL;
		int family = one->ifa_addr ? one->ifa_addr->sa_family : AF_UNSPEC;

		if (family == AF_INET)
			address = &((const struct sockaddr_in *)(const void *)one->ifa_addr)
					   ->sin_addr;
		else if (family == AF_INET6)
			address = &((const struct sockaddr_in6 *)(const void *)one->ifa_addr)
					   ->sin6_addr;
		if (address && inet_ntop(family, address, text, sizeof text))
			json_str(json, NULL, text);
	}
	json_close(json, ']');
	if (all)
		freeifaddrs(all);
}

/* Egress uses the authority that it gets here, or creates one and sends it back. */
static void write_authority_key(const struct netctl *net, struct json *json)
{
	char text[AUTHORITY_KEY_MAX];
	ssize_t got = net->authority_key_fd >= 0
			      ? pread(net->authority_key_fd, text, sizeof text, 0)
			      : -1;

	json_bool(json, "heir", true);
	if (got > 0)
		json_strn(json, "authority", text, (size_t)got);
	explicit_bzero(text, sizeof text);
}

static int write_json(const struct netctl *net, uint32_t uid, struct buf *out,
		      struct atoll_error *err)
{
	struct json json = {.out = out};
	int r;

	json_open(&json, NULL, '{');
	buf_add_str(out, "\"network\":");
	r = write_network(net, out, err);
	if (r < 0)
		return r;
	json.needs_comma = true;
	if (uid) {
		json_uint(&json, "uid", uid);
		json_uint(&json, "gid", uid);
	}
	write_secrets(net, &json);
	json_str(&json, "trust", net->trust);
	if (net->wants_keystore)
		json_bool(&json, "keystore", true);
	if (net->saves_sockets && network_inspects(&net->spec->network))
		write_authority_key(net, &json);
	json_str(&json, "token", net->token);
	json_str(&json, "resolv", "/etc/resolv.conf");
	json_str(&json, "hosts", "/etc/hosts");
	write_own(&json);
	json_close(&json, '}');
	if (buf_error(out) < 0)
		return error_set(err, ATOLL_FAULT_HOST, -buf_error(out),
				 "write the network's configuration");
	return 0;
}

static int seal_config(const struct buf *text, struct atoll_error *err)
{
	cleanup_fd int fd = memfd_create("atoll-egress", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r;

	if (fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make a memory file");
	r = fd_write_all(fd, text->data, text->used);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "write the network's configuration");
	if (lseek(fd, 0, SEEK_SET) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "seal the network's configuration");
	return take_fd(&fd);
}

int netctl_write_config(const struct netctl *net, uint32_t uid, struct atoll_error *err)
{
	/* In memory that a forked child does not get. The limit keeps the buffer from growing,
	 * which would leave copies of the values in freed memory. */
	size_t room = CONFIG_MAX + net->secrets.used * 6;
	struct buf text = {.data = secrets_alloc(room), .room = room, .limit = room - 1};
	int r;

	if (!text.data)
		return error_oom(err);
	r = write_json(net, uid, &text, err);
	if (r == 0)
		r = seal_config(&text, err);
	secrets_free(text.data, text.used, room);
	return r;
}
