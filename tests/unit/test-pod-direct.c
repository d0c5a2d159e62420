/* SPDX-License-Identifier: Apache-2.0 */
/* The direct carrier between two network namespaces: the real link, its TLS program and the real
 * runner in one, the broker's code (kube/direct.h) in the other. Peers that have no key, a wrong
 * one, or nothing to say; connections that are cut at many places, in the handshake and while a
 * command prints; a network that falls silent; and the ends of either program.
 * Usage: test-pod-direct MAS-LINK MAS-LINK-TLS MAS-TOOLRUNNER */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <uv.h>

#include "base/error.h"
#include "kube/direct.h"
#include "loop/loop.h"
#include "pod/tls.h"
#include "tests/unit/pod-programs.h"
#include "tests/unit/tap.h"

#define PORT           7443
#define RELAY_PORT     7444
#define BROKER         "10.77.0.1"
#define POD            "10.77.0.2"
#define OPEN_MS        20000
#define SILENCE_MS     3000
#define TRIES          10
#define FLOOD          24
#define FLOOD_BYTES    (16 << 20)
#define UNKNOWN_STREAM 0x7ffffff1
#define READ_SIZE      16384
#define HANDSHAKE_CUTS 40

static char dir[64], channel_path[96], door_dir[96], door_path[112];
static char link_program[112], tls_program[112], runner_program[112], key_path[112],
    other_path[112];
static int own_ns = -1, pod_ns = -1;
static struct kube_identity identity, other_identity;
static uint8_t link_pin[PIN_SIZE];
static uint32_t silence_ms = SILENCE_MS;

/* --- two namespaces */

static int run_shell(int ns, const char *script)
{
    assert(setns(ns, CLONE_NEWNET) == 0);
    int r = system(script);
    assert(setns(own_ns, CLONE_NEWNET) == 0);
    return r;
}

/* The broker's is the test's own from here on; the pod's lives as long as a descriptor of it. */
static bool networks_make(void)
{
    char script[200];
    if (unshare(CLONE_NEWNET) < 0)
        return false;
    pod_ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    assert(unshare(CLONE_NEWNET) == 0);
    own_ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    pid_t holder = fork();
    if (holder == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setns(pod_ns, CLONE_NEWNET);
        for (;;)
            pause();
    }
    usleep(1000);
    snprintf(script, sizeof(script),
             "while [ /proc/%d/ns/net -ef /proc/%d/ns/net ]; do sleep 0.01; done; "
             "ip link add b0 type veth peer name p0 netns %d",
             holder, getpid(), holder);
    bool good = run_shell(own_ns, script) == 0 &&
                run_shell(own_ns, "ip link set lo up && ip address add " BROKER "/24 dev b0 && "
                                  "ip link set b0 up") == 0 &&
                run_shell(pod_ns, "ip link set lo up && ip address add " POD "/24 dev p0 && "
                                  "ip link set p0 up") == 0;
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    return good;
}

static pid_t pod_start(uid_t uid, int out, const char *const *argv)
{
    assert(setns(pod_ns, CLONE_NEWNET) == 0);
    pid_t pid = program_start(uid, out, argv);
    assert(setns(own_ns, CLONE_NEWNET) == 0);
    return pid;
}

static pid_t link_start(int out)
{
    char port[8];
    snprintf(port, sizeof(port), "%d", PORT);
    return pod_start(LINK_UID, out,
                     (const char *[]){link_program, "--listen", channel_path, "--door", door_path,
                                      "--direct", port, "--peer", identity.pin_text, NULL});
}

static pid_t runner_start(void)
{
    return pod_start(
        RUNNER_UID, -1,
        (const char *[]){runner_program, "--shared-uid", "--channel-socket", channel_path, NULL});
}

