/* SPDX-License-Identifier: Apache-2.0 */
/* One spelling for names and addresses. */
#include "base/scope.h"
#include "base/str.h"
#include "base/test.h"
#include "spec/network-inner.h"

#include <arpa/inet.h>
#include <errno.h>

static const char *name_of(const char *text)
{
	static char name[NETWORK_NAME_MAX];

	return network_name(text, strlen(text), name) < 0 ? "" : name;
}

TEST(names_have_one_spelling)
{
	CHECK_STR(name_of("good.test"), "good.test");
	CHECK_STR(name_of("GOOD.Test"), "good.test");
	CHECK_STR(name_of("good.test."), "good.test");
	CHECK_STR(name_of("_dmarc.a_b.test"), "_dmarc.a_b.test");
	CHECK_STR(name_of("xn--bcher-kva.example"), "xn--bcher-kva.example");
	CHECK_STR(name_of("localhost"), "localhost");
	CHECK_STR(name_of("1.2.3.4.a"), "1.2.3.4.a");
	CHECK_STR(name_of("3com"), "3com");
}

TEST(what_is_no_name_is_refused)
{
	static const char *const bad[] = {"",
					  ".",
					  "..",
					  "a..b",
					  ".a",
					  "a..",
					  "-a.test",
					  "a-.test",
					  "a b",
					  "a/b",
					  "a:1",
					  "a@b",
					  "a\\b",
					  "a%2eb",
					  "*.a",
					  "a\tb",
					  "a\nb",
					  "a,b",
					  "[::1]",
					  "127.0.0.1",
					  "127.1",
					  "a.1",
					  "0x7f.1",
					  "a.0x7f",
					  "0x",
					  "2130706433",
					  "010.0.0.1",
					  "1.2.3.4.",
					  "::1",
					  "g\xc3\xb6.test",
					  "good\xe3\x80\x82test",
					  "good\xef\xbc\x8etest",
					  "a\x7f"};
	char label[80], name[NETWORK_NAME_MAX] = "untouched";

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (network_name(bad[i], strlen(bad[i]), name) != -EINVAL)
			test_fail(__FILE__, __LINE__, "'%s' was taken", bad[i]);
	CHECK_STR(name, "untouched");
	CHECK(network_name("a\0b", 3, name) == -EINVAL);
	memset(label, 'a', sizeof label);
	CHECK(network_name(label, 63, name) == 0);
	CHECK(network_name(label, 64, name) == -EINVAL);
}

TEST(a_name_has_at_most_253_bytes)
{
	char text[300], name[NETWORK_NAME_MAX];

	for (size_t i = 0; i < sizeof text; i++)
		text[i] = i % 50 == 49 ? '.' : 'a';
	CHECK(network_name(text, 253, name) == 0);
	CHECK_INT(strlen(name), 253);
	CHECK(network_name(text, 254, name) == -EINVAL);
	text[253] = '.';
	CHECK(network_name(text, 254, name) == 0);
	text[254] = '.';
	CHECK(network_name(text, 255, name) == -EINVAL);
}

static const char *address_of(const char *text)
{
	struct network_address address;
	static char again[46];

	if (network_address(text, strlen(text), &address) < 0)
		return "";
	network_address_text(&address, again);
	return again;
}

