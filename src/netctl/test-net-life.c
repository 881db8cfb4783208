/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of egress, with this program itself in egress's place: started under that name it is
 * what fake_main() does. Which part it plays is said by the proxy's token.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/test.h"
#include "egress/egress.h"
#include "netctl/netctl-process.h"
#include "netctl/netctl.h"
#include "spec/spec.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* ---- the other side ---- */

static const char fake_pem[] = "-----BEGIN CERTIFICATE-----\nfake\n";
static const char fake_store[] = "\xfe\xed\xfe\xed with \0 in it";

static void say(struct egress_message *message, const int *fds, size_t n)
{
	if (fd_send(3, message, sizeof *message, fds, n) < 0)
		_exit(2);
}

static int make_file(const char *data, size_t size)
{
	int fd = memfd_create("file", 0);

	if (write(fd, data, size) != (ssize_t)size)
		_exit(2);
	return fd;
}

static void say_ready(bool has_keystore)
{
	struct egress_message message = {.type = EGRESS_READY, .ports = {43211}};
	int fds[2] = {make_file(fake_pem, sizeof fake_pem - 1), -1};

	if (has_keystore)
		fds[1] = make_file(fake_store, sizeof fake_store - 1);
	say(&message, fds, has_keystore ? 2 : 1);
	close(fds[0]);
	close(fds[1]);
}

static void say_connection(const char *text)
{
	struct egress_message message = {.type = EGRESS_CONNECTION};

	message.connection = (struct atoll_connection){
		.verdict = ATOLL_CONN_ALLOWED, .port = 1, .local_port = 4711, .sent = 3};
	snprintf(message.connection.name, sizeof message.connection.name, "%s", text);
	say(&message, NULL, 0);
}

/* Which descriptors, how many variables, whose session. */
static void say_inheritance(void)
{
	extern char **environ;
	char text[256] = "";
	struct dirent *entry;
	DIR *dir = opendir("/proc/self/fd");

	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(dir))
			snprintf(text + strlen(text), sizeof text - strlen(text), "%s ",
				 entry->d_name);
	snprintf(text + strlen(text), sizeof text - strlen(text), "env %s session %s",
		 environ[0] ? "some" : "none", getsid(0) == getpid() ? "own" : "shared");
	say_connection(text);
}

static void serve(bool is_asking)
{
	struct egress_message message;
	int fds[2];
	size_t n = 2;

	if (fd_receive(3, &message, sizeof message, 0, fds, &n) != sizeof message ||
	    message.type != EGRESS_SOCKETS)
		_exit(3);
	if (is_asking) {
		message = (struct egress_message){
			.type = EGRESS_QUESTION,
			.question = {.id = 7, .port = 443, .local_port = 4711, .name = "a\n.test"}};
		say(&message, NULL, 0);
		n = 0;
		if (fd_receive(3, &message, sizeof message, 0, fds, &n) != sizeof message ||
		    message.type != EGRESS_ANSWER || message.question.id != 7)
			_exit(4);
		say_connection(!message.is_allowed ? "no" : message.is_once ? "once" : "run");
	}
	for (;;) {
		int fd = accept4(fds[0], NULL, NULL, SOCK_CLOEXEC);

		if (fd >= 0 && write(fd, "hi", 2) == 2)
			say_connection("served.test");
		close(fd);
		if (fd < 0) {
			struct pollfd wait[] = {{.fd = fds[0], .events = POLLIN}, {.fd = 3}};

			poll(wait, 2, -1);
			if (wait[1].revents)
				_exit(0);
		}
	}
}

static _Noreturn void fake_main(void)
{
	struct egress_message message;
	char config[65536] = "";
	int fd = -1;
	size_t n = 1;

	if (fd_receive(3, &message, sizeof message, 0, &fd, &n) != sizeof message || fd < 0 ||
	    read(fd, config, sizeof config - 1) <= 0 || write(fd, "x", 1) >= 0)
		_exit(1);
	close(fd);
	if (strstr(config, "\"token\":\"hang\""))
		pause();
	if (strstr(config, "\"token\":\"fail\"")) {
		message = (struct egress_message){.type = EGRESS_FAILED};
		snprintf(message.error.text, sizeof message.error.text, "no luck");
		say(&message, NULL, 0);
		_exit(1);
	}
	if (strstr(config, "\"token\":\"die\""))
		raise(SIGKILL);
	say_ready(strstr(config, "\"keystore\":true") && !strstr(config, "\"token\":\"no store\""));
	if (strstr(config, "\"token\":\"inherit\""))
		say_inheritance();
	if (strstr(config, "\"value\":\"hunter2hunter2\""))
		say_connection("secret.test");
	serve(strstr(config, "\"token\":\"ask\"") != NULL);
	_exit(0);
}