/* What the broker reads in the container's log. */
static bool read_fingerprint(int log)
{
    char line[256] = "";
    size_t n = 0;
    struct pollfd p = {.fd = log, .events = POLLIN};
    while (n < sizeof(line) - 1 && !strchr(line, '\n') && poll(&p, 1, PEER_WAIT_MS) == 1) {
        ssize_t got = read(log, line + n, sizeof(line) - 1 - n);
        if (got <= 0)
            break;
        n += (size_t)got;
        line[n] = 0;
    }
    size_t begin = strlen(PIN_LINE);
    char *end = strchr(line, '\n');
    if (!end || strncmp(line, PIN_LINE, begin) != 0)
        return false;
    *end = 0;
    return pin_parse(line + begin, link_pin);
}

/* --- the broker's side, in a process of its own: its other end is a stream for the test */

struct way_in {
    uv_loop_t loop;
    struct kube_direct *direct;
    uv_poll_t poll;
    int fd;
    bool opened, stop, blocked;
    char why[160];
};

static void on_way_input(uv_poll_t *p, int status, int events)
{
    struct way_in *w = p->data;
    char bytes[READ_SIZE];
    (void)status;
    (void)events;
    ssize_t n = recv(w->fd, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_PEEK);
    if (n == 0) {
        w->stop = true;
        return;
    }
    int r = n > 0 ? kube_direct_write(w->direct, bytes, (size_t)n) : 0;
    if (r == -EAGAIN)
        uv_poll_stop(&w->poll);
    else if (r == 0 && n > 0)
        assert(recv(w->fd, bytes, (size_t)n, 0) == n);
}

static void on_way_open(void *data)
{
    struct way_in *w = data;
    w->opened = true;
    w->poll.data = w;
    uv_poll_init(&w->loop, &w->poll, w->fd);
    uv_poll_start(&w->poll, UV_READABLE, on_way_input);
}

/* The loop made the descriptor one that does not wait, and here there is nothing else to do. */
static void on_way_output(void *data, const void *bytes, size_t len)
{
    struct way_in *w = data;
    for (size_t done = 0; done < len && !w->stop;) {
        struct pollfd p = {.fd = w->fd, .events = POLLOUT};
        ssize_t n = send(w->fd, (const char *)bytes + done, len - done, MSG_NOSIGNAL);
        if (n > 0)
            done += (size_t)n;
        else if (n < 0 && errno != EAGAIN)
            w->stop = true;
        else
            poll(&p, 1, -1);
    }
}

static void on_way_writable(void *data)
{
    struct way_in *w = data;
    uv_poll_start(&w->poll, UV_READABLE, on_way_input);
}

static void on_way_end(void *data, const char *why)
{
    struct way_in *w = data;
    w->direct = NULL;
    w->stop = true;
    snprintf(w->why, sizeof(w->why), "%s", why);
}

static const struct kube_direct_events way_events = {.on_open = on_way_open,
                                                     .on_output = on_way_output,
                                                     .on_writable = on_way_writable,
                                                     .on_end = on_way_end};

/* Ends with 0 where it was open, with 1 where it never was, and says why. */
static void way_run(int fd, int report, const struct kube_identity *who, const uint8_t *pin,
                    const char *address, uint16_t port)
{
    static struct way_in w;
    struct kube_direct_options o = {
        .address = address, .port = port, .open_ms = OPEN_MS, .silence_ms = silence_ms};
    memcpy(o.pin, pin, PIN_SIZE);
    w.fd = fd;
    uv_loop_init(&w.loop);
    w.direct = kube_direct_start(&w.loop, who, &o, &way_events, &w);
    loop_run(&w.loop, 0, &w.stop);
    (void)!write(report, w.why, strlen(w.why));
    _exit(!w.opened);
}

struct way {
    pid_t pid;
    int fd, report;
};

static struct way way_start(const struct kube_identity *who, const uint8_t *pin,
                            const char *address, uint16_t port)
{
    int pair[2], report[2];
    assert(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
    assert(!pipe2(report, O_CLOEXEC));
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(pair[0]);
        close(report[0]);
        way_run(pair[1], report[1], who, pin, address, port);
    }
    close(pair[1]);
    close(report[1]);
    return (struct way){pid, pair[0], report[0]};
}

