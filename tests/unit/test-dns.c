/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of name servers, the files that say whether one is asked, and a lookup by the gateway's
 * loop with a server that first says what does not belong to it. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/address.h"
#include "base/clock.h"
#include "gateway/dns.h"
#include "gateway/rule-set.h"
#include "gateway/session.h"
#include "tests/unit/tap.h"

#define PATIENCE_MS 20000
#define NAME        "www.example.test"

struct reply {
    uint8_t data[1024];
    size_t len;
};

static void put(struct reply *r, const void *data, size_t len)
{
    memcpy(r->data + r->len, data, len);
    r->len += len;
}

#define PUT(r, literal) put(r, literal, sizeof(literal) - 1)

/* An answer to that question, without a record yet. */
static struct reply reply_to(const uint8_t *question, size_t len, uint8_t flags, uint8_t code)
{
    struct reply r = {.len = 0};
    put(&r, question, len);
    r.data[2] = 0x80 | flags;
    r.data[3] = 0x80 | code;
    return r;
}

static void add_record(struct reply *r, const char *owner, size_t owner_len, uint8_t type,
                       const void *data, uint8_t len)
{
    const uint8_t middle[] = {0, type, 0, 1, 0, 0, 0, 60, 0, len};
    put(r, owner, owner_len);
    put(r, middle, sizeof(middle));
    put(r, data, len);
    r->data[7]++;
}

static enum dns_answer parse(const struct reply *r, size_t *n, struct address *ret)
{
    *n = 0;
    return dns_answer_parse(r->data, r->len, NAME, DNS_A, 0x1234, ret, 4, n);
}

static bool is(const struct address *a, const char *text)
{
    char found[ADDRESS_TEXT_SIZE];
    address_format(a, found);
    return strcmp(found, text) == 0;
}

#define QUESTION "\xc0\x0c" /* a pointer to the name that was asked for */

static void test_messages(void)
{
    uint8_t q[DNS_QUESTION_MAX], other[DNS_QUESTION_MAX];
    struct address a[4];
    char name[300];
    size_t n, len = dns_question_format(NAME, DNS_A, 0x1234, q);
    ok(len == 12 + sizeof(NAME) + 1 + 4 &&
           memcmp(q, "\x12\x34\x01\0\0\1\0\0\0\0\0\0\3www", 16) == 0,
       "a question: %zu", len);
    memset(name, 'a', sizeof(name));
    name[64] = 0;
    ok(!dns_question_format(name, DNS_A, 1, other) && !dns_question_format("", DNS_A, 1, other) &&
           !dns_question_format("a..b", DNS_A, 1, other),
       "names that cannot be asked about");
    memset(name, 'a', 254);
    for (size_t i = 63; i < 254; i += 64)
        name[i] = '.';
    name[253] = 0;
    ok(dns_question_format(name, DNS_A, 1, other) == 12 + 255 + 4, "the longest name");

    struct reply r = reply_to(q, len, 0, 0);
    ok(parse(&r, &n, a) == DNS_ADDRESSES && n == 0, "a name without an address");
    add_record(&r, QUESTION, 2, 1, "\x0b\0\0\2", 4);
    add_record(&r, QUESTION, 2, 1, "\x0b\0\0\3", 4);
    add_record(&r, QUESTION, 2, 28, "\x0b\0\0\3\x0b\0\0\3\x0b\0\0\3\x0b\0\0\3", 16);
    ok(parse(&r, &n, a) == DNS_ADDRESSES && n == 2 && is(&a[0], "11.0.0.2") &&
           is(&a[1], "11.0.0.3"),
       "two addresses, and one of another kind");
    for (size_t cut = 0; cut < r.len; cut++) {
        struct reply part = r;
        part.len = cut;
        enum dns_answer answer = parse(&part, &n, a);
        if (n != 0 || answer == DNS_ADDRESSES) {
            ok(false, "cut after %zu bytes it is %d", cut, answer);
            break;
        }
    }
    ok(n == 0, "no part of it is an answer");
    r.data[1] ^= 1;
    ok(parse(&r, &n, a) == DNS_STRANGE && n == 0, "another number");
    r.data[1] ^= 1;
    r.data[13] = 'x';
    ok(parse(&r, &n, a) == DNS_STRANGE, "another name in the question");
    r.data[13] = 'W';
    ok(parse(&r, &n, a) == DNS_ADDRESSES && n == 2, "the same in capitals");

    r = reply_to(q, len, 0, 0);
    add_record(&r, "\5other\4test", 12, 1, "\x0b\0\0\2", 4);
    ok(parse(&r, &n, a) == DNS_ADDRESSES && n == 0, "an address of a name that was not asked for");
    r = reply_to(q, len, 0, 0);
    add_record(&r, QUESTION, 2, 5, "\5other\4test", 12);
    add_record(&r, "\5other\4test", 12, 1, "\x0b\0\0\2", 4);
    ok(parse(&r, &n, a) == DNS_ADDRESSES && n == 1, "an address of its alias");
    r = reply_to(q, len, 0, 3);
    ok(parse(&r, &n, a) == DNS_NO_NAME, "no such name");
    r = reply_to(q, len, 0, 2);
    ok(parse(&r, &n, a) == DNS_UNCLEAR, "a server that failed");
    r = reply_to(q, len, 2, 0);
    ok(parse(&r, &n, a) == DNS_UNCLEAR, "an answer that was cut");
    r = reply_to(q, len, 0, 0);
    char loop[] = {(char)0xc0, (char)r.len};
    add_record(&r, loop, 2, 1, "\x0b\0\0\2", 4);
    ok(parse(&r, &n, a) == DNS_UNCLEAR && n == 0, "a name that is a pointer to itself");
    r = reply_to(q, len, 0, 0);
    add_record(&r, QUESTION, 2, 5, "\3a.b\0", 5);
    ok(parse(&r, &n, a) == DNS_UNCLEAR, "a label with a dot in it");
}

