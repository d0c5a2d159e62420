/* SPDX-License-Identifier: Apache-2.0 */
/* What engines are asked for, from an order: both bodies say the same walls in their own words. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json.h"
#include "engine/engine.h"
#include "tests/unit/tap.h"
#include "builder/mount.h"
#include "builder/root.h"

#define MIB (1024ull * 1024)

static char root[] = "/tmp/mas-engine-body-XXXXXX";

static struct engine engine_new(uint32_t backend)
{
    struct engine e = {.pidfd = -1,
                       .runner_id = 100000,
                       .tool_id = 101000,
                       .tool_inside = 1000,
                       .base = "mas-sandbox/host:1"};
    struct child_order *c = &e.order.child;
    e.order.backend = backend;
    e.order.runner_id = 100000;
    e.order.tool_id = 101000;
    e.order.nobody_id = 165534;
    snprintf(e.order.instance, sizeof(e.order.instance), "0123456789abcdef0123456789abcdef");
    snprintf(e.order.dir, sizeof(e.order.dir), "/state/engine/sbx-1");
    snprintf(e.order.id, sizeof(e.order.id), "sbx-1");
    snprintf(e.name, sizeof(e.name), "mas-sandbox-01234567-sbx-1");
    snprintf(e.root, sizeof(e.root), "%s", root);
    snprintf(c->hostname, sizeof(c->hostname), "host");
    snprintf(c->workdir, sizeof(c->workdir), "/workspace");
    c->open_files = 1024;
    c->limits = (struct limits){.memory_bytes = 96 * MIB, .cpu_millicores = 1500, .processes = 40};
    c->n_mounts = 1;
    snprintf(c->mounts[0].target, sizeof(c->mounts[0].target), "/data/\xc3\xa4 \"x\"");
    return e;
}

static json_t *body_of(uint32_t backend, struct engine *e)
{
    e->order.backend = backend;
    return engine_dialect(e)->body(e);
}

static json_int_t number(const json_t *o, const char *key)
{
    const json_t *n = json_object_get(o, key);
    return json_is_integer(n) ? json_integer_value(n) : -1;
}

static bool is_text(const json_t *o, const char *key, const char *value)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text && strcmp(text, value) == 0;
}

static bool has_text(const json_t *list, const char *value)
{
    const json_t *item;
    size_t i;
    json_array_foreach(list, i, item)
    {
        if (json_is_string(item) && strcmp(json_string_value(item), value) == 0)
            return true;
    }
    return false;
}

/* The member of a list of objects whose key has this value. */
static const json_t *find(const json_t *list, const char *key, const char *value)
{
    const json_t *item;
    size_t i;
    json_array_foreach(list, i, item)
    {
        if (is_text(item, key, value))
            return item;
    }
    return NULL;
}

static void check_labels(const json_t *labels, const char *name)
{
    ok(is_text(labels, LABEL_INSTANCE, "0123456789abcdef0123456789abcdef") &&
           is_text(labels, LABEL_ID, "sbx-1") && is_text(labels, LABEL_STATE, "/state/engine"),
       "%s: labels by which it is found again", name);
}

