/* SPDX-License-Identifier: Apache-2.0 */
/* See machine.h. */
#include "config/machine.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/members.h"
#include "base/strbuf.h"
#include "config/config.h"
#include "proto/net.h"

#define VSOCK_PORT  5000
#define FIRST_CID   3 /* those below are the hypervisor's and the host's */
#define VCPUS_MAX   32
#define MEM_MIB_MIN 128
#define MEM_MIB_MAX (1 << 20)
#define POOL_MAX    1000
#define CIDRS_MAX   NET_RANGES_MAX
#define ARGS_MAX    64
#define MAC_SIZE    18
/* What a sandbox is called where its caller chose no name. */
#define USUAL_ID_SIZE 24

/* All that a file says: the record, the sizes, and what is checked and goes nowhere. */
struct machine_file {
    struct machine_config m;
    struct machine_sizes sizes;
    char vmm[16];
    char command[MACHINE_PATH_SIZE];
    char tap_device[IFNAMSIZ];
    char mac_address[MAC_SIZE];
    uint32_t network_enabled;
};

/* --- which members there are */

static const struct member bucket_members[] = {{"size"}, {"one_time_burst"}, {"refill_time"}, {0}};
static const struct member rate_members[] = {
    {"bandwidth", .inner = bucket_members}, {"ops", .inner = bucket_members}, {0}};
static const struct member drive_members[] = {{"drive_id"},
                                              {"id", MEMBER_HIDDEN},
                                              {"path_on_host"},
                                              {"path", MEMBER_HIDDEN},
                                              {"is_read_only"},
                                              {"read_only", MEMBER_HIDDEN},
                                              {"is_root_device"},
                                              {"rate_limiter", .inner = rate_members},
                                              {0}};
static const struct member machine_members[] = {{"vcpu_count"}, {"mem_mib"}, {0}};
static const struct member vsock_members[] = {{"cid"}, {"port"}, {"uds_path"}, {0}};
static const struct member runner_members[] = {{"command"}, {"args"}, {0}};
static const struct member network_members[] = {
    {"enabled"}, {"tap_device"}, {"mac_address"}, {"allowed_cidrs"}, {0}};
static const struct member cgroup_members[] = {
    {"path"}, {"cpu_quota_us"}, {"memory_max_bytes"}, {0}};
static const struct member pool_members[] = {{"size"}, {0}};
static const struct member file_members[] = {
    {"vmm"},
    {"firecracker_bin"},
    {"qemu_bin"},
    {"kernel_image"},
    {"initramfs"},
    {"rootfs"},
    {"rootfs_rate_limiter", .inner = rate_members},
    {"snapshot"},
    {"api_socket"},
    {"log_path"},
    {"metrics_path"},
    {"boot_args"},
    {"machine", .inner = machine_members},
    {"vsock", .inner = vsock_members},
    {"tool_runner", .inner = runner_members},
    {"network", .inner = network_members},
    {"drives", MEMBER_LIST | MEMBER_OR_OTHER, drive_members},
    {"cgroup", .inner = cgroup_members},
    {"pool", .inner = pool_members},
    {0},
};

enum field_kind {
    FIELD_TEXT,
    FIELD_PATH,
    FIELD_ID_TEXT, /* MACHINE_ID may be in it */
    FIELD_ID_PATH,
    FIELD_NUMBER, /* of 32 bits */
    FIELD_LARGE,  /* of 64 */
    FIELD_SWITCH,
};

#define FIELD(object, name, kind, member, ...)                                                     \
    {                                                                                              \
        object, name, kind, offsetof(struct machine_file, member),                                 \
            sizeof(((struct machine_file *)0)->member), __VA_ARGS__                                \
    }
