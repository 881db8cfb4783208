/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/tsm.h"

#include "auditcmd/hardware.h"
#include "auditcmd/receipt.h"
#include "auditcmd/sign.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"

#include <inttypes.h>
#include <openssl/sha.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>

/*
 * The report of a confidential machine
 *
 * Inside such a guest (SEV-SNP, TDX) the kernel has a directory in configfs. One makes a directory
 * of one's own in it, writes up to 64 bytes, and reads a report that the processor has signed, with
 * these bytes and the measurement of what was booted. `generation` counts what is written: if it
 * rose by anything but our own write, somebody else has written, and the report may be theirs.
 *
 * ATOLL_TSM names another directory, for tests, which imitate all this with plain files and fifos;
 * it is not heeded where the program has more rights than its caller.
 */

#define TSM_DIRECTORY "/sys/kernel/config/tsm/report"
#define TSM_MAX	      (1 << 20)
#define TRIES	      3

static const struct {
	const char *provider, *root;
	size_t at; /* where in the report the 64 bytes stand */
} kinds[] = {
	{"sev_guest", "sev-snp", 0x50},
	{"tdx_guest", "tdx", 48 + 520},
};

static void make_inblob(const struct hardware_claim *claim, unsigned char ret[64])
{
	SHA512_CTX context;

	/* libcrypto marks these functions as deprecated; the new ones can fail and have no
	 * advantage here. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
	SHA512_Init(&context);
	SHA512_Update(&context, claim->checkpoint, claim->checkpoint_size);
	SHA512_Update(&context, claim->signer, sizeof claim->signer);
	SHA512_Update(&context, claim->nonce, sizeof claim->nonce);
	SHA512_Final(ret, &context);
#pragma GCC diagnostic pop
}

static int read_blob(int dir_fd, const char *name, struct buf *ret)
{
	cleanup_fd int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -errno : fd_read_all(fd, ret);
}

static int read_number(int dir_fd, const char *name, uint64_t *ret)
{
	cleanup_buf struct buf text = BUF_INIT(64);
	int r = read_blob(dir_fd, name, &text);

	if (r < 0)
		return r;
	return text.data && sscanf(text.data, "%" SCNu64, ret) == 1 ? 0 : -EBADMSG;
}

static int write_blob(int dir_fd, const char *name, const void *data, size_t size)
{
	cleanup_fd int fd = openat(dir_fd, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -errno : fd_write_all(fd, data, size);
}

struct report {
	struct buf out, aux, provider;
	uint64_t generation, privlevel;
	bool has_privlevel;
};

static void report_done(struct report *report)
{
	buf_done(&report->out);
	buf_done(&report->aux);
	buf_done(&report->provider);
}

/* 1; 0 if another process wrote at the same time. */
static int read_once(int dir_fd, const unsigned char inblob[64], struct report *ret)
{
	uint64_t before, after;
	int r = read_number(dir_fd, "generation", &before);

	ret->out.used = ret->aux.used = ret->provider.used = 0;
	if (r == 0)
		r = write_blob(dir_fd, "inblob", inblob, 64);
	if (r == 0)
		r = read_blob(dir_fd, "outblob", &ret->out);
	if (r == 0)
		r = read_blob(dir_fd, "provider", &ret->provider);
	if (r < 0)
		return r;
	/* Optional attributes. */
	read_blob(dir_fd, "auxblob", &ret->aux);
	ret->has_privlevel = read_number(dir_fd, "privlevel_floor", &ret->privlevel) == 0;
	r = read_number(dir_fd, "generation", &after);
	ret->generation = after;
	return r < 0 ? r : after == before + 1;
}

static int read_report(int dir_fd, const unsigned char inblob[64], struct report *ret,
		       struct atoll_error *err)
{
	int r = 0;

	for (int i = 0; r == 0 && i < TRIES; i++)
		r = read_once(dir_fd, inblob, ret);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "the machine's report (configfs-tsm)");
	if (r == 0)
		return error_set(err, ATOLL_FAULT_HOST, EBUSY,
				 "the machine's report: its generation rises by more than our own "
				 "writing");
	while (ret->provider.used > 0 && ret->provider.data[ret->provider.used - 1] == '\n')
		ret->provider.data[--ret->provider.used] = '\0';
	return ret->out.used > 0 && ret->provider.used > 0
		       ? 0
		       : error_set(err, ATOLL_FAULT_HOST, EBADMSG, "the machine's report is empty");
}