static void test_podman(void)
{
    struct engine e = engine_new(OCI_PODMAN);
    _cleanup_json_ json_t *b = body_of(OCI_PODMAN, &e);
    const json_t *limits = json_object_get(b, "resource_limits"),
                 *mounts = json_object_get(b, "mounts"), *ids = json_object_get(b, "idmappings"),
                 *m;
    ok(is_text(b, "name", e.name) && is_text(b, "user", "0:0") && is_text(b, "hostname", "host"),
       "podman: names");
    ok(number(json_object_get(limits, "memory"), "limit") == (json_int_t)(96 * MIB) &&
           number(json_object_get(limits, "memory"), "swap") == (json_int_t)(96 * MIB),
       "podman: memory and no swap beside it");
    ok(number(json_object_get(limits, "cpu"), "quota") == 150000 &&
           number(json_object_get(limits, "cpu"), "period") == 100000,
       "podman: processors");
    ok(number(json_object_get(limits, "pids"), "limit") == 40, "podman: processes");
    ok(json_is_true(json_object_get(b, "no_new_privileges")) &&
           has_text(json_object_get(b, "cap_drop"), "ALL") &&
           json_array_size(json_object_get(b, "cap_add")) == 3 &&
           json_is_true(json_object_get(b, "read_only_filesystem")),
       "podman: rights");
    ok(is_text(json_object_get(b, "netns"), "nsmode", "none") &&
           is_text(json_object_get(b, "userns"), "nsmode", "private") &&
           is_text(json_object_get(b, "pidns"), "nsmode", "private"),
       "podman: namespaces");
    ok(json_array_size(json_object_get(ids, "UIDMap")) == 3 &&
           number(json_array_get(json_object_get(ids, "UIDMap"), 1), "host_id") == 101000 &&
           number(json_array_get(json_object_get(ids, "GIDMap"), 0), "host_id") == 100000,
       "podman: ids of the block");
    ok((m = find(mounts, "destination", "/data/\xc3\xa4 \"x\"")) &&
           is_text(m, "source", "/state/engine/sbx-1/m0") &&
           has_text(json_object_get(m, "options"), "nosuid") &&
           has_text(json_object_get(m, "options"), "nodev"),
       "podman: a mount, as it is named");
    ok((m = find(mounts, "destination", "/.mas/link")) &&
           has_text(json_object_get(m, "options"), "ro"),
       "podman: the runner's way out");
    ok(has_text(json_object_get(b, "command"), "--filter-file"), "podman: the runner's own filter");
    ok(!json_object_get(b, "oci_runtime"), "podman: whichever runtime it likes");
    check_labels(json_object_get(b, "labels"), "podman");
}

static void test_docker(void)
{
    struct engine e = engine_new(OCI_DOCKER);
    _cleanup_json_ json_t *b = body_of(OCI_DOCKER, &e);
    const json_t *h = json_object_get(b, "HostConfig"), *mounts = json_object_get(h, "Mounts"), *m;
    ok(is_text(b, "Image", "mas-sandbox/host:1") && is_text(b, "User", "0:0") &&
           json_is_true(json_object_get(b, "NetworkDisabled")),
       "docker: names");
    ok(number(h, "Memory") == (json_int_t)(96 * MIB) &&
           number(h, "MemorySwap") == (json_int_t)(96 * MIB) &&
           number(h, "NanoCpus") == 1500000000 && number(h, "PidsLimit") == 40,
       "docker: limits");
    ok(is_text(h, "NetworkMode", "none") && is_text(h, "IpcMode", "none") &&
           json_is_true(json_object_get(h, "ReadonlyRootfs")) &&
           has_text(json_object_get(h, "CapDrop"), "ALL") &&
           json_array_size(json_object_get(h, "CapAdd")) == 3,
       "docker: rights");
    const json_t *options = json_object_get(h, "SecurityOpt");
    const char *profile = json_string_value(json_array_get(options, 1));
    _cleanup_json_ json_t *parsed = profile
                                        ? json_parse_any(profile + strlen("seccomp="),
                                                         strlen(profile) - strlen("seccomp="), NULL)
                                        : NULL;
    ok(has_text(options, "no-new-privileges") && json_object_get(parsed, "syscalls"),
       "docker: a profile that is JSON");
    ok((m = find(mounts, "Target", "/usr")) && json_is_true(json_object_get(m, "ReadOnly")),
       "docker: directories of the view");
    ok(!find(mounts, "Target", "/proc") && !find(mounts, "Target", "/link") &&
           find(mounts, "Target", "/etc/passwd"),
       "docker: and none that are not to be bound");
    ok((m = find(mounts, "Target", "/data/\xc3\xa4 \"x\"")) &&
           is_text(m, "Source", "/state/engine/sbx-1/m0"),
       "docker: a mount, as it is named");
    ok(!json_object_get(h, "Runtime"), "docker: its own runtime");
    check_labels(json_object_get(b, "Labels"), "docker");
}