__attribute__((constructor(101))) static void be_the_fake(void)
{
	char name[sizeof NETCTL_PROGRAM] = "";
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);

	bool is_fake = read(fd, name, sizeof name) == sizeof name && streq(name, NETCTL_PROGRAM);

	close(fd);
	if (is_fake)
		fake_main();
}

/* ---- this side ---- */

/* For what never comes: a busy machine may take seconds. */
#define PATIENCE_NS (60 * INT64_C(1000000000))

static struct atoll_error err;
static struct atoll_result result;
static struct atoll_run_options options;
static struct spec *spec;
static struct netctl net;

static void begin(const char *token, bool is_eager)
{
	static struct network_listen port = {.port = 8080};
	char *argv[] = {(char *)"true", NULL};
	ssize_t length;

	result = (struct atoll_result){0};
	options = (struct atoll_run_options){0};
	err = (struct atoll_error){0};
	spec = spec_new("/root", "/tmp", &err);
	CHECK(spec && spec_set_command(spec, argv, "command line", &err) == 0);
	spec->network.mode = NETWORK_RULES;
	spec->network.listen = is_eager ? &port : NULL;
	spec->network.n_listen = is_eager;
	net = (struct netctl){
		.spec = spec, .options = &options, .result = &result, .state = NETCTL_IDLE};
	net.listener_fd = net.dns_fd = net.channel_fd = net.pid_fd = net.slot_fd = -1;
	net.saved_listener_fd = net.saved_dns_fd = net.authority_key_fd = net.announced_fd = -1;
	length = readlink("/proc/self/exe", net.program, sizeof net.program - 1);
	net.program[length] = '\0';
	snprintf(net.token, sizeof net.token, "%s", token);
}

static void finish(void)
{
	netctl_done(&net);
	spec->network.n_listen = 0;
	spec->network.listen = NULL;
	spec->network.n_allow = 0;
	spec->network.allow = NULL;
	spec_free(spec);
}

static void turn(int ms)
{
	struct pollfd fds[NETCTL_WATCHED];

	netctl_want(&net, fds);
	poll(fds, NETCTL_WATCHED, ms);
	netctl_move(&net, fds);
}

/* A listener as the sandbox would give it; its address comes back. */
static struct sockaddr_in attach(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	CHECK(bind(fd, (struct sockaddr *)&address, size) == 0 && listen(fd, 8) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)&address, &size) == 0);
	netctl_attach(&net, fd, -1);
	return address;
}

static int connect_to(const struct sockaddr_in *address)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0)
		return fd;
	close(fd);
	return -errno;
}

static bool is_told(const char *name)
{
	int64_t until_ns = clock_monotonic_ns() + PATIENCE_NS;

	while (clock_monotonic_ns() < until_ns && net.state != NETCTL_ENDED) {
		for (uint32_t i = 0; i < result.n_connections; i++)
			if (streq(result.connections[i].name, name))
				return true;
		turn(100);
	}
	return false;
}

static int32_t whose(void *data, uint16_t local_port, char ret_program[16])
{
	(void)data;
	snprintf(ret_program, 16, "curl");
	return local_port == 4711 ? 42 : 0;
}

TEST(nothing_is_started_before_the_first_use)
{
	struct sockaddr_in address;
	char text[3] = "";
	int fd;

	begin("", false);
	net.find_process = whose;
	CHECK_INT(netctl_open(&net, true, &err), 0);
	address = attach();
	turn(10);
	CHECK_INT(net.state, NETCTL_IDLE);
	CHECK_INT(net.pid, 0);
	fd = connect_to(&address);
	CHECK(fd >= 0);
	CHECK(is_told("served.test"));
	CHECK(read(fd, text, 2) == 2);
	CHECK_STR(text, "hi");
	CHECK_INT(result.connections[0].pid, 42);
	CHECK_STR(result.connections[0].program, "curl");
	CHECK_INT(net.listener_fd, -1);
	close(fd);
	netctl_stop(&net);
	CHECK_STR(result.network_note, "");
	CHECK(connect_to(&address) == -ECONNREFUSED);
	finish();
}

TEST(what_is_needed_first_is_there_before_the_command)
{
	begin("", true);
	CHECK(netctl_starts_first(&net));
	CHECK_INT(netctl_open(&net, true, &err), 0);
	CHECK_INT(net.state, NETCTL_READY);
	CHECK_STR(net.authority, fake_pem);
	CHECK_INT(result.n_published, 1);
	CHECK_INT(result.published[0].port, 8080);
	CHECK_INT(result.published[0].host_port, 43211);
	attach();
	CHECK_INT(net.state, NETCTL_SERVING);
	netctl_stop(&net);
	finish();
}

