/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/report-page.h"

#include "auditcmd/report.h"
#include "base/error.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

/*
 * The HTML page
 *
 * Its Content-Security-Policy names the hashes of its one style and one script: nothing else runs
 * and nothing is loaded. Trusted Types prevent the script from making markup out of text. The facts
 * that need no script are plain HTML.
 */

#define SUM_SIZE 64

static bool sum(const char *text, char ret[SUM_SIZE])
{
	unsigned char hash[EVP_MAX_MD_SIZE];
	unsigned size;

	if (EVP_Digest(text, strlen(text), hash, &size, EVP_sha256(), NULL) != 1)
		return false;
	EVP_EncodeBlock((unsigned char *)ret, hash, (int)size);
	return true;
}

static void add_escaped(const char *text, struct buf *out)
{
	for (; *text; text++) {
		switch (*text) {
		case '<':
			buf_add_str(out, "&lt;");
			break;
		case '>':
			buf_add_str(out, "&gt;");
			break;
		case '&':
			buf_add_str(out, "&amp;");
			break;
		case '"':
			buf_add_str(out, "&quot;");
			break;
		case '\'':
			buf_add_str(out, "&#39;");
			break;
		default:
			buf_add_char(out, *text);
		}
	}
}

/* JSON in a <script> element: "<" is escaped, because "</script" and "<!--" have a meaning
 * there. */
static void add_data(const char *text, struct buf *out)
{
	size_t plain;

	for (; *text; text += plain) {
		plain = strcspn(text, "<>&");
		buf_add(out, text, plain);
		if (!text[plain])
			return;
		buf_addf(out, "\\u%04x", (unsigned)text[plain]);
		plain++;
	}
}

static int add_head(const struct report *report, struct buf *out, struct atoll_error *err)
{
	char style[SUM_SIZE], script[SUM_SIZE];

	if (!sum(report_style, style) || !sum(report_script, script))
		return error_set(err, ATOLL_FAULT_HOST, 0, "compute a hash");
	buf_addf(out,
		 "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		 "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		 "script-src 'sha256-%s'; style-src 'sha256-%s'; img-src data:; base-uri 'none'; "
		 "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'\">\n"
		 "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		 "<meta name=\"color-scheme\" content=\"light dark\">\n"
		 "<meta name=\"referrer\" content=\"no-referrer\">\n"
		 "<meta name=\"robots\" content=\"noindex\">\n<link rel=\"icon\" href=\"data:,\">\n"
		 "<title>",
		 script, style);
	add_escaped(report->title ? report->title : report->run, out);
	buf_add_str(out, " - atoll report</title>\n<style>");
	buf_add_str(out, report_style);
	buf_add_str(out, "</style>\n</head>\n");
	return 0;
}

static void add_summary(const struct report *report, struct buf *out)
{
	buf_add_str(out, "<body>\n<a class=\"skip\" href=\"#main\">Skip to the content</a>\n"
			 "<header>\n<p class=\"kicker\">atoll report</p>\n");
	buf_addf(out, "<h1%s>",
		 report->title && strlen(report->title) > 90 ? " class=\"long\"" : "");
	add_escaped(report->title ? report->title : "No step has begun", out);
	buf_addf(out, "</h1>\n<p class=\"verdict %s\">",
		 !report->verdict  ? "open"
		 : report->is_good ? "good"
				   : "bad");
	add_escaped(report->verdict ? report->verdict : "has not ended", out);
	buf_add_str(out, "</p>\n<p class=\"meta\" id=\"meta\">Run ");
	add_escaped(report->run, out);
	buf_add_str(
		out,
		"</p>\n</header>\n<noscript><p class=\"note\">The rest of this page is drawn by "
		"its own script, which is switched off here. It fetches nothing.</p>"
		"</noscript>\n<nav id=\"nav\" aria-label=\"Sections\"></nav>\n"
		"<main id=\"main\"></main>\n");
}

int report_page(const struct report *report, struct buf *out, struct atoll_error *err)
{
	char *data = json_dumps(report->data, JSON_COMPACT | JSON_REAL_PRECISION(12));
	int r = data ? add_head(report, out, err) : error_oom(err);

	if (r == 0) {
		add_summary(report, out);
		buf_add_str(out, "<script type=\"application/json\" id=\"data\">");
		add_data(data, out);
		buf_add_str(out, "</script>\n<script>");
		buf_add_str(out, report_script);
		buf_add_str(out, "</script>\n</body>\n</html>\n");
		if (buf_error(out) < 0)
			r = error_set(err, ATOLL_FAULT_HOST, -buf_error(out), "make the report");
	}
	free(data);
	return r;
}