static const char *write_text(const char *text)
{
    static char path[64];
    snprintf(path, sizeof(path), "/tmp/mas-test-dns.%d", (int)getpid());
    unlink(path); /* so that it is another file each time */
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        exit(1);
    return path;
}

static bool finds_server(const char *text, struct address *ret)
{
    struct resolv_file f = {.path = write_text(text)};
    return resolv_file_find(&f, ret);
}

static bool leaves_to_servers(const char *sources, const char *name)
{
    struct hosts_file h = {.switch_path = write_text(sources)};
    struct address a;
    char hosts[64];
    snprintf(hosts, sizeof(hosts), "/tmp/mas-test-dns-hosts.%d", (int)getpid());
    FILE *f = fopen(hosts, "w");
    if (!f || fputs("127.0.0.1 localhost\n10.0.0.1 twice.test\n10.0.0.2 twice.test\n", f) < 0 ||
        fclose(f) != 0)
        exit(1);
    h.path = hosts;
    bool found = hosts_file_find(&h, name, &a), leaves = hosts_file_leaves_to_servers(&h, name);
    hosts_file_done(&h);
    unlink(hosts);
    return !found && leaves;
}

static void test_files(void)
{
    struct address a;
    ok(finds_server(
           "# one\nsearch x.test\nnameserver 10.0.0.53 ; a\nnameserver ::1\noptions ndots:2 edns0\n",
           &a) &&
           is(&a, "10.0.0.53"),
       "the first server, whatever is searched: names are asked for as they are given");
    ok(finds_server(" nameserver 10.0.0.52\n\tnameserver 10.0.0.51\n; x\nnameserver 10.0.0.53\n",
                    &a) &&
           is(&a, "10.0.0.53"),
       "a line that begins with a blank means nothing to libc");
    ok(!finds_server("nameserver 10.0.0.53;x\n", &a) &&
           !finds_server("nameserver 10.0.0.53\noptions edns0 # use-vc\n", &a) &&
           finds_server("nameserver 10.0.0.53 # x\n#options use-vc\n", &a),
       "a comment is a line of its own");
    ok(finds_server("nameserver ::1\n", &a) && is(&a, "::1"), "one of IPv6");
    ok(!finds_server("", &a) && !finds_server("nameserver fe80::1%eth0\n", &a) &&
           !finds_server("nameserver 10.0.0.53\noptions use-vc\n", &a) &&
           !finds_server("nameserver 10.0.0.53\noptions rotate\n", &a),
       "what is libc's resolver's to understand");
    ok(leaves_to_servers("passwd: files\nhosts:\tfiles dns # so\n", "a.test"),
       "files, then servers");
    ok(!leaves_to_servers("hosts: files dns\n", "twice.test") &&
           !leaves_to_servers("hosts: files dns\n", "localhost"),
       "but not what the file has");
    ok(!leaves_to_servers("hosts: files mdns4_minimal [NOTFOUND=return] dns\n", "a.test") &&
           !leaves_to_servers("hosts: files dns myhostname\n", "a.test") &&
           !leaves_to_servers("hosts: dns files\n", "a.test") &&
           !leaves_to_servers("hosts: files\n", "a.test") && !leaves_to_servers("\n", "a.test"),
       "nor where others have a say");
    unlink(write_text(""));
}

static struct gateway g;

