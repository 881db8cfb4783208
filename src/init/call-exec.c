/* SPDX-License-Identifier: Apache-2.0 */
#include "init/call.h"

#include "base/fd.h"
#include "base/path.h"
#include "base/program.h"
#include "base/str.h"
#include "base/uapi.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>

/*
 * A program is executed
 *
 * The kernel decides and does it; what is told is what the caller's memory and the file say a
 * moment before. An execution that will fail for want of the file, as most of a search along PATH
 * do, is none. The first time that a file is seen a descriptor of it goes along, for its hash.
 */

#define KNOWN_MAX    1024
#define PATHS_MAX    (128 * 1024)
#define POINTERS     64
#define ARGUMENT     128   /* read at once, of each */
#define ARGV_COUNTED 65536 /* beyond that the number is not known */

/* Programs seen, and the real path of the one by which they were. */
struct known {
	struct notice_file file;
	uint64_t given; /* hash of the path as it was given */
	uint32_t path;	/* where it stands in `paths` */
	bool is_script;
};

/* From a page on: call_exec_forget() gives them back whole. */
static PROGRAM_PAGES struct known known[KNOWN_MAX];
static PROGRAM_PAGES char paths[PATHS_MAX];
static size_t n_known, n_paths;
_Static_assert(sizeof known % PROGRAM_PAGE == 0, "what is forgotten is zeros");

/* ---- the caller's words ---- */

struct words {
	pid_t tid;
	int dir_fd, flags; /* AT_FDCWD and 0 for execve() */
	char path[PATH_MAX];
	uint64_t argv; /* where the rest of the pointers is */
	uint64_t pointers[POINTERS];
	size_t n_pointers; /* of these, as far as they could be read */
};

static size_t to_page_end(uint64_t address, size_t most)
{
	size_t left = 4096 - (size_t)(address % 4096);

	return left < most ? left : most;
}

/* Path and the first pointers with one call, which is all there is to read mostly. */
static int read_words(struct words *words, uint64_t path, uint64_t argv)
{
	const size_t path_size = to_page_end(path, sizeof words->path);
	const size_t argv_size = to_page_end(argv, sizeof words->pointers);
	const struct iovec here[] = {{words->path, path_size}, {words->pointers, argv_size}};
	const struct iovec there[] = {{(void *)(uintptr_t)path, path_size},
				      {(void *)(uintptr_t)argv, argv_size}};
	ssize_t got = process_vm_readv(words->tid, here, 2, there, argv ? 2 : 1, 0);

	words->argv = argv;
	if (got > 0 && (size_t)got > path_size)
		words->n_pointers = ((size_t)got - path_size) / sizeof *words->pointers;
	if (got >= (ssize_t)path_size && memchr(words->path, '\0', path_size))
		return 0;
	return resolve_read_string(words->tid, path, words->path, sizeof words->path);
}

/* The next pointers, if those at hand did not end the list. */
static void read_pointers(struct words *words, uint64_t from)
{
	const size_t size = to_page_end(from, sizeof words->pointers);

	words->n_pointers = 0;
	if (resolve_read_memory(words->tid, from, words->pointers, size) == 0)
		words->n_pointers = size / sizeof *words->pointers;
}

/* One that did not fit into a first look: to its end, or as much as there is room for. */
static size_t read_rest(pid_t tid, uint64_t address, char *at, size_t room)
{
	size_t used = 0;

	while (used < room) {
		size_t want = to_page_end(address + used, room - used);
		const char *end;

		if (resolve_read_memory(tid, address + used, at + used, want) < 0)
			return used;
		end = memchr(at + used, '\0', want);
		if (end)
			return (size_t)(end - at);
		used += want;
	}
	return used;
}

/* The first bytes of all of them with one call. */
static size_t look_at_texts(const struct words *words, size_t n, char texts[POINTERS][ARGUMENT],
			    struct iovec *there)
{
	struct iovec here[POINTERS];
	size_t total = 0, whole = 0;
	ssize_t got;

	for (size_t i = 0; i < n; i++) {
		const size_t size = to_page_end(words->pointers[i], ARGUMENT);

		here[i] = (struct iovec){texts[i], size};
		there[i] = (struct iovec){(void *)(uintptr_t)words->pointers[i], size};
		total += size;
	}
	got = n ? process_vm_readv(words->tid, here, n, there, n, 0) : 0;
	if (got == (ssize_t)total)
		return n;
	for (ssize_t left = got; whole < n && left >= (ssize_t)here[whole].iov_len; whole++)
		left -= (ssize_t)here[whole].iov_len;
	return whole;
}

