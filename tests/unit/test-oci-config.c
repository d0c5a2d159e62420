/* SPDX-License-Identifier: Apache-2.0 */
/* What an OCI runtime is told: rights, ids, limits and mounts; and that its seccomp section, as
 * libseccomp understands it, decides as the warden's own filter does. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "tests/unit/oci-order.h"
#include "tests/unit/bpf-run.h"
#include "tests/unit/tap.h"
#include "filter/filter-table.h"
#include "filter/filter.h"
#include "builder/rlimits.h"

/* --- the config */

static json_t *member(json_t *o, const char *a, const char *b)
{
    json_t *first = json_object_get(o, a);
    return b ? json_object_get(first, b) : first;
}

static bool array_has(json_t *list, const char *text)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        const char *value = json_string_value(item);
        if (value && strcmp(value, text) == 0)
            return true;
    }
    return false;
}

static json_t *find_by(json_t *list, const char *key, const char *value)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        const char *text = json_string_value(json_object_get(item, key));
        if (text && strcmp(text, value) == 0)
            return item;
    }
    return NULL;
}

static void test_rights(json_t *c, const char *name)
{
    json_t *caps = member(c, "process", "capabilities");
    ok(json_array_size(json_object_get(caps, "bounding")) == 3 &&
           array_has(json_object_get(caps, "bounding"), "CAP_SETUID") &&
           json_array_size(json_object_get(caps, "inheritable")) == 0 &&
           json_array_size(json_object_get(caps, "ambient")) == 0,
       "%s: the runner's three rights, and none that a tool inherits", name);
    ok(json_is_true(member(c, "process", "noNewPrivileges")) &&
           json_is_true(member(c, "root", "readonly")) && !json_object_get(c, "hooks"),
       "%s: no new privileges, a read-only root, no hooks", name);
    static const char *const types[] = {"pid", "network", "ipc", "uts", "mount", "user", "cgroup"};
    bool all = true;
    for (size_t i = 0; i < ELEMENTS(types); i++) {
        json_t *ns = find_by(member(c, "linux", "namespaces"), "type", types[i]);
        all = all && ns && !json_object_get(ns, "path");
    }
    ok(all, "%s: every namespace, none of anybody else's", name);
    json_t *ids = member(c, "linux", "uidMappings");
    bool ours = json_array_size(ids) == 3 && json_equal(ids, member(c, "linux", "gidMappings"));
    for (size_t i = 0; i < json_array_size(ids); i++)
        ours = ours &&
               json_integer_value(json_object_get(json_array_get(ids, i), "hostID")) >= 2000000000;
    ok(ours, "%s: no id of the host is mapped", name);
    ok(array_has(member(c, "linux", "maskedPaths"), "/proc/kcore") &&
           array_has(member(c, "linux", "readonlyPaths"), "/proc/sys"),
       "%s: masked and read-only paths", name);
}

static void test_limits(json_t *c, const char *name)
{
    json_t *r = member(c, "linux", "resources");
    ok(json_integer_value(member(r, "memory", "limit")) == 256 << 20 &&
           json_integer_value(member(r, "memory", "swap")) == 256 << 20 &&
           json_integer_value(member(r, "cpu", "quota")) == 150000 &&
           json_integer_value(member(r, "cpu", "period")) == 100000 &&
           json_integer_value(member(r, "pids", "limit")) == 100,
       "%s: memory without swap, cpu, pids", name);
    json_t *limits = member(c, "process", "rlimits");
    ok(json_integer_value(json_object_get(find_by(limits, "type", "RLIMIT_NOFILE"), "hard")) ==
               4096 &&
           find_by(limits, "type", "RLIMIT_NPROC") && find_by(limits, "type", "RLIMIT_CORE"),
       "%s: rlimits", name);
    json_t *tmp = find_by(json_object_get(c, "mounts"), "destination", "/tmp");
    json_t *data = find_by(json_object_get(c, "mounts"), "destination", "/data");
    ok(array_has(json_object_get(tmp, "options"), "nosuid") &&
           array_has(json_object_get(data, "options"), "nodev"),
       "%s: mounts without set-user-id programs and devices", name);
}