static json_t *describe(const struct report *report, const struct hardware_claim *claim,
			const unsigned char inblob[64])
{
	char nonce[2 * HARDWARE_NONCE_SIZE + 1], in[129];

	sign_hex(claim->nonce, sizeof claim->nonce, nonce);
	sign_hex(inblob, 64, in);
	return json_pack("{s:s, s:s, s:s, s:o, s:o*, s:I, s:o*}", "provider", report->provider.data,
			 "nonce", nonce, "inblob", in, "outblob",
			 sign_base64(report->out.data, report->out.used), "auxblob",
			 report->aux.used ? sign_base64(report->aux.data, report->aux.used) : NULL,
			 "generation", (json_int_t)report->generation, "privlevel",
			 report->has_privlevel ? json_integer((json_int_t)report->privlevel)
					       : NULL);
}

static const char *root_of(const char *provider)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (streq(kinds[i].provider, provider))
			return kinds[i].root;
	return "other";
}

/* The kernel creates the attributes with the directory; the test's imitation a moment later. */
static void wait_for_imitation(int dir_fd)
{
	for (int i = 0; i < 500 && faccessat(dir_fd, "provider", F_OK, 0) < 0; i++)
		poll(NULL, 0, 10);
}

static int open_directory(const char **ret_top, char *ret_name, size_t size)
{
	const char *other = secure_getenv("ATOLL_TSM");
	const char *top = other && other[0] ? other : TSM_DIRECTORY;
	cleanup_fd int top_fd = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd;

	if (top_fd < 0)
		return -errno;
	snprintf(ret_name, size, "%s/atoll-%d", top, getpid());
	if (mkdir(ret_name, 0700) < 0)
		return -errno;
	fd = open(ret_name, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0 && top == other)
		wait_for_imitation(fd);
	*ret_top = top;
	return fd < 0 ? -errno : fd;
}

int tsm_report(const struct hardware_claim *claim, json_t **ret, const char **ret_root,
	       struct atoll_error *err)
{
	cleanup_with(report_done) struct report report = {
		.out = BUF_INIT(TSM_MAX), .aux = BUF_INIT(TSM_MAX), .provider = BUF_INIT(256)};
	unsigned char inblob[64];
	const char *top;
	char name[4096];
	const int fd = open_directory(&top, name, sizeof name);
	int r;

	if (fd == -ENOENT || fd == -ENOTDIR || fd == -EACCES || fd == -EPERM)
		return 0;
	if (fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, -fd, "ask for the machine's report");
	make_inblob(claim, inblob);
	r = read_report(fd, inblob, &report, err);
	close(fd);
	rmdir(name);
	if (r < 0 || !report.provider.data)
		return r;
	*ret = describe(&report, claim, inblob);
	*ret_root = root_of(report.provider.data);
	return *ret ? 1 : error_oom(err);
}

/* ---- the other way round ---- */

static int wrong(struct atoll_error *err, const char *what)
{
	return receipt_refuse(err, EKEYREJECTED, "the machine's report %s", what);
}

int tsm_check(const json_t *report, const struct hardware_claim *claim, struct atoll_error *err)
{
	cleanup_buf struct buf bytes = BUF_INIT(TSM_MAX);
	struct hardware_claim told = *claim;
	const char *provider, *nonce, *outblob;
	unsigned char inblob[64];

	if (json_unpack((json_t *)report, "{s:s, s:s, s:s}", "provider", &provider, "nonce", &nonce,
			"outblob", &outblob) < 0 ||
	    !sign_unhex(nonce, told.nonce, sizeof told.nonce) ||
	    sign_read_base64(outblob, &bytes) < 0)
		return wrong(err, "lacks something");
	make_inblob(&told, inblob);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (streq(kinds[i].provider, provider)) {
			if (bytes.used < kinds[i].at + 64 ||
			    memcmp(bytes.data + kinds[i].at, inblob, 64) != 0)
				return wrong(err, "is about another checkpoint, key or nonce");
			return 0;
		}
	return wrong(err, "is of a kind that is not known here");
}
