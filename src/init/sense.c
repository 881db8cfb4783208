/* SPDX-License-Identifier: Apache-2.0 */
#include "init/sense.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "init/call.h"
#include "spec/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A program that insists is told of so often. */
#define AGAIN_NS INT64_C(1000000000)

/* ---- the caller ---- */

/* The number at a field of /proc/PID/stat, counted from what follows the name. */
static long read_field(const char *at, int n)
{
	while (at && n-- > 0) {
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	return at ? strtol(at, NULL, 10) : 0;
}

bool sense_read_caller(pid_t tid, struct sense_caller *ret)
{
	char path[64], text[512];
	cleanup_fd int fd = -1;
	const char *name, *end;
	mode_t mask;
	ssize_t got;

	*ret = (struct sense_caller){.pid = tid};
	snprintf(path, sizeof path, "/proc/%d/stat", tid);
	/* Not by the C library, which makes two calls of it. */
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (got <= 0)
		return false;
	text[got] = '\0';
	name = strchr(text, '(');
	end = strrchr(text, ')'); /* a name may hold anything */
	if (!name || !end || end < name || end[1] != ' ')
		return false;
	snprintf(ret->program, sizeof ret->program, "%.*s", (int)(end - name - 1), name + 1);
	end += 2;
	ret->parent = (pid_t)read_field(end, 1);
	ret->session = (pid_t)read_field(end, 3);
	/* A thread that is not the first one sends no signal at its end. */
	if (read_field(end, 35) == -1)
		resolve_read_status(tid, &mask, &ret->pid);
	return true;
}

void sense_add_step(struct guard *guard, pid_t session, uint32_t step)
{
	struct sense *sense = &guard->sense;

	sense->sessions[sense->n_sessions++ % SENSE_SESSIONS] =
		(struct sense_session){session, step};
	/* What one step has changed another changes again. Memory that was never used stays so. */
	if (sense->n_changes)
		memset(sense->changes, 0, sizeof sense->changes);
	sense->n_changes = 0;
}

/* The latest first: numbers are used again. */
static uint32_t step_of(const struct sense *sense, pid_t session)
{
	for (size_t i = 0; i < SENSE_SESSIONS && i < sense->n_sessions; i++) {
		const struct sense_session *at =
			&sense->sessions[(sense->n_sessions - 1 - i) % SENSE_SESSIONS];

		if (at->session == session)
			return at->step;
	}
	return 0;
}

void sense_fill_caller(const struct guard *guard, pid_t tid, struct notice *notice)
{
	struct sense_caller caller;

	sense_read_caller(tid, &caller);
	notice->pid = caller.pid;
	notice->parent = caller.parent;
	notice->step = step_of(&guard->sense, caller.session);
	memcpy(notice->program, caller.program, sizeof notice->program);
}

/* ---- how it could be allowed ---- */

/* As a word for a shell, or false: a name with control characters is not to be copied. */
static bool write_word(const char *word, char *ret, size_t size)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789/._-+,:=@%~[]";
	size_t used = 0;

	for (const char *at = word; *at; at++) {
		if ((unsigned char)*at < 0x20 || *at == 0x7f)
			return false;
	}
	if (word[strspn(word, plain)] == '\0')
		return (size_t)snprintf(ret, size, "%s", word) < size;
	ret[used++] = '\'';
	for (const char *at = word; *at; at++) {
		if (used + 8 > size)
			return false;
		if (*at == '\'') {
			memcpy(ret + used, "'\\''", 4);
			used += 4;
		} else {
			ret[used++] = *at;
		}
	}
	ret[used++] = '\'';
	ret[used] = '\0';
	return true;
}

static void write_allow(const struct guard *guard, const struct sense_refusal *refusal, char *ret,
			size_t size)
{
	const char *home = guard->config->spec->home, *path = refusal->path;
	char word[SENSE_OBJECT], with_home[PATH_MAX];
	size_t length = strlen(home);

	ret[0] = '\0';
	if (!refusal->flag || !path)
		return;
	if (path_is_within(path, home) && !streq(home, "/") &&
	    (size_t)snprintf(with_home, sizeof with_home, "~%s", path + length) <
		    sizeof with_home &&
	    !strpbrk(with_home, " '\"\\$`!*?[]{}()<>|&;#"))
		path = with_home;
	if (!path[0])
		snprintf(ret, size, "%s", refusal->flag);
	else if (write_word(path, word, sizeof word))
		snprintf(ret, size, "%s %s", refusal->flag, word);
}

/* ---- refusals ---- */

uint64_t sense_hash(uint64_t hash, const char *text)
{
	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
	/* The end counts, so that "a" "bc" is not "ab" "c". */
	return (hash ^ 0xff) * UINT64_C(1099511628211);
}

static uint64_t refusal_hash(const struct sense_refusal *refusal)
{
	uint64_t hash = sense_hash(UINT64_C(14695981039346656037), refusal->action);

	hash = sense_hash(sense_hash(hash, refusal->rule), refusal->object);
	return hash ? hash : 1;
}

