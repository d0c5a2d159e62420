/* SPDX-License-Identifier: Apache-2.0 */
/* One connection cannot keep the loop from the others: what it may do in one turn is bounded. The
 * loop is turned by hand here, so that a turn's work can be counted instead of timed. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "net/http.h"
#include "tests/unit/tap.h"

#define FLOOD      3000
#define TURN_MOST  64 /* requests of one connection in one turn */
#define TURNS_MOST 5000
#define LARGE      12 /* connections with a large body at once */
#define GET        "GET /flood HTTP/1.1\r\nHost: x\r\n\r\n"
#define GET_OTHER  "GET /other HTTP/1.1\r\nHost: x\r\n\r\n"
#define UPGRADE                                                                                    \
    "GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"                 \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"

static uv_loop_t loop;
static struct http_server *server;
static int port;
static int floods, others, messages, larges;
static size_t streamed;

static void on_chunk(struct http_request *req, const char *data, size_t len)
{
    (void)data;
    streamed += len;
    if (!len)
        http_respond(req, 200, NULL, "x", 1);
}

/* Work that grows with the body, as judging a command of 60,000 words does. */
static void on_large_body(struct http_request *req, const char *body, size_t len)
{
    larges += len > 2048 && body[0] == 'b' && body[len - 1] == 'b';
    usleep(5000);
    http_respond(req, 200, NULL, "x", 1);
}

static void on_message(struct ws *ws, bool binary, const char *data, size_t len)
{
    (void)ws;
    (void)binary;
    (void)data;
    (void)len;
    messages++;
}

static void on_request(struct http_request *req, void *data)
{
    static const struct ws_handlers handlers = {on_message, NULL, NULL};
    const char *path = http_request_path(req);
    (void)data;
    if (!strcmp(path, "/ws")) {
        http_upgrade_ws(req, NULL, &handlers, NULL);
        return;
    }
    if (!strcmp(path, "/upload")) {
        http_request_stream_body(req, on_chunk);
        return;
    }
    if (!strcmp(path, "/large")) {
        http_request_read_body(req, 1 << 20, on_large_body, NULL);
        return;
    }
    *(!strcmp(path, "/other") ? &others : &floods) += 1;
    http_respond(req, 200, NULL, "x", 1);
}

static void begin(const char *cert, const char *key)
{
    struct http_options o;
    struct error err = {0};
    bool loopback;
    struct sockaddr_in addr;
    socklen_t len = sizeof(addr);
    floods = others = messages = larges = 0;
    streamed = 0;
    uv_loop_init(&loop);
    http_options_init(&o);
    o.loop = &loop;
    o.on_request = on_request;
    o.config.tls_cert = (char *)cert;
    o.config.tls_key = (char *)key;
    server = http_server_new(&o, &err);
    int fd = http_listen_open("127.0.0.1:0", 16, &loopback, &err);
    getsockname(fd, (struct sockaddr *)&addr, &len);
    port = ntohs(addr.sin_port);
    if (!server || http_server_listen_fd(server, fd, &err) < 0)
        printf("Bail out! %s\n", err.message);
}

static void turn(int times)
{
    while (times--) {
        uv_run(&loop, UV_RUN_NOWAIT);
        usleep(500);
    }
}

static void end(void)
{
    http_server_close(server);
    turn(5);
    ok(uv_loop_close(&loop) == 0, "nothing is left");
}

static int dial(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int size = 4 << 20;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connect(fd, (struct sockaddr *)&addr, sizeof(addr));
    turn(3);
    return fd;
}

static void swallow(int fd)
{
    char buf[65536];
    while (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) > 0)
        ;
}

/* Runs turns until done or the patience ends; the most that *counter grew in one of them. */
static int most_in_a_turn(const int *counter, int goal, int fd)
{
    int most = 0;
    for (int i = 0; i < TURNS_MOST && *counter < goal; i++) {
        int before = *counter;
        uv_run(&loop, UV_RUN_NOWAIT);
        if (*counter - before > most)
            most = *counter - before;
        swallow(fd);
    }
    return most;
}

static void test_pipeline(void)
{
    static char flood[FLOOD * sizeof(GET)];
    begin(NULL, NULL);
    int bad = dial(), good = dial();
    for (size_t i = 0; i < FLOOD; i++)
        memcpy(flood + i * strlen(GET), GET, strlen(GET));
    fd_write_all(bad, flood, FLOOD * strlen(GET));
    uv_run(&loop, UV_RUN_NOWAIT);
    fd_write_all(good, GET_OTHER, strlen(GET_OTHER));
    uv_run(&loop, UV_RUN_NOWAIT);
    ok(others == 1 && floods < FLOOD / 2, "another client is served meanwhile (%d)", floods);
    int most = most_in_a_turn(&floods, FLOOD, bad);
    ok(floods == FLOOD, "every pipelined request is served (%d)", floods);
    ok(most <= TURN_MOST, "at most %d of them in one turn (%d)", TURN_MOST, most);
    close(bad);
    close(good);
    end();
}

static void send_large(int fd, int number)
{
    static const size_t sizes[] = {4096, 8192, 60000};
    static char body[60000];
    char head[128];
    size_t len = sizes[number % 3];
    memset(body, 'b', sizeof(body));
    if (number % 2) { /* its end comes apart from its last byte */
        snprintf(head, sizeof(head),
                 "POST /large HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%zx\r\n",
                 len);
    } else {
        snprintf(head, sizeof(head),
                 "POST /large HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n", len);
    }
    fd_write_all(fd, head, strlen(head));
    fd_write_all(fd, body, len);
    if (number % 2)
        fd_write_all(fd, "\r\n0\r\n\r\n", 7);
}

