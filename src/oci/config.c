/* SPDX-License-Identifier: Apache-2.0 */
/* config.json of an OCI bundle, from an order. Sizes, ids and paths are the warden's; the tables
 * (capabilities, masked paths, parts of the disk, system calls) are those of its own sandboxes. */
#include <assert.h>
#include <linux/filter.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/json.h"
#include "base/utf8.h"
#include "builder/child.h"
#include "builder/flavour.h"
#include "builder/mount.h"
#include "builder/rlimits.h"
#include "builder/root.h"
#include "oci/config.h"
#include "oci/seccomp.h"

#define OCI_VERSION     "1.0.2"
#define CPU_PERIOD_US   100000
#define CPU_SHARES_CORE 1024 /* of a whole core */
#define CPU_SHARES_MIN  2
#define BLKIO_WEIGHT    500
#define SOFT_NPROC      65536 /* where a control group counts processes */

static json_t *format_capabilities(void)
{
    json_t *caps = json_from_words(child_runner_caps);
    json_t *c = json_pack("{s:O, s:O, s:O, s:[], s:[]}", "bounding", caps, "effective", caps,
                          "permitted", caps, "inheritable", "ambient");
    json_decref(caps);
    return c;
}

static json_t *format_rlimit(const char *type, uint64_t soft, uint64_t hard)
{
    return json_pack("{s:s, s:I, s:I}", "type", type, "soft", (json_int_t)soft, "hard",
                     (json_int_t)hard);
}

/* The launcher has the fixed ones already, or what it may have of them: a runtime may not raise
 * any. Those without a limit are left to that. */
static json_t *format_rlimits(const struct child_order *o)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n_rlimit_rows; i++) {
        const struct rlimit_row *row = &rlimit_rows[i];
        struct rlimit own;
        uint64_t value = rlimits_value(row, o);
        if (row->resource == RLIMIT_NPROC && !value)
            value = SOFT_NPROC;
        if (getrlimit(row->resource, &own) < 0 || (!value && own.rlim_max == RLIM_INFINITY))
            continue;
        if (value && value < own.rlim_max)
            own.rlim_cur = own.rlim_max = value;
        json_array_append_new(list, format_rlimit(row->name, own.rlim_cur, own.rlim_max));
    }
    return list;
}

static json_t *format_process(const struct oci_config *c)
{
    const char *argv[CHILD_ARGS_MAX + 5] = {NULL};
    size_t n = child_runner_args(c->order, false, argv);
    argv[0] = ROOT_RUNNER_PATH;
    if (!oci_flavour(c->backend)->own_kernel && !c->filter) {
        argv[n++] = "--filter-fd";
        argv[n++] = OCI_FILTER_FD_TEXT;
    }
    if (oci_flavour(c->backend)->dials) {
        argv[n++] = "--connect";
        argv[n++] = OCI_LINK_INSIDE "/" OCI_LINK_NAME;
    }
    return json_pack("{s:b, s:{s:i, s:i}, s:o, s:o, s:s, s:o, s:b, s:o, s:i}", "terminal", 0,
                     "user", "uid", SANDBOX_RUNNER_ID, "gid", SANDBOX_RUNNER_ID, "args",
                     json_from_words(argv), "env", json_from_words(child_runner_env), "cwd", "/",
                     "capabilities", format_capabilities(), "noNewPrivileges", 1, "rlimits",
                     format_rlimits(c->order), "oomScoreAdj", atoi(CHILD_OOM_ADJ));
}

static void add_mount(json_t *list, const char *target, const char *type, const char *source,
                      const char *options)
{
    json_t *o = json_array();
    _cleanup_free_ char *copy = xstrdup(options);
    char *save = NULL;
    for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save))
        json_array_append_new(o, json_string(word));
    json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:o}", "destination", target, "type",
                                          type, "source", source, "options", o));
}