static const struct field {
    const char *object, *name; /* "": of the file itself */
    enum field_kind kind;
    size_t offset, size;
    int64_t min, max;
} fields[] = {
    FIELD("", "vmm", FIELD_TEXT, vmm),
    FIELD("", "firecracker_bin", FIELD_PATH, m.firecracker_bin),
    FIELD("", "qemu_bin", FIELD_PATH, m.qemu_bin),
    FIELD("", "kernel_image", FIELD_PATH, m.kernel_image),
    FIELD("", "initramfs", FIELD_PATH, m.initramfs),
    FIELD("", "rootfs", FIELD_PATH, m.rootfs),
    FIELD("", "snapshot", FIELD_PATH, m.snapshot),
    FIELD("", "api_socket", FIELD_ID_PATH, m.api_socket),
    FIELD("", "log_path", FIELD_ID_PATH, m.log_path),
    FIELD("", "metrics_path", FIELD_ID_PATH, m.metrics_path),
    FIELD("", "boot_args", FIELD_TEXT, m.boot_args),
    FIELD("machine", "vcpu_count", FIELD_NUMBER, sizes.vcpu_count, 1, VCPUS_MAX),
    FIELD("machine", "mem_mib", FIELD_NUMBER, sizes.mem_mib, MEM_MIB_MIN, MEM_MIB_MAX),
    FIELD("vsock", "cid", FIELD_NUMBER, m.cid, FIRST_CID, UINT32_MAX - 1),
    FIELD("vsock", "port", FIELD_NUMBER, m.port, 1, MACHINE_PORT_MAX),
    FIELD("vsock", "uds_path", FIELD_ID_PATH, m.uds_path),
    FIELD("tool_runner", "command", FIELD_PATH, command),
    FIELD("network", "enabled", FIELD_SWITCH, network_enabled),
    FIELD("network", "tap_device", FIELD_ID_TEXT, tap_device),
    FIELD("network", "mac_address", FIELD_TEXT, mac_address),
    FIELD("cgroup", "path", FIELD_TEXT, m.cgroup_path),
    FIELD("cgroup", "cpu_quota_us", FIELD_NUMBER, m.cpu_quota_us, 1000, UINT32_MAX),
    FIELD("cgroup", "memory_max_bytes", FIELD_LARGE, m.memory_max_bytes, 1, INT64_MAX),
    FIELD("pool", "size", FIELD_NUMBER, sizes.pool_size, 0, POOL_MAX),
};

/* --- values */

struct reading {
    struct machine_file *file;
    const char *name; /* of the file, in messages */
    struct config_problems *problems;
};

static void __attribute__((format(printf, 2, 3)))
reading_refuse(const struct reading *r, const char *format, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    config_error(r->problems, "runtime_config: %s: %s", r->name, text);
}

