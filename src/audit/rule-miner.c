/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/event-rules-shared.h"

#include <stdio.h>

/* Finds miners by their program names, by the form of a pool's address, and by known pools. */

static const char *const miners[] = {
	"xmrig",	  "xmrig-notls",  "xmr-stak", "xmr-stak-rx", "minerd",	    "cpuminer",
	"cpuminer-opt",	  "ethminer",	  "nbminer",  "t-rex",	     "lolMiner",    "gminer",
	"PhoenixMiner",	  "ccminer",	  "cgminer",  "bfgminer",    "nanominer",   "teamredminer",
	"SRBMiner-MULTI", "kdevtmpfsi",	  "kinsing",  "xmrigDaemon", "xmrig-proxy", "rigel",
	"bzminer",	  "onezerominer", NULL};

/* Flags of miners. An address with "stratum" in its scheme counts for any program. */
static const char *const flags[] = {"--donate-level", "--coin=monero", "--randomx-", "--nicehash",
				    NULL};

static const char *const pools[] = {"nanopool.org",
				    "supportxmr.com",
				    "minexmr.com",
				    "moneroocean.stream",
				    "2miners.com",
				    "f2pool.com",
				    "nicehash.com",
				    "hashvault.pro",
				    "ethermine.org",
				    "c3pool.com",
				    "c3pool.org",
				    "unmineable.com",
				    "herominers.com",
				    "xmrpool.eu",
				    "dwarfpool.com",
				    "minergate.com",
				    "viabtc.io",
				    "poolbinance.com",
				    "antpool.com",
				    "kryptex.network",
				    "p2pool.io",
				    "monerohash.com",
				    "woolypooly.com",
				    "zpool.ca",
				    NULL};

static bool is_below(const char *name, const char *domain)
{
	size_t size = strlen(name), end = strlen(domain);

	return ends_with(name, domain) && (size == end || name[size - end - 1] == '.');
}

static bool is_pool(const struct line *line)
{
	static const uint16_t ports[] = {3333, 4444, 5555, 7777, 14433, 14444, 45560, 45700};

	for (size_t i = 0; pools[i]; i++)
		if (is_below(line->name, pools[i]))
			return true;
	if (!strstr(line->name, "pool") && !strstr(line->name, "xmr") &&
	    !strstr(line->name, "stratum"))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(ports); i++)
		if (line->port == ports[i])
			return true;
	return false;
}

static bool is_telling(const char *arg)
{
	const char *scheme;

	if (arg[0] == '-' && arg[1] == '-')
		for (size_t i = 0; flags[i]; i++)
			if (starts_with(arg, flags[i]))
				return true;
	scheme = strstr(arg, "stratum");
	return scheme && strstr(scheme, "://");
}

static bool look(struct rules *rules, const struct line *line, char *why, size_t size)
{
	(void)rules;
	if (line->kind == LINE_CONNECTION) {
		if (!is_pool(line))
			return false;
		snprintf(why, size, "%s is a pool of miners", shown(line->name));
		return true;
	}
	if (line->kind != LINE_EXEC)
		return false;
	if (rules_is_among(line_base(line->path), miners)) {
		snprintf(why, size, "%s is a miner", shown(line->path));
		return true;
	}
	/* Skip shells: their commands are executions of their own. */
	if (rules_is_shell(line_base(line->path)))
		return false;
	for (size_t i = 1; i < line->argc; i++) {
		if (!is_telling(line->argv[i]))
			continue;
		snprintf(why, size, "%s is told to mine (%s)", shown(line_base(line->path)),
			 shown(line->argv[i]));
		return true;
	}
	return false;
}

const struct rule rule_miner = {look};