static void test_no_limits(void)
{
    struct engine e = engine_new(OCI_PODMAN);
    e.order.child.limits = (struct limits){0};
    _cleanup_json_ json_t *p = body_of(OCI_PODMAN, &e), *d = body_of(OCI_DOCKER, &e);
    const json_t *h = json_object_get(d, "HostConfig");
    ok(json_object_size(json_object_get(p, "resource_limits")) == 0, "podman: no limits");
    ok(!json_object_get(h, "Memory") && !json_object_get(h, "NanoCpus") &&
           !json_object_get(h, "PidsLimit"),
       "docker: no limits");
    ok(find(json_object_get(p, "r_limits"), "type", "nproc") &&
           find(json_object_get(h, "Ulimits"), "Name", "nproc"),
       "and rlimits all the same");
}

static void test_io(void)
{
    struct engine e = engine_new(OCI_PODMAN);
    char dir[] = "/tmp/mas-engine-io-XXXXXX";
    e.order.child.limits.io_bytes_per_s = MIB;
    e.disks.disks[0] = makedev(8, 16);
    e.disks.disks[1] = makedev(7, 0xfffff); /* which is not there */
    e.disks.n = 2;
    _cleanup_json_ json_t *p = body_of(OCI_PODMAN, &e), *d = body_of(OCI_DOCKER, &e);
    const json_t *io = json_object_get(json_object_get(p, "resource_limits"), "blockIO"),
                 *read = json_array_get(json_object_get(io, "throttleReadBpsDevice"), 0),
                 *h = json_object_get(d, "HostConfig");
    ok(json_array_size(json_object_get(io, "throttleWriteBpsDevice")) == 2 &&
           number(read, "major") == 8 && number(read, "minor") == 16 &&
           number(read, "rate") == (json_int_t)MIB,
       "podman: throughput of each disk");
    ok(json_is_array(json_object_get(h, "BlkioDeviceReadBps")) &&
           json_is_array(json_object_get(h, "BlkioDeviceWriteBps")) &&
           json_array_size(json_object_get(h, "BlkioDeviceWriteBps")) < 2,
       "docker: by name, where there is one");
    if (!mkdtemp(dir))
        return;
    snprintf(e.order.dir, sizeof(e.order.dir), "%s", dir);
    io_find_common(&e);
    unsigned n = e.disks.n;
    rmdir(dir);
    io_find_common(&e);
    ok(n <= 2 && e.disks.n == 0, "files that cannot be looked at are on no known disk");
}

static void test_gvisor(void)
{
    struct engine e = engine_new(OCI_DOCKER);
    e.order.inner = OCI_RUNSC;
    e.order.child.process_rlimit = 40;
    _cleanup_json_ json_t *p = body_of(OCI_PODMAN, &e), *d = body_of(OCI_DOCKER, &e);
    const json_t *h = json_object_get(d, "HostConfig"), *n;
    ok(is_text(p, "oci_runtime", "runsc") && is_text(h, "Runtime", "runsc"), "gVisor by its name");
    ok(!has_text(json_object_get(p, "command"), "--filter-file") &&
           !has_text(json_object_get(d, "Cmd"), "--filter-file"),
       "has no filter of ours");
    ok(!json_object_get(h, "PidsLimit") &&
           !json_object_get(json_object_get(p, "resource_limits"), "pids"),
       "and counts processes itself");
    ok((n = find(json_object_get(h, "Ulimits"), "Name", "nproc")) && number(n, "Hard") == 40,
       "by a limit of its own");
    e.order.inner = OCI_KATA;
    ok(!strcmp(engine_runtime(&e)->name, "kata-runtime"), "kata by its name");
}