/* Relative to where the daemon was started, as every other path of its configuration. */
static int path_put(char *to, size_t size, const char *path)
{
    char cwd[MACHINE_PATH_SIZE] = "";
    if (path[0] != '/' && !getcwd(cwd, sizeof(cwd)))
        return -errno;
    int n = snprintf(to, size, "%s%s%s", cwd, cwd[0] && cwd[1] ? "/" : "",
                     strncmp(path, "./", 2) == 0 ? path + 2 : path);
    return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

/* The first "{…}" of text that is none of the known ones, or NULL. */
static const char *unknown_placeholder(const char *text, const char *const *known)
{
    for (const char *at = text; (at = strchr(at, '{')); at++) {
        bool found = false;
        for (const char *const *k = known; *k; k++)
            found = found || strncmp(at, *k, strlen(*k)) == 0;
        if (!found)
            return at;
    }
    return NULL;
}

static const char *const no_placeholders[] = {NULL};
static const char *const id_placeholders[] = {MACHINE_ID, NULL};
static const char *const args_placeholders[] = {MACHINE_ID, "{vsock_uds}", "{api_socket}", NULL};

static void read_text(const struct reading *r, const struct field *f, const char *path,
                      const json_t *value, char *to)
{
    bool is_path = f->kind == FIELD_PATH || f->kind == FIELD_ID_PATH;
    bool has_id = f->kind == FIELD_ID_PATH || f->kind == FIELD_ID_TEXT;
    if (!json_is_string(value))
        return reading_refuse(r, "%s is not a text", path);
    const char *text = json_string_value(value);
    const char *placeholder = unknown_placeholder(text, has_id ? id_placeholders : no_placeholders);
    if (is_path && placeholder)
        return reading_refuse(r, "%s: '%s' is not a placeholder here%s", path, placeholder,
                              has_id ? "; there is " MACHINE_ID : "");
    /* With an id in place of the placeholder; a longer one is refused when its sandbox is made. */
    size_t longer = strstr(text, MACHINE_ID) && is_path ? USUAL_ID_SIZE : 0;
    if (strlen(text) + longer >= f->size ||
        (is_path && *text && path_put(to, f->size - longer, text) < 0))
        return reading_refuse(r, "%s is longer than %zu bytes", path, f->size - longer - 1);
    if (!is_path || !*text)
        snprintf(to, f->size, "%s", text);
}

static void read_number(const struct reading *r, const struct field *f, const char *path,
                        const json_t *value, void *to)
{
    int64_t n = json_is_integer(value) ? json_integer_value(value) : -1;
    if (n < f->min || n > f->max)
        return reading_refuse(r, "%s is not a number from %lld to %lld", path, (long long)f->min,
                              (long long)f->max);
    if (f->kind == FIELD_LARGE)
        *(uint64_t *)to = (uint64_t)n;
    else
        *(uint32_t *)to = (uint32_t)n;
}

static void read_field(const struct reading *r, const struct field *f, const json_t *holder)
{
    char path[64];
    const json_t *value = json_object_get(holder, f->name);
    void *to = (char *)r->file + f->offset;
    if (!value || json_is_null(value))
        return;
    snprintf(path, sizeof(path), "%s%s%s", f->object, *f->object ? "." : "", f->name);
    if (f->kind == FIELD_NUMBER || f->kind == FIELD_LARGE)
        read_number(r, f, path, value, to);
    else if (f->kind != FIELD_SWITCH)
        read_text(r, f, path, value, to);
    else if (json_is_boolean(value))
        *(uint32_t *)to = json_is_true(value);
    else
        reading_refuse(r, "%s is neither true nor false", path);
}

static void read_bucket(const struct reading *r, const json_t *rate, const char *path,
                        const char *name, struct machine_bucket *to)
{
    struct error err = {0};
    json_t *o = NULL;
    int64_t size = 0, burst = 0, refill = 0;
    if (json_member_object(rate, name, &o, &err) <= 0)
        return;
    if (json_member_int(o, "size", 1, INT64_MAX / 1000, &size, &err) < 0 ||
        json_member_int(o, "one_time_burst", 0, INT64_MAX / 1000, &burst, &err) < 0 ||
        json_member_int(o, "refill_time", 1, INT64_MAX / 1000, &refill, &err) < 0)
        return reading_refuse(r, "%s.%s: %s", path, name, err.message);
    if (!size || !refill)
        return reading_refuse(r, "%s.%s: size and refill_time are required", path, name);
    *to = (struct machine_bucket){(uint64_t)size, (uint64_t)burst, (uint64_t)refill};
}

static void read_rate(const struct reading *r, const json_t *holder, const char *path,
                      const char *name, struct machine_rate *to)
{
    char whole[64];
    const json_t *rate = json_object_get(holder, name);
    snprintf(whole, sizeof(whole), "%s%s", path, name);
    read_bucket(r, rate, whole, "bandwidth", &to->bytes);
    read_bucket(r, rate, whole, "ops", &to->operations);
}

/* --- drives */

static bool is_drive_id(const char *id)
{
    size_t n = 0;
    for (; isalnum((unsigned char)id[n]) || id[n] == '_'; n++)
        ;
    return n > 0 && n <= MACHINE_DRIVE_SIZE && !id[n] && strcmp(id, "root") && strcmp(id, "disk") &&
           strcmp(id, "rootfs");
}

static const json_t *member_by_either_name(const json_t *o, const char *name, const char *other)
{
    const json_t *v = json_object_get(o, name);
    return v ? v : json_object_get(o, other);
}

static void read_drive(const struct reading *r, const json_t *value, size_t i)
{
    struct machine_config *m = &r->file->m;
    struct machine_drive *d = &m->drives[i];
    char place[32];
    const json_t *path =
        json_is_string(value) ? value : member_by_either_name(value, "path_on_host", "path");
    const json_t *id = member_by_either_name(value, "drive_id", "id");
    const json_t *only = member_by_either_name(value, "is_read_only", "read_only");
    snprintf(place, sizeof(place), "drives[%zu].", i);
    snprintf(d->id, sizeof(d->id), "drive%zu", i);
    if (json_is_string(id) && is_drive_id(json_string_value(id)))
        snprintf(d->id, sizeof(d->id), "%s", json_string_value(id));
    else if (id)
        reading_refuse(r,
                       "%sdrive_id is not a name of at most %d letters, digits and underscores, "
                       "or is one of the machine's own",
                       place, MACHINE_DRIVE_SIZE);
    for (size_t other = 0; other < i; other++)
        if (strcmp(m->drives[other].id, d->id) == 0)
            reading_refuse(r, "%sdrive_id: '%s' is there twice", place, d->id);
    if (!json_is_string(path) || !*json_string_value(path))
        reading_refuse(r, "%spath_on_host is required", place);
    else if (path_put(d->path, sizeof(d->path), json_string_value(path)) < 0)
        reading_refuse(r, "%spath_on_host is too long", place);
    if (only && !json_is_boolean(only))
        reading_refuse(r, "%sis_read_only is neither true nor false", place);
    d->writable = json_is_false(only);
    if (json_is_true(json_object_get(value, "is_root_device")))
        reading_refuse(r, "%sis_root_device: the root is what rootfs names", place);
    read_rate(r, value, place, "rate_limiter", &d->rate);
}

/* Each machine has all drives, and one that is written is one machine's at a time. */
static void check_writable(const struct reading *r)
{
    const struct machine_file *f = r->file;
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->m.n_drives; i++)
        n += f->m.drives[i].writable;
    if (n > MACHINE_WRITABLE_MAX)
        reading_refuse(r, "drives: more than %d with is_read_only: false", MACHINE_WRITABLE_MAX);
    if (n && f->m.vmm == MACHINE_FIRECRACKER)
        reading_refuse(r, "drives: Firecracker opens its drives itself, which it has no right to "
                          "write; QEMU's machines can have drives with is_read_only: false");
    if (n && f->sizes.pool_size)
        reading_refuse(r, "pool.size: one machine at a time can have a drive with is_read_only: "
                          "false, so none can wait");
}

