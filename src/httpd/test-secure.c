/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/test-stage.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

/* ---- a certificate, and a client ---- */

static char certificate_path[256], key_path[256];

static void make_certificate(void)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *certificate = X509_new();
	cleanup_fd int dir = test_tempdir();
	FILE *file;

	CHECK(dir >= 0 && key && certificate);
	snprintf(certificate_path, sizeof certificate_path, "%s/cert", test_tempdir_path());
	snprintf(key_path, sizeof key_path, "%s/key", test_tempdir_path());
	X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
	X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
	X509_set_pubkey(certificate, key);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
				   (const unsigned char *)"test", -1, -1, 0);
	X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
	CHECK(X509_sign(certificate, key, EVP_sha256()) > 0);
	file = fopen(certificate_path, "we");
	CHECK(file && PEM_write_X509(file, certificate) == 1 && fclose(file) == 0);
	file = fopen(key_path, "we");
	CHECK(file && PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL) == 1 &&
	      fclose(file) == 0);
	X509_free(certificate);
	EVP_PKEY_free(key);
}

struct client {
	SSL_CTX *context;
	SSL *ssl;
	int fd;
};

/* True: the handshake has succeeded. */
static bool client_open(struct client *client, int most)
{
	client->context = SSL_CTX_new(TLS_client_method());
	client->fd = dial();
	SSL_CTX_set_min_proto_version(client->context, 0);
	SSL_CTX_set_max_proto_version(client->context, most);
	SSL_CTX_set_cipher_list(client->context, "ALL:@SECLEVEL=0");
	client->ssl = SSL_new(client->context);
	SSL_set_alpn_protos(client->ssl, (const unsigned char *)"\2h2\10http/1.1", 12);
	SSL_set_fd(client->ssl, client->fd);
	return SSL_connect(client->ssl) == 1;
}

static void client_close(struct client *client)
{
	SSL_free(client->ssl);
	SSL_CTX_free(client->context);
	close(client->fd);
}

static void client_say(struct client *client, const char *text)
{
	CHECK(SSL_write(client->ssl, text, (int)strlen(text)) == (int)strlen(text));
}

static const char *client_hear(struct client *client, const char *end)
{
	static char text[8192];
	int n = 0, got;

	for (;;) {
		got = SSL_read(client->ssl, text + n, (int)sizeof text - n - 1);
		if (got <= 0)
			return text;
		n += got;
		text[n] = '\0';
		if (end && ends_with(text, end))
			return text;
	}
}

static void begin(void)
{
	make_certificate();
	start_at("127.0.0.1:0", &(struct server_options){.head_timeout_s = 2}, certificate_path,
		 key_path);
}

TEST(requests_come_through_tls)
{
	struct client client;
	const unsigned char *protocol;
	unsigned size;

	begin();
	CHECK(client_open(&client, 0));
	SSL_get0_alpn_selected(client.ssl, &protocol, &size);
	CHECK(size == 8 && memcmp(protocol, "http/1.1", 8) == 0);
	for (int i = 0; i < 3; i++) {
		client_say(&client,
			   "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
		CHECK(has(client_hear(&client, "hello"), "200 OK"));
	}
	client_say(&client, "GET /peer HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
	CHECK(has(client_hear(&client, NULL), "x/secure"));
	client_close(&client);
	finish();
}

TEST(old_versions_and_plain_text_are_refused)
{
	struct client client;
	cleanup_fd int fd = -1;

	begin();
	CHECK(!client_open(&client, TLS1_1_VERSION));
	client_close(&client);
	CHECK(client_open(&client, TLS1_2_VERSION));
	client_close(&client);
	fd = dial();
	send_text(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
	CHECK(!has(receive_until(fd, NULL), "HTTP"));
	close(take_fd(&fd));
	/* A handshake that does not go on is ended by a time-out. */
	fd = dial();
	send_text(fd, "\x16\x03\x01");
	CHECK(count_until_end(fd) == 0);
	finish();
}

TEST(large_bodies_and_files_come_through_tls)
{
	static char data[1 << 16];
	struct client client;
	size_t n = 0;
	int got;

	begin();
	CHECK(client_open(&client, 0));
	client_say(&client, "POST /count HTTP/1.1\r\nHost: x\r\nContent-Length: 16777216\r\n\r\n");
	for (int i = 0; i < 256; i++)
		CHECK(SSL_write(client.ssl, data, sizeof data) == sizeof data);
	CHECK(has(client_hear(&client, "16777216"), "200 OK"));
	client_say(&client, "POST /slowly HTTP/1.1\r\nHost: x\r\nContent-Length: 65536\r\n\r\n");
	CHECK(SSL_write(client.ssl, data, sizeof data) == sizeof data);
	CHECK(has(client_hear(&client, "65536"), "200 OK"));
	client_say(&client,
		   "GET /file?n=16777216 HTTP/1.1\r\nHost: x\r\n\r\n"
		   "GET /many?n=16777216 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
	while ((got = SSL_read(client.ssl, data, sizeof data)) > 0)
		n += (size_t)got;
	CHECK(n > 2 * 16777216);
	CHECK(SSL_get_error(client.ssl, got) == SSL_ERROR_ZERO_RETURN);
	client_close(&client);
	finish();
}

TEST(who_leaves_is_noticed_through_tls)
{
	struct client client;

	begin();
	CHECK(client_open(&client, 0));
	client_say(&client, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
	CHECK(has(client_hear(&client, "two\r\n"), "200 OK"));
	client_close(&client);
	CHECK(end_report() == 'b');
	finish();
}

TEST(a_connection_can_be_taken_from_tls)
{
	static char data[10000], back[10000];
	struct client client;

	begin();
	CHECK(client_open(&client, 0));
	client_say(&client, "GET /detach HTTP/1.1\r\nHost: x\r\n\r\nrest");
	CHECK_STR(client_hear(&client, NULL), "taken:rest");
	CHECK(end_report() == 'o');
	client_close(&client);
	CHECK(client_open(&client, 0));
	client_say(&client, "GET /mirror HTTP/1.1\r\nHost: x\r\n\r\n");
	for (int i = 0; i < 300; i++) {
		memset(data, 'a' + i % 26, sizeof data);
		CHECK(SSL_write(client.ssl, data, sizeof data) == sizeof data);
		for (size_t n = 0; n < sizeof back;) {
			int got = SSL_read(client.ssl, back + n, (int)(sizeof back - n));

			CHECK(got > 0);
			n += (size_t)got;
		}
		CHECK(memcmp(data, back, sizeof data) == 0);
	}
	SSL_shutdown(client.ssl);
	CHECK(SSL_read(client.ssl, back, sizeof back) <= 0);
	client_close(&client);
	finish();
}
