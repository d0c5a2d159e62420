/* SPDX-License-Identifier: Apache-2.0 */
/* Plans as the warden reads them: any bytes of a plan's size. What plan_check() and ceiling_check()
 * let through must be what the code behind them relies on: terminated strings, clean paths, limits
 * within the ceiling, no mount over a system directory. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "warden/ceiling.h"
#include "builder/mount.h"
#include "warden/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void assert_clean(const char *path, size_t size, int absolute)
{
    assert(memchr(path, 0, size));
    assert(!absolute || path[0] == '/');
    assert(absolute || path[0] != '/');
    assert(!strstr(path, "//") && !strstr(path, "/../") && !strstr(path, "/./"));
    size_t n = strlen(path);
    assert(n == 0 || path[n - 1] != '/');
    assert(n < 3 || strcmp(path + n - 3, "/..") != 0);
    assert(strncmp(path, "../", 3) != 0 && strcmp(path, "..") != 0);
}

static void assert_within(const struct limits *l, const struct limits *most)
{
    assert(l->memory_bytes && l->memory_bytes <= most->memory_bytes);
    assert(l->processes && l->processes <= most->processes);
    assert(l->disk_bytes && l->disk_bytes <= most->disk_bytes);
    assert(l->open_files && l->open_files <= most->open_files);
}

static void check_create(const struct plan *p)
{
    static struct warden w = {
        .n_allowed = 2,
        .options.ceiling = {.memory_bytes = 1 << 30,
                            .disk_bytes = 1 << 30,
                            .processes = 1000,
                            .open_files = 1000},
    };
    struct plan_reply reply = {0};
    struct limits limits;
    assert(p->n_mounts <= PLAN_MOUNTS_MAX);
    if (p->workdir[0] && strcmp(p->workdir, "/") != 0)
        assert_clean(p->workdir, sizeof(p->workdir), 1);
    assert(!p->image[0] || strspn(p->image, "0123456789abcdef") == sizeof(p->image) - 1);
    for (uint32_t i = 0; i < p->n_mounts; i++) {
        assert_clean(p->mounts[i].target, sizeof(p->mounts[i].target), 1);
        assert_clean(p->mounts[i].subpath, sizeof(p->mounts[i].subpath), 0);
    }
    if (ceiling_check(&w, p, &limits, &reply) < 0) {
        assert(memchr(reply.message, 0, sizeof(reply.message)) && reply.message[0]);
        return;
    }
    assert_within(&limits, &w.options.ceiling);
    for (uint32_t i = 0; i < p->n_mounts; i++) {
        assert((uint32_t)p->mounts[i].allow_index < w.n_allowed);
        assert(strncmp(p->mounts[i].target, "/usr", 5) != 0 &&
               strncmp(p->mounts[i].target, "/etc/", 5) != 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct plan p = {0};
    char why[256];
    memcpy(&p, data, size < sizeof(p) ? size : sizeof(p));
    if (plan_check(&p, why, sizeof(why)) < 0) {
        assert(memchr(why, 0, sizeof(why)) && why[0]);
        return 0;
    }
    assert(p.version == PLAN_VERSION && p.op > 0 && p.op < _PLAN_OP_MAX && p.tag);
    assert(memchr(p.id, 0, sizeof(p.id)) && !strchr(p.id, '/') && !strchr(p.id, '.'));
    if (p.op == PLAN_CREATE)
        check_create(&p);
    return 0;
}