/* A line of the contract by which TLS is opened. */
static void open_tls(void)
{
	static char host[] = "good.test", origin[] = "o";
	static struct network_rule rule = {.host = host,
					   .domain = host,
					   .tls = NETWORK_TLS_INSPECT,
					   .has_tls = true,
					   .origin = origin};

	spec->network.allow = &rule;
	spec->network.n_allow = 1;
	snprintf(net.trust, sizeof net.trust, "/dev/null");
}

static bool has_java(void)
{
	cleanup_free char *path = NULL;

	return isolate_find_keystores(&path, 1) > 0;
}

TEST(where_tls_is_opened_authorities_are_there_also_for_java)
{
	begin("", true);
	open_tls();
	CHECK_INT(netctl_open(&net, true, &err), 0);
	CHECK_STR(net.extra.bundle, fake_pem);
	if (has_java()) {
		CHECK_INT(net.extra.keystore_size, sizeof fake_store - 1);
		CHECK(net.extra.keystore &&
		      memcmp(net.extra.keystore, fake_store, sizeof fake_store - 1) == 0);
	} else {
		CHECK(!net.extra.keystore);
	}
	finish();
}

TEST(without_namespaces_no_key_store_is_made)
{
	begin("", true);
	open_tls();
	CHECK_INT(netctl_open(&net, false, &err), 0);
	CHECK_STR(net.extra.bundle, fake_pem);
	CHECK(!net.extra.keystore);
	finish();
}

TEST(a_key_store_that_does_not_come_is_told_of)
{
	begin("no store", true);
	open_tls();
	if (has_java()) {
		CHECK(netctl_open(&net, true, &err) < 0);
		CHECK_STR(err.text, "the network's process gave no key store for Java");
	}
	finish();
}

TEST(it_inherits_the_channel_and_nothing_else)
{
	int open_one = open("/etc/passwd", O_RDONLY); /* without O_CLOEXEC */

	begin("inherit", true);
	CHECK_INT(netctl_open(&net, true, &err), 0);
	CHECK(is_told("0 1 2 3 env none session own"));
	close(open_one);
	finish();
}

TEST(secrets_reach_it_and_are_forgotten)
{
	static char name[] = "KEY", host[] = "api.test", header[] = "x", from[] = "TEST_KEY",
		    origin[] = "o";
	struct network_secret secret = {name, host, header, NETWORK_FROM_ENV, from, origin};

	begin("", true);
	setenv("TEST_KEY", "hunter2hunter2", 1);
	spec->network.secrets = &secret;
	spec->network.n_secrets = 1;
	snprintf(net.trust, sizeof net.trust, "/etc/passwd");
	CHECK_INT(secrets_read(&spec->network, &net.secrets, &err), 0);
	CHECK_INT(netctl_open(&net, true, &err), 0);
	CHECK(is_told("secret.test"));
	CHECK(!net.secrets.memory);
	CHECK(net.secrets.list[0].placeholder);
	CHECK(ends_with(net.bundle, fake_pem));
	spec->network.secrets = NULL;
	spec->network.n_secrets = 0;
	finish();
}

TEST(a_failure_before_the_command_is_the_runs)
{
	begin("fail", true);
	CHECK(netctl_open(&net, true, &err) < 0);
	CHECK_STR(err.text, "start the network: no luck");
	finish();
	begin("die", true);
	CHECK(netctl_open(&net, true, &err) < 0);
	CHECK_STR(err.text, "the network's process ended (signal 9): there was no network");
	finish();
	begin("", true);
	snprintf(net.program, sizeof net.program, "/nonexistent/x");
	CHECK_INT(netctl_open(&net, true, &err), -ENOENT);
	CHECK_STR(err.text, "execute '/nonexistent/x': No such file or directory");
	finish();
}

/* It has served one, and is killed. */
static struct sockaddr_in serve_and_die(void)
{
	struct sockaddr_in address;
	int fd;

	begin("", true);
	CHECK_INT(netctl_open(&net, true, &err), 0);
	address = attach();
	fd = connect_to(&address);
	CHECK(fd >= 0 && is_told("served.test"));
	close(fd);
	CHECK_INT(kill(net.pid, SIGKILL), 0);
	return address;
}

TEST(its_death_cuts_the_network_and_is_told)
{
	struct sockaddr_in address = serve_and_die();

	for (int i = 0; i < 50 && net.state != NETCTL_ENDED; i++)
		turn(100);
	CHECK_STR(result.network_note,
		  "the network's process ended (signal 9): connections were cut");
	CHECK(connect_to(&address) == -ECONNREFUSED);
	netctl_stop(&net);
	finish();
}