/* A kernel of its own brings its own devices; on ours they are the template's. */
static void add_system_mounts(json_t *list, const struct oci_config *c)
{
    const struct oci_flavour *f = oci_flavour(c->backend);
    add_mount(list, "/proc", "proc", "proc", "nosuid,nodev,noexec");
    if (c->order->image_from_fd) { /* which has none of ours, or others in their place */
        _cleanup_free_ char *mas = xasprintf("%s/.mas", c->system);
        _cleanup_free_ char *empty = xasprintf("%s%s", c->system, ROOT_EMPTY_DIR);
        add_mount(list, "/.mas", "bind", mas, "bind,ro,nosuid");
        if (!f->own_kernel) /* which has a /sys of its own */
            add_mount(list, "/sys", "bind", empty, "bind,ro,nosuid,noexec");
    }
    if (f->own_kernel)
        return;
    _cleanup_free_ char *dev = xasprintf("%s/dev", c->system);
    add_mount(list, "/dev", "bind", dev, "bind,ro,nosuid,noexec");
    add_mount(list, "/dev/pts", "devpts", "devpts",
              "nosuid,noexec,newinstance,ptmxmode=0666,mode=0600,max=" MOUNT_PTYS_MAX);
}

static json_t *format_mounts(const struct oci_config *c)
{
    const struct child_order *o = c->order;
    json_t *list = json_array();
    char source[PLAN_PATH_SIZE];
    add_system_mounts(list, c);
    for (size_t i = 0; i < n_disk_parts; i++) {
        const char *target = disk_parts[i].target;
        /* A socket that its own kernel makes must be in a file system of its own. */
        if (oci_flavour(c->backend)->own_kernel && strcmp(target, ROOT_GATEWAY_DIR) == 0) {
            add_mount(list, target, "tmpfs", "tmpfs", "nosuid,nodev,size=1m,mode=0755");
            continue;
        }
        snprintf(source, sizeof(source), "%s/%s", OCI_DISK, disk_parts[i].name);
        add_mount(list, target, "bind", source, "bind,rw,nosuid,nodev");
    }
    for (uint32_t i = 0; i < o->n_mounts; i++) {
        snprintf(source, sizeof(source), "%s/%u", OCI_MOUNTS, i);
        add_mount(list, o->mounts[i].target, "bind", source, "bind,nosuid,nodev");
    }
    if (o->authority_from_fd && !o->image_from_fd) /* which has it among its own */
        add_mount(list, ROOT_AUTHORITIES, "bind", OCI_AUTHORITIES, "bind,ro,nosuid,nodev,noexec");
    if (oci_flavour(c->backend)->dials)
        add_mount(list, OCI_LINK_INSIDE, "bind", OCI_LINK, "bind,rw,nosuid,nodev,noexec");
    return list;
}

static json_t *format_id_mappings(const struct oci_config *c)
{
    const struct {
        int inside;
        uint32_t host;
    } ids[] = {{SANDBOX_RUNNER_ID, c->runner_id},
               {SANDBOX_TOOL_ID, c->tool_id},
               {SANDBOX_NOBODY_ID, c->nobody_id}};
    json_t *a = json_array();
    for (size_t i = 0; i < ELEMENTS(ids); i++)
        json_array_append_new(a, json_pack("{s:i, s:I, s:i}", "containerID", ids[i].inside,
                                           "hostID", (json_int_t)ids[i].host, "size", 1));
    return a;
}

bool oci_copies_network(const struct child_order *o)
{
    return o->flags & PLAN_ADDRESSES && oci_flavour((enum oci_backend)o->backend)->copy_network;
}

/* Where the runtime takes the network of its namespace over, that is the launcher's, in which the
 * link is already. */
