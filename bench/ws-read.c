/* SPDX-License-Identifier: Apache-2.0 */
/* Reads one command's output over the binary WebSocket, checks that no byte is missing, and prints
 * how many bytes came and how many microseconds it took from the request to the exit event.
 *
 *   ws-read PORT SANDBOX-ID BODY       BODY: of POST /v1/sandboxes/{id}/exec, with "async": true */
#include <arpa/inet.h>
#include <endian.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BUFFER (1024 * 1024)
#define HEADER 32

static char buffer[BUFFER];
static size_t have, used;
static int sock = -1;

static void die(const char *what)
{
    fprintf(stderr, "ws-read: %s\n", what);
    exit(1);
}

static uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void dial(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sock < 0 || connect(sock, (struct sockaddr *)&a, sizeof(a)) < 0)
        die("cannot connect");
    have = used = 0;
}

static void send_text(const char *text)
{
    if (write(sock, text, strlen(text)) != (ssize_t)strlen(text))
        die("cannot send");
}

static void fill(void)
{
    if (used == have)
        used = have = 0;
    ssize_t n = read(sock, buffer + have, sizeof(buffer) - have);
    if (n <= 0)
        die("the connection ended early");
    have += (size_t)n;
}

/* n bytes in one piece; n is small. */
static const char *take(size_t n)
{
    if (have - used < n) {
        memmove(buffer, buffer + used, have - used);
        have -= used;
        used = 0;
    }
    while (have - used < n)
        fill();
    used += n;
    return buffer + used - n;
}

static void skip(uint64_t n)
{
    while (n) {
        if (used == have)
            fill();
        uint64_t piece = have - used < n ? have - used : n;
        used += piece;
        n -= piece;
    }
}

static void read_head(void)
{
    while (!memmem(buffer, have, "\r\n\r\n", 4))
        fill();
    used = (size_t)((char *)memmem(buffer, have, "\r\n\r\n", 4) - buffer) + 4;
}

static void start_exec(int port, const char *id, const char *body, char exec_id[64])
{
    static char text[65536];
    dial(port);
    snprintf(text, sizeof(text),
             "POST /v1/sandboxes/%s/exec HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n"
             "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
             id, port, strlen(body), body);
    send_text(text);
    ssize_t n;
    while (have < sizeof(buffer) - 1 &&
           (n = read(sock, buffer + have, sizeof(buffer) - 1 - have)) > 0)
        have += (size_t)n;
    buffer[have] = 0;
    const char *at = strstr(buffer, "\"exec_id\"");
    if (!at || sscanf(at + 9, "%*[: ]\"%63[^\"]\"", exec_id) != 1)
        die(buffer);
    close(sock);
}

static uint64_t frame_length(uint8_t *ret_opcode)
{
    const uint8_t *h = (const uint8_t *)take(2);
    uint64_t len = h[1] & 127, wide = 0;
    *ret_opcode = h[0] & 15;
    size_t n = len == 126 ? 2 : len == 127 ? 8 : 0;
    const uint8_t *more = (const uint8_t *)take(n);
    for (size_t i = 0; i < n; i++)
        wide = wide << 8 | more[i];
    return n ? wide : len;
}

int main(int argc, char **argv)
{
    char exec_id[64], text[512];
    uint64_t got[2] = {0}, messages = 0;
    if (argc != 4)
        die("usage: ws-read PORT SANDBOX-ID BODY");
    int port = atoi(argv[1]);
    uint64_t start = now_us();
    start_exec(port, argv[2], argv[3], exec_id);
    dial(port);
    snprintf(text, sizeof(text),
             "GET /sandboxes/%s/stream?exec_id=%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
             "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
             "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
             "Sec-WebSocket-Protocol: mas.binary.v1\r\n\r\n",
             argv[2], exec_id, port);
    send_text(text);
    read_head();
    for (;;) {
        uint8_t opcode;
        uint64_t len = frame_length(&opcode), offset;
        if (opcode != 2) {
            if (opcode == 8)
                die("closed before the exit event");
            skip(len);
            continue;
        }
        const char *h = take(HEADER);
        uint8_t type = (uint8_t)h[0], stream = (uint8_t)h[1];
        memcpy(&offset, h + 16, sizeof(offset));
        messages++;
        if (type == 3)
            die("output was cut: raise journal_exec_bytes");
        if (type == 4)
            break;
        if (type == 2) {
            if (stream < 1 || stream > 2 || le64toh(offset) != got[stream - 1])
                die("output is missing");
            got[stream - 1] += len - HEADER;
        }
        skip(len - HEADER);
    }
    printf("%llu\t%llu\t%llu\n", (unsigned long long)(got[0] + got[1]),
           (unsigned long long)(now_us() - start), (unsigned long long)messages);
    return 0;
}
