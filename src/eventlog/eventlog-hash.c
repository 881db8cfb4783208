/* SPDX-License-Identifier: Apache-2.0 */
#include "eventlog/eventlog-hash.h"

#include "base/clock.h"
#include "base/fd.h"
#include "eventlog/notices.h"
#include "layer/layer.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/*
 * Hashes of executed files
 *
 * The same programs are executed again and again. A hash is stored by device, inode, size, mtime
 * and ctime, and the file is not read again. The hash of a file that changed less than two seconds
 * ago is not stored, because two changes can have the same time.
 *
 *   memory         all hashes that this supervisor or holder has looked up
 *   log/hashes     a table for all runs: SLOTS entries, PER_FILE of them for one file, each with a
 *                  checksum. Every process writes entries in place, without a lock: an entry that
 *                  two processes wrote at once, or that is half written, has a wrong checksum and
 *                  counts as empty
 *
 * A file that is in neither is read by a child process, so that the supervisor never waits for a
 * disk. The child has one socket, receives descriptors and returns hashes.
 */

#define SLOTS	   8192
#define PER_FILE   8
#define BUCKETS	   512
#define ENTRIES	   16384	      /* in memory; then all are dropped */
#define FLIGHT_MAX 128		      /* requests in the reader's socket */
#define SIZE_MOST  (INT64_C(1) << 30) /* of a file that is read */
#define READ_S	   10		      /* time for reading it */
#define FRESH_NS   INT64_C(2000000000)

struct slot {
	struct notice_file file;
	unsigned char hash[HASH_SIZE];
	unsigned char sum[8];
};

enum state {
	ASKED,
	KNOWN,
	FAILED,
};

struct entry {
	struct entry *next;
	struct notice_file file;
	enum state state;
	unsigned char hash[HASH_SIZE];
};

struct answer {
	struct notice_file file;
	int32_t code; /* 0 or a negative errno */
	unsigned char hash[HASH_SIZE];
};

struct file_hashes {
	struct entry *buckets[BUCKETS];
	size_t n_entries, n_asked;
	int table_fd; /* -1: not opened yet; -2: could not be opened */
	int reader_fd;
	pid_t reader;
	int64_t since_ns; /* since 1970: FRESH_NS before this object was made */
};

static bool is_same(const struct notice_file *a, const struct notice_file *b)
{
	return memcmp(a, b, sizeof *a) == 0;
}

static size_t spread(const struct notice_file *file)
{
	uint64_t x = file->ino * UINT64_C(0x9e3779b97f4a7c15) ^ file->dev;

	return (size_t)(x >> 40);
}

/* ---- in memory ---- */

static struct entry *look_up(const struct file_hashes *hashes, const struct notice_file *file)
{
	struct entry *entry = hashes->buckets[spread(file) % BUCKETS];

	while (entry && !is_same(&entry->file, file))
		entry = entry->next;
	return entry;
}

static void forget_all(struct file_hashes *hashes)
{
	for (size_t i = 0; i < BUCKETS; i++) {
		for (struct entry *next; hashes->buckets[i]; hashes->buckets[i] = next) {
			next = hashes->buckets[i]->next;
			free(hashes->buckets[i]);
		}
	}
	hashes->n_entries = 0;
}

static struct entry *add(struct file_hashes *hashes, const struct notice_file *file)
{
	struct entry **bucket = &hashes->buckets[spread(file) % BUCKETS], *entry;

	/* An entry that is being read must stay: an execution waits for it. */
	if (hashes->n_entries >= ENTRIES && hashes->n_asked == 0)
		forget_all(hashes);
	entry = calloc(1, sizeof *entry);
	if (!entry)
		return NULL;
	entry->file = *file;
	entry->next = *bucket;
	*bucket = entry;
	hashes->n_entries++;
	return entry;
}

/* ---- the table ---- */

static void compute_sum(const struct slot *slot, unsigned char ret[8])
{
	unsigned char hash[HASH_SIZE];

	hash_sha256(slot, offsetof(struct slot, sum), hash);
	memcpy(ret, hash, 8);
}