/* The root is the sandbox's own to write; what is ours in it is not the image's. */
static void test_image(enum oci_backend b)
{
    struct child_order o = order_image(b);
    json_t *c = config_of(&o), *mounts = json_object_get(c, "mounts");
    json_t *mas = find_by(mounts, "destination", "/.mas");
    json_t *dev = find_by(mounts, "destination", "/dev");
    json_t *sys = find_by(mounts, "destination", "/sys");
    const char *source = json_string_value(json_object_get(mas, "source"));
    ok(json_is_false(member(c, "root", "readonly")) && source &&
           strcmp(source, OCI_TEMPLATE "/.mas") == 0 &&
           array_has(json_object_get(mas, "options"), "ro") &&
           (oci_flavour(b)->own_kernel || array_has(json_object_get(sys, "options"), "ro")),
       "%s: an image's root is writable, /.mas and /sys are not", oci_backend_name(b));
    ok(oci_flavour(b)->own_kernel ||
           strcmp(json_string_value(json_object_get(dev, "source")), OCI_TEMPLATE "/dev") == 0,
       "%s: /dev is not the image's", oci_backend_name(b));
    json_decref(c);
}

static void test_configs(void)
{
    for (int b = OCI_NONE + 1; b < OCI_PODMAN; b++) {
        struct child_order full = order_full((enum oci_backend)b);
        json_t *c = config_of(&full);
        test_rights(c, oci_backend_name((enum oci_backend)b));
        test_limits(c, oci_backend_name((enum oci_backend)b));
        json_decref(c);
        test_image((enum oci_backend)b);
    }
    struct child_order bad = order_full(OCI_CRUN);
    memcpy(bad.mounts[1].target, "/\xff", 3);
    ok(!config_of(&bad), "a path that JSON cannot say is refused, not dropped");
}

/* --- seccomp: libseccomp's reading of the section against the warden's own code */

static void add_call(scmp_filter_ctx ctx, json_t *rule, const char *name)
{
    struct scmp_arg_cmp args[6];
    unsigned n = 0;
    size_t i;
    json_t *a;
    int nr = seccomp_syscall_resolve_name(name);
    if (nr == __NR_SCMP_ERROR)
        return;
    json_array_foreach(json_object_get(rule, "args"), i, a)
    {
        const char *op = json_string_value(json_object_get(a, "op"));
        unsigned index = (unsigned)json_integer_value(json_object_get(a, "index"));
        uint64_t one = (uint64_t)json_integer_value(json_object_get(a, "value"));
        uint64_t two = (uint64_t)json_integer_value(json_object_get(a, "valueTwo"));
        args[n++] = strcmp(op, "SCMP_CMP_EQ") == 0 ? SCMP_CMP64(index, SCMP_CMP_EQ, one)
                    : strcmp(op, "SCMP_CMP_NE") == 0
                        ? SCMP_CMP64(index, SCMP_CMP_NE, one)
                        : SCMP_CMP64(index, SCMP_CMP_MASKED_EQ, one, two);
    }
    json_t *error = json_object_get(rule, "errnoRet");
    uint32_t action = error ? SCMP_ACT_ERRNO((uint32_t)json_integer_value(error)) : SCMP_ACT_ALLOW;
    int r = seccomp_rule_add_array(ctx, action, nr, n, args);
    if (r < 0 && r != -EACCES) /* -EACCES: what happens by default anyway */
        ok(false, "libseccomp takes the rule of %s: %s", name, strerror(-r));
}