static void read_drives(const struct reading *r, const json_t *file)
{
    const json_t *list = json_object_get(file, "drives");
    json_t *value;
    size_t i;
    if (list && !json_is_null(list) && !json_is_array(list))
        return reading_refuse(r, "drives is not a list");
    if (json_array_size(list) > MACHINE_DRIVES_MAX)
        return reading_refuse(r, "drives: more than %d", MACHINE_DRIVES_MAX);
    json_array_foreach(list, i, value)
    {
        if (json_is_object(value) || json_is_string(value))
            read_drive(r, value, i);
        else
            reading_refuse(r, "drives[%zu] is neither an object nor a path", i);
    }
    r->file->m.n_drives = (uint32_t)json_array_size(list);
}

/* --- lists that are checked and go nowhere */

static void check_args(const struct reading *r, const json_t *file)
{
    const json_t *runner = json_object_get(file, "tool_runner");
    const json_t *args = json_object_get(runner, "args");
    json_t *value;
    size_t i;
    if (args && !json_is_null(args) && !json_is_array(args))
        return reading_refuse(r, "tool_runner.args is not a list");
    if (json_array_size(args) > ARGS_MAX)
        return reading_refuse(r, "tool_runner.args: more than %d", ARGS_MAX);
    json_array_foreach(args, i, value)
    {
        const char *text = json_string_value(value);
        const char *unknown = text ? unknown_placeholder(text, args_placeholders) : NULL;
        if (!text)
            reading_refuse(r, "tool_runner.args[%zu] is not a text", i);
        else if (unknown)
            reading_refuse(r,
                           "tool_runner.args[%zu]: '%s' is not a placeholder; there are {id}, "
                           "{vsock_uds} and {api_socket}",
                           i, unknown);
    }
    if (json_is_object(runner) && !r->file->command[0])
        reading_refuse(r, "tool_runner.command is required where there is a tool_runner");
}

/* Where the network is not enabled, they are checked and have no effect. A file that says nothing
 * about a network leaves that to network_cidrs; one that has the object is to enable it there. */