static json_t *format_namespaces(const struct oci_config *c)
{
    static const char *const types[] = {"pid",   "network", "ipc",    "uts",
                                        "mount", "user",    "cgroup", NULL};
    json_t *a = json_array();
    for (const char *const *t = types; *t; t++) {
        json_t *entry = json_pack("{s:s}", "type", *t);
        if (strcmp(*t, "network") == 0 && oci_copies_network(c->order))
            json_object_set_new(entry, "path", json_string("/proc/self/ns/net"));
        json_array_append_new(a, entry);
    }
    return a;
}

static json_t *format_cpu(uint32_t millicores)
{
    int64_t shares = (int64_t)millicores * CPU_SHARES_CORE / 1000;
    int64_t quota = (int64_t)millicores * CPU_PERIOD_US / 1000;
    return json_pack("{s:I, s:I, s:I}", "shares",
                     (json_int_t)(shares < CPU_SHARES_MIN ? CPU_SHARES_MIN : shares), "quota",
                     (json_int_t)(quota < 1000 ? 1000 : quota), "period",
                     (json_int_t)CPU_PERIOD_US);
}

/* Only what the warden's own group enforces too: a runtime must not fail for want of more. */
static json_t *format_resources(const struct oci_config *c)
{
    const struct limits *l = &c->order->limits;
    json_t *r = json_pack("{s:[{s:b, s:s}]}", "devices", "allow", 0, "access", "rwm");
    if (l->memory_bytes)
        json_object_set_new(r, "memory",
                            json_pack("{s:I, s:I}", "limit", (json_int_t)l->memory_bytes, "swap",
                                      (json_int_t)l->memory_bytes));
    if (l->cpu_millicores)
        json_object_set_new(r, "cpu", format_cpu(l->cpu_millicores));
    if (l->processes)
        json_object_set_new(r, "pids", json_pack("{s:I}", "limit", (json_int_t)l->processes));
    if (l->io_bytes_per_s)
        json_object_set_new(r, "blockIO", json_pack("{s:i}", "weight", BLKIO_WEIGHT));
    return r;
}

static json_t *linux_section(const struct oci_config *c)
{
    json_t *l = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "uidMappings",
                          format_id_mappings(c), "gidMappings", format_id_mappings(c), "namespaces",
                          format_namespaces(c), "resources", format_resources(c), "maskedPaths",
                          json_from_words(mount_proc_masked), "readonlyPaths",
                          json_from_words(mount_proc_read_only), "seccomp",
                          oci_seccomp_new(oci_flavour(c->backend)->takes_filter));
    if (c->cgroup)
        json_object_set_new(l, "cgroupsPath", json_string(c->cgroup));
    return l;
}

/* crun's: what compiling the section takes (40 ms measured) is longer than all else it does. */
static json_t *format_annotations(const struct sock_fprog *filter)
{
    _cleanup_free_ char *text =
        base64_encode(filter->filter, filter->len * sizeof(*filter->filter), NULL);
    return json_pack("{s:s}", "run.oci.seccomp_bpf_data", text);
}

static bool is_text(const char *s)
{
    return utf8_valid_prefix(s, strlen(s)) == strlen(s);
}

/* JSON has no other bytes, and none may be dropped. */
static bool is_sayable(const struct child_order *o)
{
    for (uint32_t i = 0; i < o->n_mounts; i++)
        if (!is_text(o->mounts[i].target))
            return false;
    return is_text(o->workdir) && is_text(o->hostname);
}

json_t *oci_config_new(const struct oci_config *c)
{
    if (!is_sayable(c->order))
        return NULL;
    json_t *config = json_pack("{s:s, s:o, s:{s:s, s:b}, s:s, s:o, s:o}", "ociVersion", OCI_VERSION,
                               "process", format_process(c), "root", "path", c->rootfs, "readonly",
                               !c->order->image_from_fd, "hostname", c->order->hostname, "mounts",
                               format_mounts(c), "linux", linux_section(c));
    assert(config); /* all of it is ours */
    if (c->filter)
        json_object_set_new(config, "annotations", format_annotations(c->filter));
    return config;
}
