/* SPDX-License-Identifier: Apache-2.0 */
/* warden-bench RUNNER STATE_DIR [N [BLANKS [PAUSE_MS [IMAGE [BACKEND]]]]]: latency of create and of
 * kill-to-exited over N fresh sandboxes with limits, one after the other. A measurement, not a
 * test. */
#include <fcntl.h>
#include <time.h>

#include "base/clock.h"
#include "tests/unit/warden-client.h"

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void print(const char *what, int64_t *ns, int n)
{
    qsort(ns, (size_t)n, sizeof(*ns), compare);
    printf("%-16s min %5lld us  median %5lld us  p95 %5lld us  max %5lld us\n", what,
           (long long)ns[0] / 1000, (long long)ns[n / 2] / 1000, (long long)ns[n * 95 / 100] / 1000,
           (long long)ns[n - 1] / 1000);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    int n = argc > 3 ? atoi(argv[3]) : 200;
    struct warden_options o;
    warden_options_init(&o);
    o.runner_fd = open(argv[1], O_RDONLY | O_CLOEXEC);
    o.state_dir = argv[2];
    o.config.blanks = argc > 4 ? (uint32_t)atoi(argv[4]) : o.config.blanks;
    int pause_ms = argc > 5 ? atoi(argv[5]) : 0;
    struct client c = client_start(&o);
    int64_t *create = calloc((size_t)n, sizeof(*create)), *end = calloc((size_t)n, sizeof(*end));
    struct plan probe = client_plan(PLAN_PROBE, "");
    struct plan_reply can = client_call(&c, &probe, NULL);
    for (int i = 0; i < n; i++) {
        struct plan p = client_plan(PLAN_CREATE, "bench");
        int fd = -1;
        if (can.mechanism[WALL_MEMORY])
            p.limits = (struct limits){
                .memory_bytes = 512 << 20, .cpu_millicores = 1000, .processes = 128};
        p.limits.disk_bytes = 64 << 20;
        snprintf(p.image, sizeof(p.image), "%s", argc > 6 ? argv[6] : "");
        p.backend = argc > 7 ? (uint32_t)atoi(argv[7]) : OCI_NONE;
        int64_t t0 = clock_mono_ns();
        struct plan_reply r = client_call(&c, &p, &fd);
        create[i] = clock_mono_ns() - t0;
        if (r.error) {
            printf("create: %s\n", r.message);
            return 1;
        }
        struct plan k = client_plan(PLAN_KILL, "bench");
        t0 = clock_mono_ns();
        client_call(&c, &k, NULL);
        client_wait_exited(&c, "bench", &r);
        end[i] = clock_mono_ns() - t0;
        close(fd);
        if (pause_ms)
            usleep((useconds_t)pause_ms * 1000);
    }
    print("create", create, n);
    print("kill to exited", end, n);
    close(c.side);
    waitpid(c.warden_pid, NULL, 0);
    return 0;
}