static void tell_denial(struct tell *tell, const struct sense_denial *who, const char *object,
			uint64_t count)
{
	struct notice *notice = tell_begin(tell, NOTICE_DENIAL);

	notice->pid = who->pid;
	notice->parent = who->parent;
	notice->step = who->step;
	notice->flags = who->flags;
	notice->value = count;
	memcpy(notice->program, who->program, sizeof notice->program);
	tell_text(tell, who->action);
	tell_text(tell, who->rule);
	tell_text(tell, object);
	tell_text(tell, who->allow);
	tell_end(tell);
}

/* What has been counted there is told before another takes its place. */
static struct sense_denial *take_place(struct guard *guard)
{
	struct sense *sense = &guard->sense;
	struct sense_denial *denial = &sense->denials[sense->next_denial++ % SENSE_DENIALS];

	if (denial->hash && denial->n_more)
		tell_denial(&guard->tell, denial, denial->object, denial->n_more);
	return denial;
}

static void fill_denial(const struct call *call, const struct sense_refusal *refusal,
			struct sense_denial *ret)
{
	struct notice who = {0};

	sense_fill_caller(call->guard, call->tid, &who);
	*ret = (struct sense_denial){
		.flags = refusal->flags, .pid = who.pid, .parent = who.parent, .step = who.step};
	memcpy(ret->program, who.program, sizeof ret->program);
	snprintf(ret->action, sizeof ret->action, "%s", refusal->action);
	snprintf(ret->rule, sizeof ret->rule, "%s", refusal->rule);
	write_allow(call->guard, refusal, ret->allow, sizeof ret->allow);
}

void sense_refused(struct call *call, const struct sense_refusal *refusal)
{
	struct guard *guard = call->guard;
	struct sense *sense = &guard->sense;
	const uint64_t hash = refusal_hash(refusal);
	const int64_t now_ns = clock_monotonic_ns();
	struct sense_denial *denial;
	struct sense_denial single;

	if (!tell_is_on(&guard->tell))
		return;
	for (size_t i = 0; i < SENSE_DENIALS && i < sense->next_denial; i++) {
		denial = &sense->denials[i];
		if (denial->hash != hash)
			continue;
		denial->n_more++;
		if (now_ns - denial->told_ns < AGAIN_NS) {
			if (!sense->due_ns)
				sense->due_ns = now_ns + AGAIN_NS;
			return;
		}
		tell_denial(&guard->tell, denial, denial->object, denial->n_more);
		denial->n_more = 0;
		denial->told_ns = now_ns;
		return;
	}
	denial = strlen(refusal->object) < SENSE_OBJECT ? take_place(guard) : &single;
	fill_denial(call, refusal, denial);
	if (denial != &single) {
		denial->hash = hash;
		denial->told_ns = now_ns;
		strcpy(denial->object, refusal->object);
	}
	tell_denial(&guard->tell, denial, refusal->object, 1);
}

void sense_catch_up(struct guard *guard, int64_t now_ns, bool is_last)
{
	struct sense *sense = &guard->sense;

	if (!sense->due_ns || (now_ns < sense->due_ns && !is_last))
		return;
	for (size_t i = 0; i < SENSE_DENIALS && i < sense->next_denial; i++) {
		struct sense_denial *denial = &sense->denials[i];

		if (!denial->n_more)
			continue;
		if (is_last) {
			tell_finish(&guard->tell, guard->config->control_fd);
			if (guard->tell.packet->size)
				return; /* nobody takes it any more */
		} else if (!tell_has_room(&guard->tell)) {
			return; /* again, when there is */
		}
		tell_denial(&guard->tell, denial, denial->object, denial->n_more);
		denial->n_more = 0;
		denial->told_ns = now_ns;
	}
	sense->due_ns = 0;
}

/* ---- what the guard itself refuses ---- */

/* Which line of the contract would allow it? */
static void find_remedy(const struct call *call, struct sense_refusal *refusal)
{
	const struct spec *spec = call->guard->config->spec;
	const struct spec_rule *rule;

	refusal->path = refusal->object;
	if (streq(refusal->rule, "sockets")) {
		refusal->flag = "--socket";
	} else if (streq(refusal->rule, "network")) {
		refusal->flag = "--allow";
	} else if (streq(refusal->rule, "hide")) {
		rule = spec_rule_inside(spec, refusal->object);
		refusal->flag = streq(refusal->action, "read") || streq(refusal->action, "watch")
					? "--read"
					: "--write";
		if (rule && !rule->is_pattern)
			refusal->path = rule->path;
	} else if (streq(refusal->rule, "limits.files")) {
		refusal->flag = "--files";
		refusal->path = "MORE";
	} else if (streq(refusal->rule, "limits.disk")) {
		refusal->flag = "--disk";
		refusal->path = "MORE";
	}
}

void sense_refused_here(struct call *call)
{
	struct sense_refusal refusal = {
		.action = call->action, .rule = call->rule, .object = call->path};

	find_remedy(call, &refusal);
	sense_refused(call, &refusal);
}