/* Some arguments into the notice; `*room` is what all may take. */
static void tell_some(struct tell *tell, const struct words *words, size_t n, size_t *room)
{
	char texts[POINTERS][ARGUMENT], longer[NOTICE_ARGV_MAX];
	struct iovec there[POINTERS];
	const size_t seen = look_at_texts(words, n, texts, there);

	for (size_t i = 0; i < n; i++) {
		const char *text = texts[i], *end = NULL;
		size_t size;

		if (*room == 0) {
			tell->open->flags |= NOTICE_IS_CUT;
			return;
		}
		if (i < seen)
			end = memchr(text, '\0', there[i].iov_len);
		if (end) {
			size = (size_t)(end - text);
		} else {
			size = read_rest(words->tid, words->pointers[i], longer, *room);
			text = longer;
		}
		if (size >= *room) {
			size = *room;
			tell->open->flags |= NOTICE_IS_CUT;
		}
		tell_bytes(tell, text, size);
		*room -= size;
	}
}

static void tell_argv(struct tell *tell, struct words *words)
{
	uint64_t at = words->argv, n = 0;
	size_t room = NOTICE_ARGV_MAX;

	while (at && n < ARGV_COUNTED) {
		size_t here = 0;

		while (here < words->n_pointers && words->pointers[here])
			here++;
		if (tell->open->n_texts < 1024)
			tell_some(tell, words, here, &room);
		else
			tell->open->flags |= NOTICE_IS_CUT;
		n += here;
		if (here < words->n_pointers || words->n_pointers == 0)
			break;
		at += here * sizeof *words->pointers;
		read_pointers(words, at);
	}
	tell->open->value = n;
}

/* ---- the file ---- */

/*
 * What the caller means, O_PATH, without magic links: those are the caller's to follow, and
 * look_again() asks whether it may. Most programs are found by this one call.
 */
static int open_program(const struct words *words)
{
	cleanup_fd int start = -1;
	int fd;

	if (words->path[0] == '\0' || starts_with(words->path, "/proc/"))
		return -ENOENT;
	if (words->path[0] != '/') {
		start = resolve_start(words->tid, words->dir_fd, words->path, 0);
		if (start < 0)
			return start;
	}
	fd = fd_openat2(start < 0 ? AT_FDCWD : start, words->path,
			O_PATH | (words->flags & AT_SYMLINK_NOFOLLOW ? O_NOFOLLOW : 0), 0,
			RESOLVE_NO_MAGICLINKS);
	return fd;
}

static void describe(const struct statx *stx, struct notice_file *ret)
{
	*ret = (struct notice_file){
		.dev = makedev(stx->stx_dev_major, stx->stx_dev_minor),
		.ino = stx->stx_ino,
		.size = stx->stx_size,
		.mtime_ns = stx->stx_mtime.tv_sec * INT64_C(1000000000) + stx->stx_mtime.tv_nsec,
		.ctime_ns = stx->stx_ctime.tv_sec * INT64_C(1000000000) + stx->stx_ctime.tv_nsec,
	};
}

static struct known *find_known(const struct notice_file *file, bool *ret_found)
{
	const uint64_t hash = (file->dev * 31 + file->ino) * UINT64_C(11400714819323198485);
	size_t at = hash >> 54;

	_Static_assert(KNOWN_MAX == 1 << 10, "the ten highest bits are used");
	for (size_t i = 0; i < KNOWN_MAX; i++, at = (at + 1) % KNOWN_MAX) {
		*ret_found = known[at].file.ino && memcmp(&known[at].file, file, sizeof *file) == 0;
		if (*ret_found || !known[at].file.ino)
			return &known[at];
	}
	return NULL;
}

/* Nothing is remembered for ever: what is seen again then is told anew. */
static struct known *make_room(const struct notice_file *file, struct known *place)
{
	bool is_found;

	if (n_known < KNOWN_MAX * 3 / 4 && place)
		return place;
	memset(known, 0, sizeof known);
	n_known = n_paths = 0;
	return find_known(file, &is_found);
}

static void remember(struct known *place, const struct notice_file *file, uint64_t given,
		     const char *path, bool is_script)
{
	size_t size = strlen(path) + 1;

	*place = (struct known){.file = *file, .is_script = is_script};
	n_known++;
	if (size > PATHS_MAX - n_paths)
		return;
	memcpy(paths + n_paths, path, size);
	place->given = given;
	place->path = (uint32_t)n_paths;
	n_paths += size;
}