static void test_args(void)
{
    struct engine e = engine_new(OCI_DOCKER);
    const char *argv[BODY_ARGS_MAX];
    char uid[16];
    e.tool_inside = UINT32_MAX;
    size_t n = body_args(&e, argv, uid, sizeof(uid)), found = 0;
    for (size_t i = 0; i + 1 < n; i++)
        found += (!strcmp(argv[i], "--uid") || !strcmp(argv[i], "--gid")) &&
                 !strcmp(argv[i + 1], "4294967295");
    ok(n < BODY_ARGS_MAX && !argv[n] && found == 2, "the runner is told whose the tools are");
}

static void test_image(void)
{
    struct engine e = engine_new(OCI_PODMAN);
    e.image = e.own_root = true;
    _cleanup_json_ json_t *p = body_of(OCI_PODMAN, &e), *d = body_of(OCI_DOCKER, &e);
    const json_t *mounts = json_object_get(json_object_get(d, "HostConfig"), "Mounts");
    ok(json_is_false(json_object_get(p, "read_only_filesystem")) &&
           find(json_object_get(p, "mounts"), "destination", "/.mas"),
       "podman: an image is written to, and has the runner");
    ok(find(mounts, "Target", "/opt") && find(mounts, "Target", "/.mas") &&
           !find(mounts, "Target", "/workspace/x"),
       "docker: an image's directories");
}

static void test_authority(void)
{
    struct engine e = engine_new(OCI_PODMAN);
    _cleanup_json_ json_t *without = body_of(OCI_PODMAN, &e);
    e.order.child.authority_from_fd = 1;
    _cleanup_json_ json_t *p = body_of(OCI_PODMAN, &e), *d = body_of(OCI_DOCKER, &e);
    const json_t *m = find(json_object_get(p, "mounts"), "destination", ROOT_AUTHORITIES);
    ok(m && is_text(m, "source", "/state/engine/sbx-1/" ENGINE_AUTHORITIES) &&
           has_text(json_object_get(m, "options"), "ro"),
       "podman: an interceptor's authority");
    m = find(json_object_get(json_object_get(d, "HostConfig"), "Mounts"), "Target",
             ROOT_AUTHORITIES);
    ok(m && is_text(m, "Source", "/state/engine/sbx-1/" ENGINE_AUTHORITIES) &&
           json_is_true(json_object_get(m, "ReadOnly")),
       "docker: an interceptor's authority");
    ok(!find(json_object_get(without, "mounts"), "destination", ROOT_AUTHORITIES),
       "and the host's where there is no interceptor");
}

/* A name that is no text cannot be said in JSON. */
static void test_not_text(void)
{
    struct engine e = engine_new(OCI_PODMAN);
    memcpy(e.order.child.mounts[0].target, "/data/\xff", 8);
    _cleanup_json_ json_t *p = body_of(OCI_PODMAN, &e), *d = body_of(OCI_DOCKER, &e);
    ok(!p && !d, "a mount whose name is no UTF-8 is refused, not left out");
}

int main(void)
{
    static const char *const dirs[] = {"view", "view/usr", "view/proc", "root", "root/opt"};
    char path[128];
    if (!mkdtemp(root))
        return 1;
    for (size_t i = 0; i < ELEMENTS(dirs); i++) {
        snprintf(path, sizeof(path), "%s/%s", root, dirs[i]);
        mkdir(path, 0755);
    }
    snprintf(path, sizeof(path), "%s/view/link", root);
    if (symlink("/etc", path) < 0)
        return 1;
    test_podman();
    test_docker();
    test_no_limits();
    test_io();
    test_gvisor();
    test_args();
    test_image();
    test_authority();
    test_not_text();
    unlink(path);
    for (size_t i = ELEMENTS(dirs); i-- > 0;) {
        snprintf(path, sizeof(path), "%s/%s", root, dirs[i]);
        rmdir(path);
    }
    rmdir(root);
    return tap_done();
}
