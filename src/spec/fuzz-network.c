/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names, addresses, lines, paths and egress's rules from any bytes
 *
 * The first byte chooses. What is taken must be in its one spelling: taken again it stays the same;
 * and addresses that the C library reads otherwise than we do are a finding.
 */
#include "base/buf.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "spec/network-inner.h"

#include <arpa/inet.h>
#include <stdint.h>

static void name(const char *text, size_t size)
{
	char once[NETWORK_NAME_MAX], twice[NETWORK_NAME_MAX], unicode[1024];

	if (network_name(text, size, once) < 0)
		return;
	if (network_name(once, strlen(once), twice) < 0 || !streq(once, twice))
		abort();
	idn_is_sound(once);
	/* What is shown is what would have been taken for the same. */
	if (idn_to_unicode(once, unicode, sizeof unicode) &&
	    (idn_to_ascii(unicode, strlen(unicode), twice) || !streq(once, twice)))
		abort();
}

static void idn(const char *text, size_t size)
{
	char once[NETWORK_NAME_MAX], twice[NETWORK_NAME_MAX];

	if (idn_to_ascii(text, size, once))
		return;
	if (network_name(once, strlen(once), twice) < 0 || !streq(once, twice))
		abort();
}

static void address(const char *text, size_t size)
{
	struct network_address ours, again;
	uint8_t theirs[16] = {[10] = 0xff, [11] = 0xff};
	char written[46];
	bool is_taken = network_address(text, size, &ours) == 0;
	bool is_theirs = strlen(text) == size && (inet_pton(AF_INET, text, theirs + 12) == 1 ||
						  inet_pton(AF_INET6, text, theirs) == 1);

	if (is_theirs && !(is_taken && memcmp(ours.bytes, theirs, 16) == 0))
		abort();
	if (!is_taken)
		return;
	if (!is_theirs && text[0] != '[')
		abort();
	network_address_oddity(&ours);
	network_address_text(&ours, written);
	if (network_address(written, strlen(written), &again) < 0 ||
	    memcmp(&ours, &again, sizeof ours) != 0)
		abort();
}

static void line(const char *text, bool is_deny)
{
	struct network_rule rule = NETWORK_RULE_INIT, again = NETWORK_RULE_INIT;
	char shown_line[2048];

	if (network_rule_set_line(&rule, text, is_deny, "fuzz", NULL) == 0) {
		if (network_rule_set_host(&again, rule.host, strlen(rule.host), is_deny, "fuzz",
					  NULL) < 0 ||
		    !streq(rule.host, again.host) || rule.kind != again.kind ||
		    rule.prefix != again.prefix)
			abort();
		network_rule_text(&rule, is_deny, shown_line, sizeof shown_line);
	}
	network_rule_done(&rule);
	network_rule_done(&again);
}

/* A pattern, and a path behind a line end. */
static void path(char *text)
{
	struct network_rule rule = NETWORK_RULE_INIT;
	char *target = strchr(text, '\n');

	if (target)
		*target++ = '\0';
	if (target && network_rule_add_path(&rule, text, "fuzz", NULL) == 0 &&
	    network_rule_permits(&rule, "GET", target) && !network_path_is_plain(target))
		abort();
	network_rule_done(&rule);
}

static void judge(const struct network *network, const char *text)
{
	const struct network_rule *rule;
	struct network_address where = {{0}};
	char host[NETWORK_NAME_MAX];
	size_t size = strlen(text);

	memcpy(where.bytes, text, size < 16 ? size : 16);
	if (network_judge(network, NULL, &where, 443, &rule) == NETWORK_ALLOWED && !rule &&
	    network_address_oddity(&where))
		abort();
	network_allows_odd(network, &where, 80);
	if (network_name(text, size < 200 ? size : 200, host) == 0 &&
	    network_judge(network, host, NULL, 443, &rule) == NETWORK_ALLOWED &&
	    !network_knows(network, host))
		abort();
}

static void wire(const char *text, size_t size, const char *host)
{
	cleanup_buf struct buf once = BUF_INIT(4 << 20), twice = BUF_INIT(4 << 20);
	struct network network, again;

	if (network_read(text, size, &network, NULL) < 0)
		return;
	judge(&network, host);
	if (network_write(&network, &once, NULL) == 0) {
		if (network_read(once.data, once.used, &again, NULL) < 0)
			abort();
		if (network_write(&again, &twice, NULL) < 0 || !streq(once.data, twice.data))
			abort();
		network_done(&again);
	}
	network_done(&network);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_free char *text = NULL;

	if (size < 1 || size > 65536)
		return 0;
	text = strndup((const char *)data + 1, size - 1);
	if (!text)
		return 0;
	switch (data[0]) {
	case 'n':
		name((const char *)data + 1, size - 1);
		break;
	case 'i':
		idn((const char *)data + 1, size - 1);
		break;
	case 'a':
		address(text, strlen(text));
		break;
	case 'l':
	case 'd':
		line(text, data[0] == 'd');
		break;
	case 'p':
		path(text);
		break;
	default:
		wire((const char *)data, size, text);
	}
	return 0;
}