/* A descriptor to read it with, and whether it is a script; -1 if it may only be executed. */
static int open_to_hash(int object, bool *ret_is_script)
{
	char link[64], start[2] = {0};
	int fd;

	snprintf(link, sizeof link, "/proc/self/fd/%d", object);
	fd = open(link, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	*ret_is_script = fd >= 0 && pread(fd, start, 2, 0) == 2 && memcmp(start, "#!", 2) == 0;
	return fd;
}

/* What is it? False if it cannot be executed. */
static bool look_at_file(int object, struct statx *ret)
{
	char link[64];

	if (statx(object, "", AT_EMPTY_PATH, STATX_BASIC_STATS, ret) < 0)
		return false;
	if (!S_ISREG(ret->stx_mode) || !(ret->stx_mode & 0111))
		return false;
	if ((ret->stx_mode & 0111) == 0111)
		return true;
	snprintf(link, sizeof link, "/proc/self/fd/%d", object);
	return faccessat(AT_FDCWD, link, X_OK, 0) == 0;
}

/* The real path; as it was given where it cannot be had. */
static void tell_file(struct tell *tell, const struct words *words, int object,
		      const struct statx *stx)
{
	const uint64_t given = sense_hash((uint64_t)words->dir_fd, words->path);
	struct notice *notice = tell->open;
	char path[PATH_MAX];
	bool is_known, is_young, is_script;
	struct known *place;
	int fd;

	describe(stx, &notice->file);
	place = find_known(&notice->file, &is_known);
	if (is_known && place->is_script)
		notice->flags |= NOTICE_IS_SCRIPT;
	/* What was changed since we began may be another each time, whatever its times say. */
	is_young = notice->file.ctime_ns >= tell->began_ns;
	if (is_known && !is_young && place->given == given && words->path[0] == '/') {
		tell_text(tell, paths + place->path);
		return;
	}
	if (resolve_fd_path(object, path, sizeof path) < 0)
		snprintf(path, sizeof path, "%s", words->path);
	tell_text(tell, path);
	if (is_known && !is_young)
		return;
	fd = open_to_hash(object, &is_script);
	if (is_script)
		notice->flags |= NOTICE_IS_SCRIPT;
	place = is_young ? NULL : make_room(&notice->file, place);
	if (place)
		remember(place, &notice->file, given, path, is_script);
	if (fd >= 0)
		tell_fd(tell, fd);
}

/* ---- a step's first program ---- */

/* Of the words of struct init_step_head, as much as is of interest. */
struct step_words {
	char text[64 * 1024];
	size_t size, at;
	struct init_step_head head;
};

static PROGRAM_PAGES struct step_words step;

static const char *next_word(struct step_words *words)
{
	const char *word = words->text + words->at;
	const char *end =
		words->at < words->size ? memchr(word, '\0', words->size - words->at) : NULL;

	if (!end)
		return NULL;
	words->at = (size_t)(end - words->text) + 1;
	return word;
}

/* The path that it tries next, as ns/seal.c does it: each entry of PATH in turn that has one. */
static bool write_try(struct step_words *words, unsigned n, char ret[PATH_MAX])
{
	const char *cwd = next_word(words), *name = next_word(words), *word = name, *search = NULL;
	const char *end;

	if (!name)
		return false;
	for (uint32_t i = 1; word && i < words->head.n_argv; i++)
		word = next_word(words);
	for (uint32_t i = 0; word && i < words->head.n_env && !search; i++) {
		word = next_word(words);
		if (word && starts_with(word, "PATH="))
			search = word + strlen("PATH=");
	}
	if (strchr(name, '/'))
		return (size_t)snprintf(ret, PATH_MAX, "%s%s%s", name[0] == '/' ? "" : cwd,
					name[0] == '/' ? "" : "/", name) < PATH_MAX;
	for (; search; search = *end ? end + 1 : NULL) {
		end = strchrnul(search, ':');
		if ((size_t)snprintf(ret, PATH_MAX, "%s%s%.*s/%s", search[0] == '/' ? "" : cwd,
				     search[0] == '/' ? "" : "/", (int)(end - search), search,
				     name) < PATH_MAX &&
		    faccessat(AT_FDCWD, ret, F_OK, 0) == 0 && n-- == 0)
			return true;
	}
	return false;
}

static void tell_step_argv(struct tell *tell, struct step_words *words)
{
	size_t room = NOTICE_ARGV_MAX;
	const char *word;

	words->at = sizeof words->head;
	next_word(words);
	tell->open->value = words->head.n_argv;
	for (uint32_t i = 0; i < words->head.n_argv && tell->open->n_texts < 1024; i++) {
		size_t size;

		word = next_word(words);
		size = word ? strlen(word) : 0;
		if (!word || room == 0)
			break;
		if (size > room)
			size = room;
		tell_bytes(tell, word, size);
		room -= size;
	}
	if (tell->open->n_texts < 1 + words->head.n_argv || room == 0)
		tell->open->flags |= NOTICE_IS_CUT;
}

/* True if this is one; then all is told, or there is nothing to tell. */
static bool see_step(struct call *call, struct words *words)
{
	struct guard *guard = call->guard;
	cleanup_fd int object = -1;
	struct statx stx;
	unsigned n;
	int fd = guard->find_words ? guard->find_words(guard->words_data, call->tid, &n) : -1;
	ssize_t got = fd < 0 ? -1 : pread(fd, step.text, sizeof step.text, 0);

	if (got < (ssize_t)sizeof step.head)
		return false;
	step.size = (size_t)got;
	step.at = sizeof step.head;
	memcpy(&step.head, step.text, sizeof step.head);
	words->dir_fd = AT_FDCWD;
	words->flags = 0;
	if (!write_try(&step, n, words->path))
		return true;
	object = open_program(words);
	if (object < 0 || !look_at_file(object, &stx))
		return true;
	tell_begin(&guard->tell, NOTICE_EXEC);
	sense_fill_caller(guard, call->tid, guard->tell.open);
	tell_file(&guard->tell, words, object, &stx);
	tell_step_argv(&guard->tell, &step);
	tell_end(&guard->tell);
	return true;
}

/*
 * By our own eyes there is no such program. The caller may mean another object by the same words
 * (/dev/fd/5, a link to /proc/self/cwd/x), so its way is walked as it would. What is not there then
 * is answered here: were the kernel told to go on, another thread could have put a path that leads
 * somewhere in the place of this one.
 */
static int look_again(struct call *call, const struct words *words, struct statx *stx)
{
	struct target target = TARGET_INIT;
	int fd, r;

	r = words->path[0]		   ? resolve_path(call->tid, words->dir_fd, words->path,
							  !(words->flags & AT_SYMLINK_NOFOLLOW), 0, &target)
	    : words->flags & AT_EMPTY_PATH ? resolve_fd(call->tid, words->dir_fd, &target)
					   : -ENOENT;
	if (r < 0)
		return r;
	fd = target_open_path(&target);
	target_done(&target);
	if (fd < 0 || look_at_file(fd, stx))
		return fd;
	close(fd);
	return -EACCES;
}

void call_exec_forget(void)
{
	program_drop(&step, sizeof step);
	if (!n_known)
		return;
	program_drop(known, sizeof known);
	program_drop(paths, sizeof paths);
	n_known = n_paths = 0;
}

int call_exec(struct call *call)
{
	struct words words;
	const bool at = call->nr == SYS_execveat;
	struct tell *tell = &call->guard->tell;
	const __u64 *a = call->args;
	cleanup_fd int object = -1;
	struct statx stx;
	int r;

	words.tid = call->tid;
	words.dir_fd = at ? (int)a[0] : AT_FDCWD;
	words.flags = at ? (int)a[4] : 0;
	words.n_pointers = 0;
	words.path[0] = '\0';
	r = read_words(&words, a[at], a[at + 1]);
	if (r == 0)
		object = open_program(&words);
	if (r == 0 && (object < 0 || !look_at_file(object, &stx))) {
		if (object >= 0)
			close(take_fd(&object));
		object = look_again(call, &words, &stx);
		if (object < 0) {
			answer(call, object);
			return 0;
		}
	}
	if (r < 0 && r != -ESRCH) {
		answer(call, r);
		return 0;
	}
	if (r == -ESRCH && see_step(call, &words)) {
		answer_continue(call); /* it is told of */
		return 0;
	}
	tell_begin(tell, NOTICE_EXEC);
	sense_fill_caller(call->guard, call->tid, tell->open);
	if (r == 0) {
		tell_file(tell, &words, object, &stx);
		tell_argv(tell, &words);
	} else {
		/* It keeps us out of its memory: that something was executed is known at least. */
		tell->open->flags |= NOTICE_IS_CUT;
		tell_text(tell, "");
	}
	/* Before it happens. A caller that is killed in this very moment is told of as well. */
	tell_end(tell);
	answer_continue(call);
	return 0;
}
