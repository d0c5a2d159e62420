/* SPDX-License-Identifier: Apache-2.0 */
/* Times several things side by side in one interleaved run, so that a noisy moment hits all of
 * them: compare [-n ITERATIONS] [-r ROUNDS] 'NAME|spawn|PROGRAM ARG…' 'NAME|http|PORT|PATH|BODY' …
 * spawn: fork, exec, wait; rare: the same, twice a round, for what takes long. http: one POST over
 * a kept-alive connection, answer read whole; mcp: the same to /mcp, with a session's id in the
 * place of the path. What one leaves to be done in the background is not the next one's to bear:
 * there is a pause between them. Prints NAME, minimum and median in microseconds, separated by
 * tabs. */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THINGS_MAX 32
#define ARGS_MAX   64
#define RARELY     2
#define PAUSE_US   250000

struct thing {
    char *name;
    char *argv[ARGS_MAX]; /* spawn */
    int sock;             /* http; -1 for spawn */
    bool rare;
    char *request;
    size_t request_len;
    double *samples;
    size_t count;
};

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void do_spawn(const struct thing *t)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        execvp(t->argv[0], t->argv);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        err(1, "%s", t->name);
    if (status)
        errx(1, "%s: status %x", t->name, (unsigned)status);
}

/* Reads one answer with a Content-Length; it must be 200 and, for commands, exit code 0. */
static void read_answer(const struct thing *t)
{
    char buffer[65536];
    size_t have = 0, want = 0;
    do {
        ssize_t n = read(t->sock, buffer + have, sizeof(buffer) - 1 - have);
        if (n <= 0)
            errx(1, "%s: connection ended", t->name);
        have += (size_t)n;
        buffer[have] = 0;
        char *body = strstr(buffer, "\r\n\r\n");
        char *length = strcasestr(buffer, "Content-Length: ");
        if (body && length)
            want = (size_t)(body + 4 - buffer) + strtoul(length + 16, NULL, 10);
    } while (!want || have < want);
    if (strncmp(buffer, "HTTP/1.1 200", 12) != 0 || !strstr(buffer, "\"exit_code\":0"))
        errx(1, "%s: %s", t->name, buffer);
}

static void do_http(const struct thing *t)
{
    if (write(t->sock, t->request, t->request_len) != (ssize_t)t->request_len)
        err(1, "%s", t->name);
    read_answer(t);
}

static char *next_field(char **text, const char *separator)
{
    char *field = strsep(text, separator);
    if (!field)
        errx(2, "NAME|spawn|PROGRAM… or NAME|http|PORT|PATH|BODY");
    return field;
}

static int connect_to(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((unsigned short)port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1, s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0 || connect(s, (struct sockaddr *)&a, sizeof(a)) < 0)
        err(1, "connect to port %d", port);
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return s;
}

static void parse_thing(struct thing *t, char *text, size_t max_samples)
{
    t->samples = calloc(max_samples, sizeof(*t->samples));
    t->name = next_field(&text, "|");
    char *kind = next_field(&text, "|");
    t->sock = -1;
    t->rare = strcmp(kind, "rare") == 0;
    if (strcmp(kind, "spawn") == 0 || t->rare) {
        size_t n = 0;
        for (char *word; n < ARGS_MAX - 1 && (word = strsep(&text, " "));)
            t->argv[n++] = word;
        return;
    }
    t->sock = connect_to(atoi(next_field(&text, "|")));
    char *path = next_field(&text, "|");
    bool mcp = strcmp(kind, "mcp") == 0;
    int n = asprintf(&t->request,
                     "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                     "%s%s%sContent-Length: %zu\r\n\r\n%s",
                     mcp ? "/mcp" : path, mcp ? "Accept: */*\r\nMcp-Session-Id: " : "",
                     mcp ? path : "", mcp ? "\r\n" : "", strlen(text), text);
    t->request_len = (size_t)n;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static struct thing things[THINGS_MAX];
    size_t iterations = 20, rounds = 10;
    int opt;
    while ((opt = getopt(argc, argv, "n:r:")) != -1) {
        if (opt == 'n')
            iterations = strtoul(optarg, NULL, 10);
        else if (opt == 'r')
            rounds = strtoul(optarg, NULL, 10);
        else
            return 2;
    }
    size_t n = (size_t)(argc - optind);
    if (n > THINGS_MAX)
        errx(2, "at most %d things", THINGS_MAX);
    for (size_t i = 0; i < n; i++)
        parse_thing(&things[i], argv[(size_t)optind + i], (iterations + RARELY) * rounds);
    for (size_t r = 0; r < rounds; r++)
        for (size_t i = 0; i < n; i++) {
            usleep(PAUSE_US);
            for (size_t k = 0; k < (things[i].rare ? RARELY : iterations); k++) {
                double start = now_us();
                if (things[i].sock >= 0)
                    do_http(&things[i]);
                else
                    do_spawn(&things[i]);
                things[i].samples[things[i].count++] = now_us() - start;
            }
        }
    for (size_t i = 0; i < n; i++) {
        struct thing *t = &things[i];
        qsort(t->samples, t->count, sizeof(*t->samples), compare_doubles);
        printf("%s\t%.0f\t%.0f\n", t->name, t->samples[0], t->samples[t->count / 2]);
    }
    return 0;
}