static void read_cidrs(const struct reading *r, const json_t *file)
{
    const json_t *network = json_object_get(file, "network");
    const json_t *list = json_object_get(network, "allowed_cidrs");
    struct machine_config *m = &r->file->m;
    struct net_range range;
    json_t *value;
    size_t i;
    m->network_closed = json_is_object(network) && !r->file->network_enabled;
    if (list && !json_is_null(list) && !json_is_array(list))
        return reading_refuse(r, "network.allowed_cidrs is not a list");
    if (json_array_size(list) > CIDRS_MAX)
        return reading_refuse(r, "network.allowed_cidrs: more than %d", CIDRS_MAX);
    json_array_foreach(list, i, value)
    {
        if (!json_is_string(value) || net_range_parse(json_string_value(value), &range) < 0)
            reading_refuse(r, "network.allowed_cidrs[%zu] is not a network such as 192.0.2.0/24",
                           i);
        else if (r->file->network_enabled)
            m->cidrs[m->n_cidrs++] = range;
    }
    if (r->file->network_enabled && !json_array_size(list))
        reading_refuse(r, "network.allowed_cidrs is required when network is enabled: machines "
                          "reach what it names and nothing else");
}

static bool is_mac(const char *text)
{
    for (int i = 0; i < MAC_SIZE - 1; i++)
        if (i % 3 == 2 ? text[i] != ':' : !isxdigit((unsigned char)text[i]))
            return false;
    return !text[MAC_SIZE - 1];
}

/* --- what more than one member is about */

static void read_vmm(const struct reading *r)
{
    static const char *const names[] = {
        [MACHINE_AUTO] = "auto", [MACHINE_QEMU] = "qemu", [MACHINE_FIRECRACKER] = "firecracker"};
    _Static_assert(ELEMENTS(names) == _MACHINE_VMM_MAX, "a name each");
    for (uint32_t i = 0; i < _MACHINE_VMM_MAX; i++)
        if (strcmp(r->file->vmm, names[i]) == 0) {
            r->file->m.vmm = i;
            return;
        }
    reading_refuse(r, "vmm: '%s' must be firecracker, qemu or auto", r->file->vmm);
}

static void check_required(const struct reading *r)
{
    const struct machine_config *m = &r->file->m;
    const bool qemu = m->vmm == MACHINE_QEMU;
    if (!m->firecracker_bin[0] && !qemu)
        reading_refuse(r, "firecracker_bin is required");
    if (!m->kernel_image[0])
        reading_refuse(r, "kernel_image is required");
    if (!m->rootfs[0])
        reading_refuse(r, "rootfs is required");
    if (!m->cid)
        reading_refuse(r, "vsock.cid is required");
    if (!m->port)
        reading_refuse(r, "vsock.port is required");
    if (!m->uds_path[0])
        reading_refuse(r, "vsock.uds_path is required");
    if (r->file->network_enabled && !r->file->tap_device[0])
        reading_refuse(r, "network.tap_device is required when network is enabled");
    if (r->file->mac_address[0] && !is_mac(r->file->mac_address))
        reading_refuse(r, "network.mac_address: '%s' is not six hexadecimal bytes with colons",
                       r->file->mac_address);
}

static void check_pool(const struct reading *r)
{
    const struct machine_file *f = r->file;
    const struct {
        const char *name, *value;
    } texts[] = {{"api_socket", f->m.api_socket},
                 {"vsock.uds_path", f->m.uds_path},
                 {"network.tap_device", f->tap_device}};
    for (size_t i = 0; f->sizes.pool_size > 1 && i < ELEMENTS(texts); i++)
        if (texts[i].value[0] && !strstr(texts[i].value, MACHINE_ID))
            reading_refuse(r, "%s: " MACHINE_ID " is required in it when pool.size is more than 1",
                           texts[i].name);
}

/* What is asked for and not done is refused: a machine would have less than its operator thinks. */
static void check_undone(const struct reading *r)
{
    const struct machine_file *f = r->file;
    if (f->network_enabled && f->m.vmm == MACHINE_FIRECRACKER)
        reading_refuse(r, "network.enabled: Firecracker opens its links itself, which it has no "
                          "right to in a cell; QEMU's machines can have a network");
    if (f->m.snapshot[0])
        reading_refuse(r, "snapshot: machines start from snapshots of the daemon's own making, "
                          "not from one of the operator's");
    if (f->m.metrics_path[0] && f->m.vmm == MACHINE_QEMU)
        reading_refuse(r, "metrics_path: QEMU writes no metrics; /v1/sandboxes/ID/stats has what a "
                          "machine used");
    if (f->m.cgroup_path[0])
        reading_refuse(r, "cgroup.path: groups of machines are made below the daemon's own; start "
                          "the daemon in that group instead");
}