/* Who was connected may learn of it, and end, before anybody else can see it. */
TEST(its_death_is_told_although_the_run_ends_at_the_same_moment)
{
	serve_and_die();
	netctl_stop(&net);
	CHECK_STR(result.network_note,
		  "the network's process ended (signal 9): connections were cut");
	finish();
}

TEST(a_failure_after_the_start_leaves_the_run_without_a_network)
{
	struct sockaddr_in address;
	int fd;

	begin("fail", false);
	CHECK_INT(netctl_open(&net, true, &err), 0);
	address = attach();
	fd = connect_to(&address);
	for (int i = 0; i < 50 && net.state != NETCTL_ENDED; i++)
		turn(100);
	CHECK_STR(result.network_note, "the network could not be started: no luck");
	CHECK(connect_to(&address) == -ECONNREFUSED);
	close(fd);
	finish();
}

TEST(one_that_hangs_at_its_start_is_ended)
{
	struct sockaddr_in address;
	int fd;

	begin("hang", false);
	CHECK_INT(netctl_open(&net, true, &err), 0);
	address = attach();
	fd = connect_to(&address);
	turn(1000);
	CHECK_INT(net.state, NETCTL_STARTING);
	net.ready_ns = clock_monotonic_ns();
	turn(0);
	CHECK_INT(net.state, NETCTL_ENDED);
	CHECK_STR(result.network_note, "the network's process was ended (not ready within 10 s): "
				       "there was no network");
	close(fd);
	finish();
}

static enum atoll_answer_type never(const struct atoll_question *question, void *data)
{
	(void)question;
	(void)data;
	return ATOLL_ASK_NO;
}

static void ask(bool has_person)
{
	const int64_t until_ns = clock_monotonic_ns() + PATIENCE_NS;

	begin("ask", true);
	net.find_process = whose;
	options.ask = has_person ? never : NULL;
	CHECK_INT(netctl_open(&net, true, &err), 0);
	attach();
	while (has_person && !netctl_next_question(&net)) {
		CHECK(clock_monotonic_ns() < until_ns && net.state != NETCTL_ENDED);
		turn(100);
	}
}

TEST(a_question_gets_its_answer)
{
	struct netctl_question *question;

	ask(true);
	question = netctl_next_question(&net);
	CHECK(question);
	CHECK_STR(question->name, "a?.test");
	CHECK_STR(question->program, "curl");
	CHECK_INT(question->port, 443);
	netctl_answer(&net, 99, ATOLL_ASK_RUN);
	CHECK_INT(net.n_questions, 1);
	netctl_answer(&net, 7, ATOLL_ASK_ONCE);
	CHECK_INT(net.n_questions, 0);
	CHECK(is_told("once"));
	finish();
}

TEST(nobody_to_ask_means_no)
{
	ask(false);
	CHECK(is_told("no"));
	finish();
}

TEST(time_that_is_up_means_no)
{
	ask(true);
	CHECK(netctl_deadline_ns(&net) > clock_monotonic_ns());
	net.questions[0].until_ns = clock_monotonic_ns();
	turn(0);
	CHECK(is_told("no"));
	finish();
}

TEST(an_answer_may_come_later)
{
	struct atoll_answer answer = {.id = 7, .answer = ATOLL_ASK_RUN};
	int ends[2];

	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	ask(true);
	options.answer_fd = ends[0];
	netctl_next_question(&net)->is_asked = true;
	CHECK(write(ends[1], &answer, sizeof answer) == sizeof answer);
	CHECK(is_told("run"));
	finish();
	/* And where nobody is left to give one, it is no. */
	ask(true);
	options.answer_fd = ends[0];
	netctl_next_question(&net)->is_asked = true;
	close(ends[1]);
	CHECK(is_told("no"));
	close(ends[0]);
	finish();
}

TEST(it_ends_with_whoever_started_it)
{
	int ends[2], status;
	pid_t pid, theirs = 0;
	char byte;

	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	pid = fork();
	if (pid == 0) {
		begin("", true);
		if (netctl_open(&net, true, &err) == 0 &&
		    write(ends[1], &net.pid, sizeof net.pid) == sizeof net.pid)
			pause();
		_exit(1);
	}
	close(ends[1]);
	CHECK_INT(fd_read_exact(ends[0], &theirs, sizeof theirs), 0);
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, &status, 0) == pid);
	/* The pipe's other end was never its own: by number, then. */
	for (int i = 0; i < 100 && kill(theirs, 0) == 0; i++)
		usleep(20000);
	CHECK(kill(theirs, 0) < 0 && errno == ESRCH);
	CHECK(read(ends[0], &byte, 1) == 0);
	close(ends[0]);
}