TEST(addresses_are_read_and_written)
{
	static const char *const pairs[][2] = {
		{"192.0.2.1", "192.0.2.1"},
		{"0.0.0.0", "0.0.0.0"},
		{"255.255.255.255", "255.255.255.255"},
		{"::", "::"},
		{"::1", "::1"},
		{"[::1]", "::1"},
		{"2001:DB8::1", "2001:db8::1"},
		{"2001:db8:0:0:0:0:0:1", "2001:db8::1"},
		{"2001:db8:0:1:0:0:0:1", "2001:db8:0:1::1"},
		{"1:0:0:2:0:0:0:3", "1:0:0:2::3"},
		{"1:0:2:3:4:5:6:7", "1:0:2:3:4:5:6:7"},
		{"1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"},
		{"fe80::", "fe80::"},
		{"0:0:1::", "0:0:1::"},
		{"::ffff:192.0.2.1", "192.0.2.1"},
		{"::ffff:c000:201", "192.0.2.1"},
		{"::127.0.0.1", "::7f00:1"},
		{"64:ff9b::192.0.2.33", "64:ff9b::c000:221"},
		{"1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++)
		CHECK_STR(address_of(pairs[i][0]), pairs[i][1]);
}

TEST(what_is_no_address_is_refused)
{
	static const char *const bad[] = {"",
					  "1.2.3",
					  "1.2.3.4.5",
					  "1.2.3.256",
					  "01.2.3.4",
					  "1.2.3.04",
					  "1.2.3.4 ",
					  " 1.2.3.4",
					  "1.2.3.",
					  ".1.2.3",
					  "1..2.3",
					  "0x7f.0.0.1",
					  "127.1",
					  "2130706433",
					  "[1.2.3.4]",
					  "1.2.3.4:80",
					  "+1.2.3.4",
					  "1.2.3.-4",
					  ":",
					  ":::",
					  "1::2::3",
					  "1:2:3:4:5:6:7",
					  "12345::",
					  "g::",
					  "1:2:3:4:5:6:7:8:9",
					  "::1%lo",
					  "fe80::1%25eth0",
					  "[::1",
					  "::1]",
					  "[]",
					  "[[::1]]",
					  "::1/128",
					  "1:",
					  ":1",
					  "1:2:3:4:5:6:7:1.2.3.4",
					  "::1.2.3",
					  "::1.2.3.4:5",
					  "::01.2.3.4",
					  "1:2:3:4:5:6:7:8::",
					  "::1:2:3:4:5:6:7:8"};
	struct network_address address = {{7}};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (network_address(bad[i], strlen(bad[i]), &address) != -EINVAL)
			test_fail(__FILE__, __LINE__, "'%s' was taken", bad[i]);
	CHECK_INT(address.bytes[0], 7);
}

static const char *oddity_of(const char *text)
{
	struct network_address address;
	const char *oddity;

	CHECK(network_address(text, strlen(text), &address) == 0);
	oddity = network_address_oddity(&address);
	return oddity ? oddity : "public";
}

TEST(odd_addresses_are_known)
{
	static const char *const known[][2] = {
		{"0.0.0.0", "this host"},
		{"0.1.2.3", "this host"},
		{"10.255.255.255", "private"},
		{"11.0.0.0", "public"},
		{"100.63.255.255", "public"},
		{"100.64.0.1", "shared (CGNAT)"},
		{"100.100.100.200", "metadata service"},
		{"100.128.0.0", "public"},
		{"127.0.0.1", "loopback"},
		{"127.255.255.254", "loopback"},
		{"168.63.129.16", "metadata service"},
		{"168.63.129.17", "public"},
		{"169.254.169.254", "metadata service"},
		{"169.254.1.1", "link-local"},
		{"172.15.255.255", "public"},
		{"172.16.0.1", "private"},
		{"172.32.0.0", "public"},
		{"192.0.0.192", "metadata service"},
		{"192.0.0.1", "reserved"},
		{"192.168.1.1", "private"},
		{"198.18.0.1", "reserved for tests"},
		{"198.19.255.255", "reserved for tests"},
		{"198.20.0.0", "public"},
		{"224.0.0.1", "multicast"},
		{"240.0.0.1", "reserved"},
		{"255.255.255.255", "reserved"},
		{"1.1.1.1", "public"},
		{"192.0.2.1", "public"},
		{"198.51.100.1", "public"},
		{"203.0.113.1", "public"},
		{"::", "unspecified"},
		{"::1", "loopback"},
		{"::127.0.0.1", "reserved"},
		{"::ffff:127.0.0.1", "loopback"},
		{"::ffff:0:127.0.0.1", "reserved"},
		{"64:ff9b::7f00:1", "loopback"},
		{"64:ff9b::169.254.169.254", "metadata service"},
		{"64:ff9b::1.1.1.1", "public"},
		{"64:ff9b:1::1.1.1.1", "of a local NAT64"},
		{"64:ff9b:1:a701::c612:1", "of a local NAT64"},
		{"100::1", "reserved"},
		{"2001::1", "carrying another (Teredo)"},
		{"2001:db8::1", "public"},
		{"2001:10::1", "reserved"},
		{"2002:7f00:1::", "carrying another (6to4)"},
		{"2606:4700:4700::1111", "public"},
		{"fc00::1", "private"},
		{"fd00:ec2::254", "metadata service"},
		{"fd20:ce::254", "metadata service"},
		{"fe80::1", "link-local"},
		{"fec0::1", "private"},
		{"ff02::1", "multicast"},
		{"4000::1", "reserved"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (!streq(oddity_of(known[i][0]), known[i][1]))
			test_fail(__FILE__, __LINE__, "%s is %s", known[i][0],
				  oddity_of(known[i][0]));
}

TEST(the_c_library_agrees_about_what_we_take)
{
	static const char *const texts[] = {"1.2.3.4",
					    "::",
					    "::1",
					    "1:2:3:4:5:6:7::",
					    "1::8",
					    "::ffff:1.2.3.4",
					    "1:2:3:4:5:6:7:8",
					    "abcd::ef01:0:0"};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct network_address ours;
		uint8_t theirs[16] = {[10] = 0xff, [11] = 0xff};
		bool is_v4 = !strchr(texts[i], ':');

		CHECK(network_address(texts[i], strlen(texts[i]), &ours) == 0);
		CHECK(inet_pton(is_v4 ? AF_INET : AF_INET6, texts[i],
				is_v4 ? theirs + 12 : theirs) == 1);
		CHECK(memcmp(ours.bytes, theirs, 16) == 0);
	}
}

/* ---- beyond ASCII ---- */

static const char *ascii_of(const char *text)
{
	static char name[NETWORK_NAME_MAX];

	return idn_to_ascii(text, strlen(text), name) ? "" : name;
}

TEST(names_beyond_ascii_become_punycode_and_back)
{
	static const char *const pairs[][2] = {
		{"b\u00fccher.example", "xn--bcher-kva.example"},
		{"m\u00fcnchen.de", "xn--mnchen-3ya.de"},
		{"\u4f8b\u3048.\u30c6\u30b9\u30c8", "xn--r8jz45g.xn--zckzah"},
		{"\u043f\u0440\u0438\u043c\u0435\u0440.\u0440\u0444", "xn--e1afmkfd.xn--p1ai"},
		{"\u03c0\u03b1\u03c1\u03ac\u03b4\u03b5\u03b9\u03b3\u03bc\u03b1.test",
		 "xn--hxajbheg2az3al.test"},
		{"\u0645\u062b\u0627\u0644.test", "xn--mgbh0fb.test"},
		{"\u4ed6\u4eec\u4e3a\u4ec0\u4e48\u4e0d\u8bf4\u4e2d\u6587.test",
		 "xn--ihqwcrb4cv8a8dqg056pqjye.test"},
		{"vi\u1ec7t.vn", "xn--vit-5kz.vn"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		char unicode[512];

		CHECK_STR(ascii_of(pairs[i][0]), pairs[i][1]);
		CHECK(idn_to_unicode(pairs[i][1], unicode, sizeof unicode));
		CHECK_STR(unicode, pairs[i][0]);
		CHECK(idn_is_sound(pairs[i][1]));
	}
}

TEST(text_that_programs_disagree_about_is_refused)
{
	static const char *const bad[] = {
		"good\u3002test",    "good\uff0etest",	"good\uff61test",    "go\u200bod.test",
		"go\u00adod.test",   "\u202egood.test", "go\u2066od.test",   "good\ufeff.test",
		"B\u00fccher.test",  "\u00dcber.test",	"u\u0308ber.test",   "stra\u00dfe.test",
		"\u03bf\u03c2.test", "\uff47ood.test",	"\u0391\u03b2.test", "\u041f\u0440.test",
		"p\u0430ypal.test",  "\u03bfk.test",	"a\u05d0.test",	     "\u05d01.test",
		"xn--\u00fc.test",   "ab--\u00fc.test", "\u2126.test",	     "\ufb01x.test",
		"\U0001f600.test",   "\u00b7a.test",	"\u0660\u0627.test", "bad\xff.test"};
	char unicode[64];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (!streq(ascii_of(bad[i]), ""))
			test_fail(__FILE__, __LINE__, "'%s' became %s", bad[i], ascii_of(bad[i]));
	/* What would not have been taken is not shown as if it had been. */
	CHECK(!idn_to_unicode("xn--pypal-4ve.test", unicode, sizeof unicode));
	CHECK(!idn_to_unicode("plain.test", unicode, sizeof unicode));
	CHECK(!idn_to_unicode("xn--99999999.test", unicode, sizeof unicode));
	CHECK(!idn_is_sound("a.xn--99999999.test"));
	CHECK(!idn_is_sound("xn--a_b.test"));
}

TEST(labels_stay_short_in_punycode)
{
	char text[256] = "";

	for (int i = 0; i < 55; i++)
		strcat(text, "\u00fc");
	CHECK(ascii_of(text)[0]);
	strcat(text, "abcdefghijk");
	CHECK_STR(ascii_of(text), "");
}