/* Its end: 0 or 1 as above, 2 for none; and what it says of it. */
static int way_end(struct way *w, char why[160])
{
    int status = end_of(w->pid);
    ssize_t n = read(w->report, why, 159);
    why[n > 0 ? n : 0] = 0;
    close(w->report);
    return status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

static struct way peer_enter(struct peer *p)
{
    struct way w = way_start(&identity, link_pin, POD, PORT);
    peer_take(p, w.fd);
    return w;
}

static void way_kill(struct way *w)
{
    kill(w->pid, SIGKILL);
    end_of(w->pid);
    close(w->report);
}

static bool peer_works(struct peer *p)
{
    struct way w = peer_enter(p);
    struct peer_exec *e = peer_shell(p, "echo works");
    bool good = peer_out_is(e, 1, "works\n");
    peer_forget(p, e);
    way_kill(&w);
    return good;
}

/* --- peers that are not the broker */

static int tcp_connect(const char *address, uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    assert(inet_pton(AF_INET, address, &to.sin_addr) == 1);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Closed within PEER_WAIT_MS, without a byte. */
static bool is_closed_unread(int fd)
{
    char byte;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    bool closed = poll(&p, 1, PEER_WAIT_MS) == 1 && recv(fd, &byte, 1, MSG_DONTWAIT) <= 0;
    close(fd);
    return closed;
}

static void check_inside(struct peer *p)
{
    static const char *const addresses[] = {"127.0.0.1", POD, "127.9.9.9"};
    bool closed = true;
    for (int i = 0; i < 60; i++) {
        assert(setns(pod_ns, CLONE_NEWNET) == 0);
        int fd = tcp_connect(addresses[i % 3], PORT);
        assert(setns(own_ns, CLONE_NEWNET) == 0);
        closed &= fd >= 0 && is_closed_unread(fd);
    }
    ok(closed, "connections from inside the pod are closed before a byte is said");
    ok(peer_works(p), "and take no place");
}

static void check_strangers(struct peer *p)
{
    char why[160];
    uint8_t wrong[PIN_SIZE];
    memcpy(wrong, link_pin, PIN_SIZE);
    wrong[PIN_SIZE - 1] ^= 1;
    struct way w = way_start(&identity, wrong, POD, PORT);
    ok(way_end(&w, why) == 1 && strstr(why, "certificate verify failed"),
       "another fingerprint than the log's is refused here: %s", why);
    close(w.fd);
    w = way_start(&other_identity, link_pin, POD, PORT);
    ok(way_end(&w, why) == 1, "another key than the broker's is refused there: %s", why);
    close(w.fd);
    static const char *const garbage[] = {"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\xff\xff", "",
                                          "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03"};
    bool quiet = true;
    for (size_t i = 0; i < ELEMENTS(garbage); i++) {
        int fd = tcp_connect(POD, PORT);
        quiet &= fd >= 0 && send(fd, garbage[i], strlen(garbage[i]), MSG_NOSIGNAL) >= 0;
        shutdown(fd, SHUT_WR);
        char bytes[256];
        while (recv(fd, bytes, sizeof(bytes), 0) > 0)
            ; /* an alert of TLS at most */
        close(fd);
    }
    ok(quiet && peer_works(p), "garbage ends its own connection");
}

/* Processes whose parent is pid. */
static int children_of(pid_t pid)
{
    char path[64];
    int n = 0;
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(65536);
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
    if (fd_read_file_at(AT_FDCWD, path, &b) < 0)
        return -1;
    for (size_t i = 0; i < b.len; i++)
        n += b.data[i] == ' ';
    return n;
}

static pid_t first_child_of(pid_t pid)
{
    char path[64];
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(65536);
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
    return fd_read_file_at(AT_FDCWD, path, &b) < 0 || !b.len ? -1 : atoi(b.data);
}

/* Silent peers that came first. They have a place each until their time is over. */
static void check_flood(struct peer *p, pid_t tls)
{
    int fds[FLOOD], most = 0;
    for (int i = 0; i < FLOOD; i++)
        fds[i] = tcp_connect(POD, PORT);
    struct way w = peer_enter(p);
    for (int64_t end = clock_mono_ms() + 500; clock_mono_ms() < end; usleep(10000)) {
        int n = children_of(tls);
        most = n > most ? n : most;
    }
    ok(most > 0 && most <= TLS_CONNECTIONS_MAX, "%d peers that say nothing have %d processes",
       FLOOD, most);
    ok(peer_wait(p, p->hello_ok), "the broker gets in when their time is over");
    way_kill(&w);
    for (int i = 0; i < FLOOD; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* --- cuts */

/* A relay that closes both sides after so many bytes, counted over both ways. */
static void relay_run(int listener, size_t cut)
{
    int in = accept4(listener, NULL, NULL, SOCK_CLOEXEC), out = tcp_connect(POD, PORT);
    char bytes[READ_SIZE];
    for (size_t seen = 0; seen < cut;) {
        struct pollfd p[] = {{.fd = in, .events = POLLIN}, {.fd = out, .events = POLLIN}};
        if (poll(p, 2, PEER_WAIT_MS) <= 0)
            break;
        int from = p[0].revents ? in : out, to = from == in ? out : in;
        size_t room = cut - seen < sizeof(bytes) ? cut - seen : sizeof(bytes);
        ssize_t n = read(from, bytes, room);
        if (n <= 0 || fd_write_all(to, bytes, (size_t)n) < 0)
            break;
        seen += (size_t)n;
    }
    _exit(0);
}

static int relay_listen(void)
{
    const int on = 1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(RELAY_PORT)};
    inet_pton(AF_INET, BROKER, &at.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0);
    assert(bind(fd, (const struct sockaddr *)&at, sizeof(at)) == 0 && listen(fd, 8) == 0);
    return fd;
}

static pid_t relay_start(int listener, size_t cut)
{
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        relay_run(listener, cut);
    }
    return pid;
}

static void check_cut_handshakes(struct peer *p, int listener)
{
    int never = 0, opened = 0;
    char why[160];
    for (int i = 0; i < HANDSHAKE_CUTS; i++) {
        pid_t relay = relay_start(listener, (size_t)i * 50);
        struct way w = way_start(&identity, link_pin, BROKER, RELAY_PORT);
        close(w.fd); /* so that one that is open ends at once */
        int r = way_end(&w, why);
        never += r == 1;
        opened += r == 0;
        end_of(relay);
    }
    ok(never > 10 && never + opened == HANDSHAKE_CUTS,
       "cut in the handshake, %d connections never were and %d had been open", never, opened);
    ok(peer_works(p), "the next one is whole");
}

static void check_cut_streams(struct peer *p, int listener)
{
    char script[64];
    snprintf(script, sizeof(script), "seq %d", LINES);
    struct way w = peer_enter(p);
    ok(peer_wait(p, p->hello_ok), "a connection");
    struct msg_spawn m = peer_spawn_message(p, (const char *[]){"sh", "-c", script, NULL});
    struct peer_exec *e = peer_spawn(p, &m);
    int cuts = 0;
    (void)!peer_wait(p, e->started);
    for (size_t cut = 1500; !e->exited && cuts < 50; cuts++, cut += 777) {
        way_kill(&w);
        pid_t relay = relay_start(listener, cut);
        w = way_start(&identity, link_pin, BROKER, RELAY_PORT);
        peer_take(p, w.fd);
        (void)!peer_wait(p, p->eof || e->exited);
        kill(relay, SIGKILL);
        end_of(relay);
    }
    way_kill(&w);
    w = peer_enter(p);
    bool whole = peer_wait(p, e->exited && e->out[0].len >= e->exit.end[0]);
    ok(cuts > 20 && whole && peer_exited_with(e, 0) && !p->gap && is_counted(&e->out[0]),
       "cut %d times while a command prints, not a byte is lost or doubled: %zu bytes", cuts,
       e->out[0].len);
    ok(e->n_started == 1, "it was started once");
    way_kill(&w);
}

static void check_silence(struct peer *p)
{
    char why[160];
    struct way w = peer_enter(p);
    ok(peer_wait(p, p->hello_ok), "a connection");
    assert(run_shell(pod_ns, "ip link set p0 down") == 0);
    ok(way_end(&w, why) == 0, "a network that loses every packet ends it: %s", why);
    assert(run_shell(pod_ns, "ip link set p0 up") == 0);
    bool works = peer_works(p);
    for (int tries = 0; tries < TRIES && !works; tries++) { /* neighbours are found anew */
        usleep(200000);
        works = peer_works(p);
    }
    ok(works, "once it is back, so is the way in");
}

/* Frames of which a runner takes no notice, until there is no room for more. */
static pid_t flood_start(int fd)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(FLOOD_BYTES);
    while (b.len < FLOOD_BYTES - FRAME_HEADER_SIZE)
        frame_append(&b, MSG_FORGET, UNKNOWN_STREAM, NULL, 0);
    _exit(fd_write_all(fd, b.data, b.len) < 0);
}

/* A sandbox that takes nothing for a while: its window is full, and the kernel asks at intervals
 * that grow. A network that loses the questions is noticed all the same. */
static void check_full_window(struct peer *p, pid_t runner)
{
    char why[160];
    silence_ms = 1000;
    struct way w = peer_enter(p);
    ok(peer_wait(p, p->hello_ok), "a connection");
    kill(runner, SIGSTOP);
    pid_t flood = flood_start(p->fd);
    sleep(6); /* the kernel's questions are then further apart than what counts as silence */
    ok(waitpid(w.pid, NULL, WNOHANG) == 0, "a runner that takes nothing is not a silent network");
    kill(runner, SIGCONT);
    struct peer_exec *e = NULL;
    bool taken = end_of(flood) == 0;
    if (taken)
        e = peer_shell(p, "echo the same");
    ok(taken && peer_out_is(e, 1, "the same\n"), "it goes on when it takes again");
    kill(runner, SIGSTOP);
    flood = flood_start(p->fd);
    usleep(500000);
    assert(run_shell(pod_ns, "ip link set p0 down") == 0);
    ok(way_end(&w, why) == 0 && strstr(why, "silent"), "without a network it ends: %s", why);
    assert(run_shell(pod_ns, "ip link set p0 up") == 0);
    kill(runner, SIGCONT);
    end_of(flood);
    silence_ms = SILENCE_MS;
}

/* --- the whole */

static void check_replaced(struct peer *p, pid_t tls)
{
    struct peer other;
    char why[160];
    struct way first = peer_enter(p);
    ok(peer_wait(p, p->hello_ok), "a connection");
    peer_init(&other);
    other.attempt = p->attempt;
    struct way second = peer_enter(&other);
    ok(peer_wait(&other, other.hello_ok), "another one takes its place");
    ok(way_end(&first, why) == 0, "the one before ends: %s", why);
    way_kill(&second);
    p->attempt = other.attempt;
    peer_done(&other);
    for (int64_t end = clock_mono_ms() + PEER_WAIT_MS; children_of(tls) && clock_mono_ms() < end;)
        usleep(10000);
    ok(children_of(tls) == 0, "no process of a connection is left");
}

static void check_ends(void)
{
    int log[2];
    assert(!pipe2(log, O_CLOEXEC));
    pid_t link = link_start(log[1]);
    close(log[1]);
    pid_t runner = runner_start();
    uint8_t before[PIN_SIZE];
    memcpy(before, link_pin, PIN_SIZE);
    ok(read_fingerprint(log[0]) && memcmp(before, link_pin, PIN_SIZE) != 0,
       "every link makes a key of its own");
    ok(exists_within(channel_path, false), "the runner has connected");
    kill(first_child_of(link), SIGKILL);
    ok(WEXITSTATUS(end_of(link)) == EXIT_FAILURE, "without its TLS program the link ends");
    ok(end_of(runner) >= 0, "and the runner with it");
    close(log[0]);
}

static void check_pod(void)
{
    struct peer p;
    int log[2];
    assert(!pipe2(log, O_CLOEXEC));
    peer_init(&p);
    pid_t link = link_start(log[1]);
    close(log[1]);
    ok(read_fingerprint(log[0]), "the link's first line is its fingerprint");
    pid_t tls = first_child_of(link), runner = runner_start();
    check_flood(&p, tls); /* before the broker ever came */
    ok(peer_works(&p), "a command through the direct carrier");
    int listener = relay_listen();
    check_inside(&p);
    check_strangers(&p);
    check_cut_handshakes(&p, listener);
    check_cut_streams(&p, listener);
    check_full_window(&p, runner);
    check_silence(&p);
    check_replaced(&p, tls);
    kill(link, SIGKILL);
    end_of(link);
    ok(end_of(runner) >= 0, "without the link the runner ends");
    ok(tcp_connect(POD, PORT) < 0, "and nothing listens any more");
    close(listener);
    close(log[0]);
    peer_done(&p);
}

static void check_identity(void)
{
    struct kube_identity again = {0};
    struct error err = {0};
    struct stat st;
    char fresh[sizeof(key_path) + 8];
    snprintf(fresh, sizeof(fresh), "%s.new", key_path);
    int left = open(fresh, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    ok(left >= 0 && chmod(fresh, 0644) == 0, "half a key is left of a broker that was killed");
    ok(kube_identity_load(&identity, key_path, &err) == 0, "a key is made: %s", err.message);
    ok(fstat(left, &st) == 0 && st.st_size == 0 && access(fresh, F_OK) < 0,
       "and is not written to what is open elsewhere");
    close(left);
    ok(stat(key_path, &st) == 0 && (st.st_mode & 0777) == 0600, "which is its owner's alone");
    ok(kube_identity_load(&again, key_path, &err) == 0 &&
           strcmp(again.pin_text, identity.pin_text) == 0,
       "and read again as the same");
    kube_identity_done(&again);
    ok(kube_identity_load(&other_identity, other_path, &err) == 0 &&
           strcmp(other_identity.pin_text, identity.pin_text) != 0,
       "another one is another");
    chmod(other_path, 0644);
    ok(kube_identity_load(&again, other_path, &err) < 0 && strstr(err.message, "only its owner"),
       "one that others can read is refused: %s", err.message);
    chmod(other_path, 0600);
    err = (struct error){0};
    assert(truncate(other_path, 40) == 0);
    ok(kube_identity_load(&again, other_path, &err) < 0 && strstr(err.message, "P-256"),
       "half of one is refused: %s", err.message);
}

static void make_paths(char **argv)
{
    snprintf(dir, sizeof(dir), "/tmp/mas-test-direct-XXXXXX");
    assert(mkdtemp(dir));
    assert(chmod(dir, 0777) == 0);
    snprintf(channel_path, sizeof(channel_path), "%s/channel", dir);
    snprintf(door_dir, sizeof(door_dir), "%s/door", dir);
    snprintf(door_path, sizeof(door_path), "%s/socket", door_dir);
    snprintf(link_program, sizeof(link_program), "%s/mas-link", dir);
    snprintf(tls_program, sizeof(tls_program), "%s/mas-link-tls", dir);
    snprintf(runner_program, sizeof(runner_program), "%s/runner", dir);
    snprintf(key_path, sizeof(key_path), "%s/key", dir);
    snprintf(other_path, sizeof(other_path), "%s/other-key", dir);
    copy_program(argv[1], link_program);
    copy_program(argv[2], tls_program);
    copy_program(argv[3], runner_program);
    assert(mkdir(door_dir, 0700) == 0);
    assert(chown(door_dir, LINK_UID, LINK_UID) == 0);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 1;
    if (geteuid() != 0 || !networks_make()) {
        printf("1..0 # SKIP needs root and network namespaces\n");
        return 77;
    }
    signal(SIGPIPE, SIG_IGN);
    make_paths(argv);
    check_identity();
    check_pod();
    check_ends();
    const char *const files[] = {door_path,      channel_path, link_program, tls_program,
                                 runner_program, key_path,     other_path};
    for (size_t i = 0; i < ELEMENTS(files); i++)
        unlink(files[i]);
    rmdir(door_dir);
    ok(rmdir(dir) == 0, "nothing else was made");
    return tap_done();
}
