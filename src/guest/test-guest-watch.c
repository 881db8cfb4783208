/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/test-guest.h"

struct seen {
	size_t n;
	char lines[4096][64];
	bool has;
	const char *wanted;
	bool is_lost;
};

static void saw(enum guest_event event, const char *name, const struct guest_entry *entry,
		void *data)
{
	static const char kinds[] = "CWRMAL";
	struct seen *seen = data;
	char *line = seen->lines[seen->n++ % 4096];

	snprintf(line, 64, "%c%c %s", kinds[event], entry ? '+' : '-', name);
	if (event == GUEST_LOST)
		seen->is_lost = true;
	if (seen->wanted && strcmp(line, seen->wanted) == 0) {
		seen->has = true;
		loop_stop(&loop);
	}
}

static void armed(const struct guest_entry *entries, size_t n, const struct atoll_error *err,
		  void *data)
{
	(void)entries;
	(void)n;
	CHECK_INT(err->errnum, 0);
	((struct seen *)data)->has = true;
	loop_stop(&loop);
}

static bool has_line(const struct seen *seen, const char *line)
{
	for (size_t i = 0; i < seen->n && i < 4096; i++)
		if (strcmp(seen->lines[i], line) == 0)
			return true;
	return false;
}

static void await_line(struct seen *seen, const char *line)
{
	seen->wanted = line;
	seen->has = has_line(seen, line);
	await(&seen->has);
}

TEST(a_watch_tells_what_happens_also_in_new_directories)
{
	static struct seen seen;
	struct guest_watch *watch;

	begin();
	seen = (struct seen){0};
	CHECK(mkdir(at_home("w"), 0755) == 0 && mkdir(at_home("w/sub"), 0755) == 0);
	put_file("w/old", "");
	watch = guest_watch(&box, NULL, "w", true, true, armed, saw, &seen);
	await(&seen.has);
	put_file("w/f", "text");
	await_line(&seen, "W+ f");
	CHECK(has_line(&seen, "C+ f"));
	put_file("w/sub/g", "");
	await_line(&seen, "C+ sub/g");
	/* At once, so that the guest cannot have watched them before. */
	CHECK(mkdir(at_home("w/n"), 0755) == 0 && mkdir(at_home("w/n/m"), 0755) == 0);
	put_file("w/n/m/h", "x");
	await_line(&seen, "C+ n/m/h");
	CHECK(has_line(&seen, "C+ n") && has_line(&seen, "C+ n/m"));
	put_file("w/n/m/later", "");
	await_line(&seen, "C+ n/m/later");
	CHECK(rename(at_home("w/n"), at_home("w/moved")) == 0);
	await_line(&seen, "C+ moved");
	CHECK(has_line(&seen, "M- n"));
	put_file("w/moved/m/k", "");
	await_line(&seen, "C+ moved/m/k");
	CHECK(!has_line(&seen, "C+ n/m/k"));
	CHECK(chmod(at_home("w/f"), 0600) == 0);
	await_line(&seen, "A+ f");
	CHECK(unlink(at_home("w/f")) == 0);
	await_line(&seen, "R- f");
	guest_unwatch(watch);
	finish();
}

TEST(each_new_name_is_told_once)
{
	static struct seen seen;
	struct guest_watch *watch;
	char name[64], line[80];
	size_t n;

	begin();
	seen = (struct seen){0};
	CHECK(mkdir(at_home("w"), 0755) == 0);
	watch = guest_watch(&box, NULL, "w", true, false, armed, saw, &seen);
	await(&seen.has);
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof name, "w/d%d", i);
		CHECK(mkdir(at_home(name), 0755) == 0);
		snprintf(name, sizeof name, "w/d%d/f", i);
		put_file(name, "");
	}
	await_line(&seen, "C- d99/f");
	put_file("w/end", "");
	await_line(&seen, "C- end");
	for (int i = 0; i < 100; i++) {
		snprintf(line, sizeof line, "C- d%d/f", i);
		n = 0;
		for (size_t k = 0; k < seen.n; k++)
			n += strcmp(seen.lines[k], line) == 0;
		CHECK_INT(n, 1);
	}
	guest_unwatch(watch);
	finish();
}

TEST(a_watch_of_nothing_fails_and_two_may_look_at_one_directory)
{
	static struct seen seen[2];
	struct guest_watch *watches[2];
	struct told told = {0};

	begin();
	memset(seen, 0, sizeof seen);
	guest_unwatch(guest_watch(&box, NULL, "nope", false, false, done, saw, &told));
	watches[0] = guest_watch(&box, NULL, "nope", false, false, done, saw, &told);
	await(&told.is_over);
	CHECK_INT(told.err.errnum, ENOENT);
	CHECK_INT(told.n_calls, 1);
	guest_unwatch(watches[0]);
	for (int i = 0; i < 2; i++) {
		watches[i] = guest_watch(&box, NULL, "", false, false, armed, saw, &seen[i]);
		await(&seen[i].has);
	}
	put_file("f", "");
	await_line(&seen[0], "C- f");
	await_line(&seen[1], "C- f");
	guest_unwatch(watches[0]);
	put_file("g", "");
	await_line(&seen[1], "C- g");
	CHECK(!has_line(&seen[0], "C- g"));
	/* Its end is told to who still looks. */
	kill(guest_pid, SIGKILL);
	await_line(&seen[1], "L- ");
	guest_unwatch(watches[1]);
	finish();
}