static int open_table(struct file_hashes *hashes)
{
	cleanup_with(layer_store_close) struct layer_store store = {.fd = -1};

	if (hashes->table_fd == -1) {
		hashes->table_fd = -2;
		if (layer_store_open(false, &store, NULL) == 0)
			hashes->table_fd = openat(store.fd, "log/hashes",
						  O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (hashes->table_fd < 0)
			hashes->table_fd = -2;
	}
	return hashes->table_fd;
}

static off_t place_of(const struct notice_file *file)
{
	return (off_t)(spread(file) % (SLOTS / PER_FILE) * PER_FILE * sizeof(struct slot));
}

static bool find_in_table(struct file_hashes *hashes, const struct notice_file *file,
			  unsigned char ret[HASH_SIZE])
{
	struct slot slots[PER_FILE];
	int fd = open_table(hashes);
	ssize_t got = fd < 0 ? -1 : pread(fd, slots, sizeof slots, place_of(file));

	for (size_t i = 0; got > 0 && i < (size_t)got / sizeof *slots; i++) {
		unsigned char sum[8];

		if (!is_same(&slots[i].file, file))
			continue;
		compute_sum(&slots[i], sum);
		if (memcmp(sum, slots[i].sum, sizeof sum) != 0)
			continue;
		memcpy(ret, slots[i].hash, HASH_SIZE);
		return true;
	}
	return false;
}

/* Replace an older entry of the same file, an empty one, or any. */
static void write_to_table(struct file_hashes *hashes, const struct notice_file *file,
			   const unsigned char hash[HASH_SIZE])
{
	struct slot slots[PER_FILE] = {0}, slot = {.file = *file};
	int fd = open_table(hashes);
	size_t at = hash[0] % PER_FILE;
	ssize_t done = fd < 0 ? -1 : pread(fd, slots, sizeof slots, place_of(file));

	if (done < 0)
		return;
	for (size_t i = PER_FILE; i > 0; i--) {
		const struct notice_file *other = &slots[i - 1].file;

		if (other->ino == 0 || (other->ino == file->ino && other->dev == file->dev))
			at = i - 1;
	}
	memcpy(slot.hash, hash, HASH_SIZE);
	compute_sum(&slot, slot.sum);
	done = pwrite(fd, &slot, sizeof slot, place_of(file) + (off_t)(at * sizeof slot));
	(void)done; /* after a failed write the file is read again next time */
}

/* ---- the reader ---- */

static void describe(const struct stat *st, struct notice_file *ret)
{
	*ret = (struct notice_file){
		.dev = st->st_dev,
		.ino = st->st_ino,
		.size = (uint64_t)st->st_size,
		.mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
		.ctime_ns = (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec,
	};
}

/* Read the file of the notice. -ESTALE if it has changed since. */
static int read_file(const struct notice_file *file, int fd, unsigned char ret[HASH_SIZE])
{
	struct notice_file now;
	struct stat st;
	int r = fstat(fd, &st) < 0 ? -errno : 0;

	/* A device has no end, and a sparse file of a terabyte takes too long. */
	if (r == 0 && (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != file->size))
		r = -EINVAL;
	if (r == 0 && st.st_size > SIZE_MOST)
		r = -EFBIG;
	if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
		r = -errno;
	alarm(READ_S); /* SIGALRM ends this process if the disk does not answer */
	if (r == 0)
		r = hash_fd(fd, NULL, ret);
	if (r == 0 && fstat(fd, &st) < 0)
		r = -EINVAL;
	if (r < 0)
		return r;
	describe(&st, &now);
	/* The device number is not compared: btrfs and overlays number devices differently in other
	 * mount namespaces. */
	return now.ino == file->ino && now.size == file->size && now.mtime_ns == file->mtime_ns &&
			       now.ctime_ns == file->ctime_ns
		       ? 0
		       : -ESTALE;
}

static _Noreturn void reader_main(int socket_fd, pid_t parent)
{
	struct answer answer;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "atoll-hash");
	if (getppid() != parent || dup2(socket_fd, 0) < 0)
		_exit(1);
	fd_close_range(1, ~0U, false);
	for (;;) {
		int fd = -1;
		size_t n = 1;

		answer = (struct answer){0};
		if (fd_receive(0, &answer.file, sizeof answer.file, 0, &fd, &n) !=
		    sizeof answer.file)
			_exit(0);
		answer.code = n == 1 ? read_file(&answer.file, fd, answer.hash) : -EBADF;
		if (n == 1)
			close(fd);
		if (send(0, &answer, sizeof answer, MSG_NOSIGNAL) < 0)
			_exit(0);
	}
}

static int start_reader(struct file_hashes *hashes)
{
	const pid_t parent = getpid();
	int ends[2];

	if (hashes->reader_fd >= 0)
		return 0;
	if (hashes->reader > 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -EPIPE;
	hashes->reader = fork();
	if (hashes->reader == 0)
		reader_main(ends[1], parent);
	close(ends[1]);
	if (hashes->reader < 0) {
		close(ends[0]);
		return -EAGAIN;
	}
	hashes->reader_fd = ends[0];
	return 0;
}

/* The reader has died: all pending requests have failed. */
static void lose_reader(struct file_hashes *hashes)
{
	close(hashes->reader_fd);
	hashes->reader_fd = -1;
	hashes->n_asked = 0;
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct entry *entry = hashes->buckets[i]; entry; entry = entry->next)
			if (entry->state == ASKED)
				entry->state = FAILED;
}

/* A file that was changed since the run began may change again without a new ctime: through a
 * shared mapping on tmpfs, or within one tick of the clock. */
static bool is_fresh(const struct file_hashes *hashes, const struct notice_file *file)
{
	return file->ctime_ns >= hashes->since_ns;
}

static void handle_answer(struct file_hashes *hashes, const struct answer *answer)
{
	struct entry *entry = look_up(hashes, &answer->file);

	hashes->n_asked--;
	if (!entry || entry->state != ASKED)
		return;
	entry->state = answer->code < 0 ? FAILED : KNOWN;
	memcpy(entry->hash, answer->hash, HASH_SIZE);
	if (answer->code == 0 && !is_fresh(hashes, &answer->file))
		write_to_table(hashes, &answer->file, answer->hash);
}

bool file_hashes_move(struct file_hashes *hashes, bool waits)
{
	struct answer answer;
	bool has_moved = false;

	while (hashes && hashes->reader_fd >= 0 && hashes->n_asked) {
		struct pollfd reader = {.fd = hashes->reader_fd, .events = POLLIN};
		ssize_t got;

		/* Kill a reader that takes too long; its pending requests fail. */
		if (waits && !has_moved && poll(&reader, 1, READ_S * 1000) == 0)
			kill(hashes->reader, SIGKILL);
		got = recv(hashes->reader_fd, &answer, sizeof answer,
			   waits && !has_moved ? 0 : MSG_DONTWAIT);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			break;
		has_moved = true;
		if (got == sizeof answer)
			handle_answer(hashes, &answer);
		else
			lose_reader(hashes);
	}
	return has_moved;
}

/* ---- asking ---- */

static int ask(struct file_hashes *hashes, struct entry *entry, int fd)
{
	int r = start_reader(hashes);

	/* Bound the requests in the socket, so that neither side blocks in a send. */
	while (r == 0 && hashes->n_asked >= FLIGHT_MAX)
		file_hashes_move(hashes, true);
	if (r == 0)
		r = hashes->reader_fd < 0
			    ? -EPIPE
			    : fd_send(hashes->reader_fd, &entry->file, sizeof entry->file, &fd, 1);
	entry->state = r < 0 ? FAILED : ASKED;
	hashes->n_asked += r == 0;
	return r;
}

int file_hashes_find(struct file_hashes *hashes, const struct notice_file *file, int fd,
		     unsigned char ret[HASH_SIZE])
{
	struct entry *entry = look_up(hashes, file);
	int r;

	if (!entry) {
		entry = add(hashes, file);
		if (!entry)
			return -ENOMEM;
		entry->state = find_in_table(hashes, file, entry->hash) ? KNOWN : FAILED;
	}
	/* The last read failed, or the file may have changed without a new ctime: read it again. */
	if (fd >= 0 &&
	    (entry->state == FAILED || (entry->state == KNOWN && is_fresh(hashes, file)))) {
		r = ask(hashes, entry, fd);
		if (r < 0)
			return r;
	}
	if (entry->state == KNOWN)
		memcpy(ret, entry->hash, HASH_SIZE);
	return entry->state == KNOWN ? 1 : entry->state == ASKED ? 0 : -ENODATA;
}

/* ---- life ---- */

struct file_hashes *file_hashes_new(void)
{
	struct file_hashes *hashes = calloc(1, sizeof *hashes);

	if (hashes) {
		hashes->table_fd = hashes->reader_fd = -1;
		hashes->since_ns = (int64_t)clock_real_ns() - FRESH_NS;
	}
	return hashes;
}

int file_hashes_fd(const struct file_hashes *hashes)
{
	return hashes && hashes->n_asked ? hashes->reader_fd : -1;
}

/* The reader exits when its socket is closed. */
static void end_reader(struct file_hashes *hashes)
{
	if (hashes->reader_fd >= 0)
		close(hashes->reader_fd);
	if (hashes->reader > 0)
		while (waitpid(hashes->reader, NULL, 0) < 0 && errno == EINTR)
			;
	hashes->reader_fd = -1;
	hashes->reader = 0;
}

void file_hashes_stop_reader(struct file_hashes *hashes)
{
	if (hashes && hashes->reader_fd >= 0 && !hashes->n_asked)
		end_reader(hashes);
}

void file_hashes_free(struct file_hashes *hashes)
{
	if (!hashes)
		return;
	end_reader(hashes);
	if (hashes->table_fd >= 0)
		close(hashes->table_fd);
	forget_all(hashes);
	free(hashes);
}