static int compile(struct sock_fprog *ret)
{
    static struct sock_filter code[BPF_MAXINSNS];
    json_t *section = oci_seccomp_new(true), *rule, *name;
    size_t i, k;
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    json_array_foreach(json_object_get(section, "syscalls"), i, rule)
        json_array_foreach(json_object_get(rule, "names"), k, name)
            add_call(ctx, rule, json_string_value(name));
    int fd = memfd_create("bpf", MFD_CLOEXEC);
    int r = seccomp_export_bpf(ctx, fd);
    ssize_t n = r < 0 ? r : pread(fd, code, sizeof(code), 0);
    close(fd);
    seccomp_release(ctx);
    json_decref(section);
    *ret = (struct sock_fprog){(unsigned short)(n / (ssize_t)sizeof(*code)), code};
    return n > 0 && n < (ssize_t)sizeof(code) ? 0 : -1;
}

static bool same(const struct sock_fprog *x, const struct sock_fprog *y, int nr, uint64_t a0,
                 uint64_t a1, uint64_t a2)
{
    struct seccomp_data d = {.nr = nr, .arch = seccomp_arch_native(), .args = {a0, a1, a2}};
    uint32_t r = bpf_run(x, &d), s = bpf_run(y, &d);
    if (r != s)
        printf("# call %d(%llx, %llx, %llx): %x, and ours %x\n", nr, (unsigned long long)a0,
               (unsigned long long)a1, (unsigned long long)a2, r, s);
    return r == s;
}

/* Calls above what libseccomp knows are ENOSYS in ours and EPERM there. */
static int last_known(void)
{
    int last = 0;
    for (int nr = 0; nr < 1024; nr++) {
        char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, nr);
        last = name ? nr : last;
        free(name);
    }
    return last;
}

static void test_seccomp(void)
{
    static const uint64_t values[] = {0,
                                      1,
                                      2,
                                      3,
                                      4,
                                      8,
                                      10,
                                      16,
                                      17,
                                      58,
                                      0x0008,
                                      0x20000,
                                      0xffffffff,
                                      0x100000004,
                                      TIOCSTI,
                                      TIOCLINUX,
                                      TIOCSETD,
                                      TIOCSTI | (1ull << 32),
                                      TIOCGWINSZ,
                                      CLONE_NEWUSER,
                                      CLONE_FILES,
                                      0x00100000, /* no flag of unshare() yet */
                                      CLONE_VM | SIGCHLD,
                                      SOCK_STREAM | SOCK_CLOEXEC,
                                      SOCK_RAW,
                                      PR_SET_SECCOMP,
                                      SO_ATTACH_FILTER,
                                      SO_ATTACH_BPF,
                                      SO_ATTACH_REUSEPORT_CBPF,
                                      SO_ATTACH_REUSEPORT_EBPF,
                                      IPPROTO_TCP,
                                      TCP_ULP,
                                      53};
    static const int calls[] = {SYS_clone,       SYS_unshare,        SYS_clone3,     SYS_socket,
                                SYS_socketpair,  SYS_ioctl,          SYS_prlimit64,  SYS_setrlimit,
                                SYS_personality, SYS_io_uring_setup, SYS_setsockopt, SYS_seccomp,
                                SYS_prctl};
    struct sock_fprog ours, theirs;
    struct error err = {0};
    ok(compile(&theirs) == 0, "libseccomp compiles the section");
    ok(filter_compile(&filter_sandbox, &ours, &err) == 0, "and we the table");
    bool all = true;
    for (int nr = 0; nr <= last_known(); nr++) {
        _cleanup_free_ char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, nr);
        all = (!name || same(&theirs, &ours, nr, 0, 0, 0)) && all;
    }
    ok(all, "every known call without arguments: the same verdict");
    for (size_t c = 0; c < ELEMENTS(calls); c++) {
        all = true;
        for (size_t i = 0; i < ELEMENTS(values); i++)
            for (size_t k = 0; k < ELEMENTS(values); k++)
                for (size_t m = 0; m < ELEMENTS(values); m++)
                    all = same(&theirs, &ours, calls[c], values[i], values[k], values[m]) && all;
        ok(all, "call %d with %zu arguments each: the same verdict", calls[c], ELEMENTS(values));
    }
    filter_done(&ours);
}

int main(void)
{
    rlimits_apply_fixed(); /* as the launcher does, which the configuration then repeats */
    test_configs();
    test_seccomp();
    return tap_done();
}