static void test_large_bodies(void)
{
    int fds[LARGE], most = 0, waited = 0;
    begin(NULL, NULL);
    for (int i = 0; i < LARGE; i++)
        fds[i] = dial();
    int good = dial();
    for (int i = 0; i < LARGE; i++)
        send_large(fds[i], i);
    for (int i = 0; i < TURNS_MOST && larges < LARGE; i++) {
        int before = larges;
        if (i % 2 == 0)
            fd_write_all(good, GET_OTHER, strlen(GET_OTHER));
        uv_run(&loop, UV_RUN_NOWAIT);
        waited += others != i / 2 + 1;
        most = larges - before > most ? larges - before : most;
        swallow(good);
    }
    ok(waited == 0, "a small request does not wait for large ones");
    ok(larges == LARGE, "every large one is served (%d)", larges);
    ok(most <= 2, "one or two in one turn (%d)", most);
    for (int i = 0; i < LARGE; i++)
        close(fds[i]);
    close(good);
    end();
}

static void test_upload(void)
{
    static const char head[] =
        "POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 2097152\r\n\r\n";
    static char body[2 << 20];
    begin(NULL, NULL);
    int fd = dial();
    size_t sent = 0, most = 0;
    fd_write_all(fd, head, strlen(head));
    for (int i = 0; i < TURNS_MOST && streamed < sizeof(body); i++) {
        ssize_t n = send(fd, body + sent, sizeof(body) - sent, MSG_DONTWAIT);
        size_t before = streamed;
        sent += n > 0 ? (size_t)n : 0;
        uv_run(&loop, UV_RUN_NOWAIT);
        if (streamed - before > most)
            most = streamed - before;
    }
    ok(streamed == sizeof(body), "an upload comes whole");
    ok(most <= 1 << 19, "in bounded pieces per turn (%zu bytes)", most);
    close(fd);
    end();
}

static void test_ws_flood(void)
{
    static unsigned char frames[100000 * 6];
    begin(NULL, NULL);
    int fd = dial();
    fd_write_all(fd, UPGRADE, strlen(UPGRADE));
    turn(3);
    swallow(fd);
    for (size_t i = 0; i < sizeof(frames); i += 6)
        memcpy(frames + i, "\x82\x80\1\1\1\1", 6);
    fd_write_all(fd, frames, sizeof(frames));
    int most = most_in_a_turn(&messages, 100000, fd);
    ok(messages == 100000, "every message of a flood comes (%d)", messages);
    ok(most <= 2 * 32 * 4096 / 6 + 1000, "a bounded number in one turn (%d)", most);
    close(fd);
    end();
}

/* --- TLS */

static char *pem_of(BIO *bio)
{
    char *data;
    long n = BIO_get_mem_data(bio, &data);
    return strndup(data, (size_t)n);
}

static void make_certificate(char **ret_cert, char **ret_key)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    X509_gmtime_adj(X509_getm_notBefore(x), 0);
    X509_gmtime_adj(X509_getm_notAfter(x), 3600);
    X509_set_pubkey(x, key);
    X509_sign(x, key, EVP_sha256());
    BIO *c = BIO_new(BIO_s_mem()), *k = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(c, x);
    PEM_write_bio_PrivateKey(k, key, NULL, NULL, 0, NULL, NULL);
    *ret_cert = pem_of(c);
    *ret_key = pem_of(k);
    BIO_free(c);
    BIO_free(k);
    X509_free(x);
    EVP_PKEY_free(key);
}

/* A client over memory, so that one thread can be both ends. */
static SSL *tls_client(SSL_CTX *ctx)
{
    SSL *ssl = SSL_new(ctx);
    SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(ssl);
    return ssl;
}

static void push(SSL *ssl, int fd)
{
    char *data;
    long n = BIO_get_mem_data(SSL_get_wbio(ssl), &data);
    if (n > 0)
        fd_write_all(fd, data, (size_t)n);
    (void)BIO_reset(SSL_get_wbio(ssl));
}

/* Whether the server's end is still open. */
static bool pull(SSL *ssl, int fd)
{
    char buf[16384];
    ssize_t n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
    if (n > 0)
        BIO_write(SSL_get_rbio(ssl), buf, (int)n);
    return n > 0 || (n < 0 && errno == EAGAIN);
}

static void shake_hands(SSL *ssl, int fd)
{
    for (int i = 0; i < 50 && SSL_do_handshake(ssl) != 1; i++) {
        push(ssl, fd);
        turn(2);
        pull(ssl, fd);
    }
    push(ssl, fd);
    turn(3);
}

static void add_key_updates(SSL *ssl, int n)
{
    for (int i = 0; i < n; i++) {
        SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED);
        SSL_do_handshake(ssl);
    }
}

static void test_key_updates(void)
{
    char *cert, *key;
    make_certificate(&cert, &key);
    begin(cert, key);
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *ssl = tls_client(ctx);
    int fd = dial();
    shake_hands(ssl, fd);
    for (int i = 0; i < 20; i++) {
        add_key_updates(ssl, 10);
        SSL_write(ssl, GET, (int)strlen(GET));
    }
    push(ssl, fd);
    most_in_a_turn(&floods, 20, fd);
    ok(floods == 20, "key updates between requests are taken (%d)", floods);
    add_key_updates(ssl, 1000);
    SSL_write(ssl, GET, (int)strlen(GET));
    push(ssl, fd);
    bool open = true;
    for (int i = 0; i < 100 && open; i++) {
        turn(1);
        open = pull(ssl, fd);
    }
    ok(!open && floods == 20, "a flood of them ends the connection");
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    close(fd);
    end();
    free(cert);
    free(key);
}

int main(void)
{
    test_pipeline();
    test_large_bodies();
    test_upload();
    test_ws_flood();
    test_key_updates();
    return tap_done();
}
