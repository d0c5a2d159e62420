/* SPDX-License-Identifier: Apache-2.0 */
/* mas-toolrunner-client: one request on stdin, one response on stdout.
 *
 * Exit codes: 0 the response was printed (whatever it says), 1 there was none, 2 usage, 3 time
 * was up. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "toolrunner-client/client.h"

static const char usage[] =
    "usage: mas-toolrunner-client --vsock UDS [--port 5000] [--timeout 10s]\n"
    "Reads one JSON request on stdin, sends it to the runner of the virtual machine whose vsock\n"
    "socket is UDS, and prints its response.\n"
    "environment: MAS_VSOCK_UDS and MAS_VSOCK_PORT stand in for --vsock and --port\n";

enum { EXIT_TRANSPORT = 1, EXIT_USAGE = 2, EXIT_TIME = 3 };

struct settings {
    const char *uds, *port, *timeout;
};

static void __attribute__((noreturn)) die_usage(const char *problem)
{
    fprintf(stderr, "mas-toolrunner-client: %s\n%s", problem, usage);
    exit(EXIT_USAGE);
}

static struct settings parse_options(int argc, char **argv)
{
    static const struct option options[] = {
        {"vsock", required_argument, NULL, 'v'},   {"port", required_argument, NULL, 'p'},
        {"timeout", required_argument, NULL, 't'}, {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},       {NULL, 0, NULL, 0},
    };
    struct settings s = {getenv("MAS_VSOCK_UDS"), getenv("MAS_VSOCK_PORT"), CLIENT_TIMEOUT_DEFAULT};
    opterr = 0;
    for (int id; (id = getopt_long_only(argc, argv, "", options, NULL)) >= 0;) {
        if (id == 'v')
            s.uds = optarg;
        else if (id == 'p')
            s.port = optarg;
        else if (id == 't')
            s.timeout = optarg;
        else if (id == 'h' || id == 'V') {
            fputs(id == 'h' ? usage : "mas-toolrunner-client " MAS_VERSION "\n", stdout);
            exit(0);
        } else
            die_usage("unknown option, or an option without its value");
    }
    if (optind < argc)
        die_usage("unexpected argument");
    if (!s.uds || !*s.uds)
        die_usage("--vsock is required");
    return s;
}

static uint32_t parse_port(const char *text)
{
    char *end;
    if (!text || !*text)
        return CLIENT_PORT_DEFAULT;
    errno = 0;
    unsigned long port = strtoul(text, &end, 10);
    if (errno || *end || *text == '-' || port > UINT32_MAX - 1)
        die_usage("the port is not a number of 32 bits");
    return (uint32_t)port;
}

static int read_request(struct strbuf *b, struct error *err)
{
    for (;;) {
        char chunk[65536];
        ssize_t n = read(0, chunk, sizeof(chunk));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set(err, ERROR_INTERNAL, errno, "read stdin");
        if (n == 0)
            break;
        if (strbuf_append(b, chunk, (size_t)n) < 0)
            return error_set(err, ERROR_TOO_LARGE, 0, "the request is longer than 10 MiB");
    }
    while (b->len && strchr(" \t\r\n", b->data[b->len - 1]))
        b->data[--b->len] = 0;
    return b->len ? 0 : error_set(err, ERROR_INVALID, 0, "no request on stdin");
}

int main(int argc, char **argv)
{
    struct settings s = parse_options(argc, argv);
    uint32_t port = parse_port(s.port);
    int64_t ns;
    if (clock_parse_duration(s.timeout, &ns) < 0 || ns <= 0)
        die_usage("the timeout is not a duration such as 10s");
    int64_t timeout_ms = ns / 1000000 ? ns / 1000000 : 1;
    _cleanup_strbuf_ struct strbuf request = STRBUF_INIT(CLIENT_REQUEST_MAX + 1);
    _cleanup_strbuf_ struct strbuf response = STRBUF_INIT(CLIENT_RESPONSE_MAX);
    struct error err = {0};
    struct client c = {.fd = -1};
    int r = read_request(&request, &err);
    if (r >= 0)
        r = client_open(&c, s.uds, port, timeout_ms, &err);
    if (r >= 0)
        r = client_call(&c, &request, &response, &err);
    client_close(&c);
    if (r >= 0)
        r = strbuf_puts(&response, "\n");
    if (r >= 0 && fd_write_all(1, response.data, response.len) < 0)
        r = error_set(&err, ERROR_INTERNAL, errno, "write stdout");
    if (r >= 0)
        return 0;
    fprintf(stderr, "mas-toolrunner-client: %s\n", err.message);
    return err.code == ERROR_TIMEOUT ? EXIT_TIME : EXIT_TRANSPORT;
}