/* Answers the questions that have come; what does not belong to them comes first. */
static int serve(int fd, uint8_t code)
{
    int served = 0;
    for (;;) {
        struct sockaddr_in from;
        socklen_t size = sizeof(from);
        uint8_t q[512];
        ssize_t n = recvfrom(fd, q, sizeof(q), MSG_DONTWAIT, (struct sockaddr *)&from, &size);
        if (n < 0)
            return served;
        struct reply r = reply_to(q, (size_t)n, 0, code);
        if (q[n - 3] == DNS_A && !code)
            add_record(&r, QUESTION, 2, 1, "\x7f\0\0\1", 4);
        struct reply stray = r;
        stray.data[0] ^= 0x55;
        stray.data[stray.len - 1] ^= 0x55;
        sendto(fd, stray.data, stray.len, 0, (struct sockaddr *)&from, size);
        sendto(fd, r.data, r.len, 0, (struct sockaddr *)&from, size);
        served++;
    }
}

static int bind_socket(int type, unsigned *ret_port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(a);
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, size) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &size) < 0)
        exit(1);
    *ret_port = ntohs(a.sin_port);
    return fd;
}

/* The first bytes of what the proxy answers. */
static void ask_proxy(int dns, uint8_t code, unsigned port, char ret[64])
{
    struct gateway_request req = {.version = GATEWAY_VERSION,
                                  .flags = GATEWAY_ANY_HOST | GATEWAY_PROXY,
                                  .label = "box",
                                  .owner = 1};
    struct session_rules rules = {.set = rule_sets_get(&g.rule_sets, &req), .intercept_fd = -1};
    char text[128];
    int pair[2], served = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        exit(1);
    snprintf(text, sizeof(text), "CONNECT " NAME ":%u HTTP/1.1\r\nHost: " NAME ":%u\r\n\r\n", port,
             port);
    if (send(pair[0], text, strlen(text), 0) < 0)
        exit(1);
    session_start(&g, &req, &rules, pair[1], -1);
    int64_t late_ms = clock_mono_ms() + PATIENCE_MS;
    ssize_t n = -1;
    while (clock_mono_ms() < late_ms && (n = recv(pair[0], ret, 63, 0)) < 0) {
        served += serve(dns, code);
        epoll_loop_once(&g.loop, 20);
    }
    ret[n > 0 ? n : 0] = 0;
    ok(served == 2 && g.resolver.n_threads == 0, "two questions and no thread: %d, %zu", served,
       g.resolver.n_threads);
    close(pair[0]);
}

static void test_lookup(void)
{
    unsigned dns_port, port;
    char text[64], hosts[64], sources[64], servers[64];
    int dns = bind_socket(SOCK_DGRAM, &dns_port), listener = bind_socket(SOCK_STREAM, &port);
    listen(listener, 8);
    snprintf(hosts, sizeof(hosts), "%s", write_text("127.0.0.1 localhost\n"));
    char moved[80];
    snprintf(moved, sizeof(moved), "%s.h", hosts);
    rename(hosts, moved);
    snprintf(sources, sizeof(sources), "%s.s", hosts);
    rename(write_text("hosts: files dns\n"), sources);
    snprintf(servers, sizeof(servers), "%s.r", hosts);
    rename(write_text("nameserver 127.0.0.1\n"), servers);
    g.hosts.path = moved;
    g.hosts.switch_path = sources;
    g.resolver.file.path = servers;
    g.resolver.file.port = (uint16_t)dns_port;
    ask_proxy(dns, 0, port, text);
    ok(strncmp(text, "HTTP/1.1 200 ", 13) == 0, "a name is connected to: %.12s", text);
    ask_proxy(dns, 3, port, text);
    ok(strncmp(text, "HTTP/1.1 502 ", 13) == 0, "one that is none is refused: %.12s", text);
    unlink(moved);
    unlink(sources);
    unlink(servers);
    close(dns);
    close(listener);
}

int main(void)
{
    test_messages();
    test_files();
    g = (struct gateway){.request_timeout_ms = 60000,
                         .resolve_timeout_ms = 60000,
                         .connect_timeout_ms = 60000,
                         .idle_timeout_ms = 60000,
                         .max_sessions = 64,
                         .max_sessions_per_label = 32};
    list_init(&g.sessions);
    list_init(&g.lookups);
    rule_sets_init(&g.rule_sets);
    ok(session_loop_open(&g) == 0, "a loop");
    rule_list_add(&g.private_hosts, "127.0.0.1");
    test_lookup();
    session_end_all(&g);
    session_loop_close(&g);
    rule_list_done(&g.private_hosts);
    rule_sets_done(&g.rule_sets);
    return tap_done();
}