/* --- from outside */

void machine_config_init(struct machine_config *m, const char *dir)
{
    *m = (struct machine_config){.vmm = MACHINE_AUTO, .port = VSOCK_PORT};
    snprintf(m->qemu_bin, sizeof(m->qemu_bin), "/usr/bin/qemu-system-x86_64");
    snprintf(m->kernel_image, sizeof(m->kernel_image), "%s/vmlinux", dir);
    snprintf(m->initramfs, sizeof(m->initramfs), "%s/initramfs", dir);
    snprintf(m->rootfs, sizeof(m->rootfs), "%s/root.img", dir);
}

void machine_config_parse(struct machine_config *ret, struct machine_sizes *ret_sizes,
                          const char *name, const char *text, size_t len, struct config_problems *p)
{
    struct machine_file file = {.m = *ret, .vmm = "auto"};
    const struct reading r = {&file, name, p};
    const struct members_check how = {0};
    struct error err = {0};
    file.m.firecracker_bin[0] = file.m.kernel_image[0] = file.m.rootfs[0] = 0;
    _cleanup_json_ json_t *o = json_parse_object(text, len, &err);
    if (!o || members_check(&how, o, file_members, "", &err) < 0)
        return reading_refuse(&r, "%s", err.message);
    for (size_t i = 0; i < ELEMENTS(fields); i++)
        read_field(&r, &fields[i], *fields[i].object ? json_object_get(o, fields[i].object) : o);
    read_vmm(&r);
    if (file.m.vmm == MACHINE_AUTO && json_object_get(o, "qemu_bin"))
        file.m.vmm = MACHINE_QEMU; /* Firecracker is taken only where nothing else is named */
    read_rate(&r, o, "", "rootfs_rate_limiter", &file.m.rootfs_rate);
    read_drives(&r, o);
    check_args(&r, o);
    read_cidrs(&r, o);
    check_required(&r);
    check_pool(&r);
    check_writable(&r);
    check_undone(&r);
    *ret = file.m;
    *ret_sizes = file.sizes;
}

void machine_config_load(struct machine_config *ret, struct machine_sizes *ret_sizes,
                         const char *path, struct config_problems *p)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(MACHINE_FILE_MAX);
    int n = fd_read_file_at(AT_FDCWD, path, &text);
    if (n < 0)
        config_error(p, "runtime_config: %s: %s", path, strerror(-n));
    else
        machine_config_parse(ret, ret_sizes, path, text.data ? text.data : "", text.len, p);
}

/* --- for the control plane */

#define CIDRS_CLOSED "closed"

char **machine_cidrs_format(const struct machine_config *m)
{
    char **texts = xcalloc(m->n_cidrs + 2, sizeof(*texts)), place[ADDRESS_TEXT_SIZE];
    for (uint32_t i = 0; i < m->n_cidrs; i++) {
        const struct net_range *r = &m->cidrs[i];
        struct address a = {.family = r->family == NET_IPV6 ? AF_INET6 : AF_INET};
        memcpy(a.bytes, r->address, address_bits(&a) / 8);
        address_format(&a, place);
        texts[i] = !r->port_first        ? xasprintf("%s/%u", place, r->bits)
                   : a.family == AF_INET ? xasprintf("%s/%u:%u", place, r->bits, r->port_first)
                                         : xasprintf("[%s/%u]:%u", place, r->bits, r->port_first);
    }
    if (m->network_closed)
        texts[m->n_cidrs] = xstrdup(CIDRS_CLOSED);
    return texts;
}

void machine_cidrs_take(struct machine_config *m, char *const *texts)
{
    for (; texts && *texts; texts++)
        if (strcmp(*texts, CIDRS_CLOSED) == 0)
            m->network_closed = 1;
        else if (m->n_cidrs < NET_RANGES_MAX && net_range_parse(*texts, &m->cidrs[m->n_cidrs]) == 0)
            m->n_cidrs++;
}
