/* SPDX-License-Identifier: Apache-2.0 */
/* Images that mean harm, and what is in them when they are used: test-image-roots RUNNER [--few].
 * Stores are made by hand, as somebody would who unpacks without looking. P27 of SECURITY.md. */
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "tests/unit/tap.h"
#include "tests/unit/warden-client.h"

#define MIB     (1024ull * 1024)
#define BUSYBOX "/bin/busybox"

static char base_dir[64], state_dir[96], allowed_dir[96];
static struct client c;
static struct plan_reply can;
static bool few; /* where every process takes its time */

static const char *run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A command of the host's; its output is static. */
static const char *run(const char *fmt, ...)
{
    static char command[8192], out[65536];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(command, sizeof(command), fmt, ap);
    va_end(ap);
    FILE *f = popen(command, "re");
    size_t n = f ? fread(out, 1, sizeof(out) - 1, f) : 0;
    out[n] = 0;
    if (!f || pclose(f) != 0) {
        printf("Bail out! %s\n", command);
        exit(3);
    }
    return out;
}

static const char *digest_of(unsigned number)
{
    static char hex[PLAN_IMAGE_SIZE];
    snprintf(hex, sizeof(hex), "%064x", number);
    return hex;
}

static const char *rootfs_of(const char *digest)
{
    static char path[256];
    snprintf(path, sizeof(path), "%s/images/store/%s/rootfs", state_dir, digest);
    return path;
}

/* A small image: busybox, a directory of the tool's, a program that is set-user-id. */
static const char *make_image(unsigned number)
{
    const char *r = rootfs_of(digest_of(number));
    run("rm -rf %s && mkdir -p %s && cd %s && mkdir -p bin etc app root opt/deep var/lib home usr "
        "&& cp " BUSYBOX
        " bin/ && for n in sh cat ls id echo touch mkdir rm rmdir stat mv cp ln dd df find head wc"
        " grep true mknod; do ln -s busybox bin/$n; done"
        " && echo root:x:0:0:root:/root:/bin/sh > etc/passwd && echo root:x:0: > etc/group"
        " && echo image > etc/marker && echo lower > app/file && mkdir app/dir && echo x > "
        "app/dir/x"
        " && echo hidden > root/secret && chmod 600 root/secret && cp bin/busybox bin/suid"
        " && chown -R %u:%u . && chown -R %u:%u app && chmod 6755 bin/suid",
        r, r, r, 64216, 64216, 64217, 64217);
    return digest_of(number);
}

static const char *hash_of(const char *digest)
{
    return run("cd %s && (find . -printf '%%p %%y %%m %%U %%G %%l %%s %%T@\\n' | sort;"
               " find . -type f -size -8M -print0 | sort -z | xargs -0 cat) | sha256sum",
               rootfs_of(digest));
}

static struct plan image_plan(const char *id, const char *digest, enum oci_backend b)
{
    struct plan p = client_plan(PLAN_CREATE, id);
    snprintf(p.image, sizeof(p.image), "%s", digest);
    p.backend = b;
    return p;
}

static int create(struct plan p)
{
    int fd = -1;
    struct plan_reply r = client_call(&c, &p, &fd);
    if (r.error)
        printf("# create: error %d wall %d: %s\n", r.error, r.wall, r.message);
    return fd;
}

static void end(const char *id, int fd)
{
    struct plan p = client_plan(PLAN_KILL, id);
    struct plan_reply r = client_call(&c, &p, NULL);
    if (r.error == 0)
        client_wait_exited(&c, id, &r);
    fd_close(&fd);
}

static bool contains(const char *text, const char *part)
{
    bool found = strstr(text, part) != NULL;
    if (!found)
        printf("# wanted '%s' in: %.600s\n", part, text);
    return found;
}

static const char *name_of(enum oci_backend b)
{
    return b ? oci_backend_name(b) : "local";
}

/* All that every sandbox must have, whatever the image brought. */
static const char look[] =
    "id -u; cat /proc/self/comm; cat /proc/1/comm; stat -c %t:%T /dev/null; echo > /dev/null && "
    "for d in /workspace /tmp /home/sandbox /cache /var/tmp /dev/shm; do echo w > $d/mine && cat "
    "$d/mine; done; ls /sys | wc -l; grep -c '^sandbox:' /etc/passwd; head -n1 /etc/hosts; touch "
    "/.mas/x /dev/x /proc/x 2>&1 | wc -l";
static const char seen[] = "1000\ncat\nmas-toolrunner\n1:3\nw\nw\nw\nw\nw\nw\n0\n1\n127.0.0.1 "
                           "localhost\n3\nexit=0";

static const struct {
    const char *what, *script;
} hostile[] = {
    {"/proc is a link to /etc", "ln -s etc proc"},
    {"/proc is a link out", "ln -s ../../../../../../../../../tmp proc"},
    {"/proc is a file", "echo x > proc"},
    {"/dev is a link to /", "ln -s / dev"},
    {"/dev is a file", "echo x > dev"},
    {"/dev has other devices", "mkdir dev && mknod dev/null b 7 0 && mknod dev/mem c 1 1"},
    {"/.mas is a link to /", "ln -s / .mas"},
    {"/.mas has another runner",
     "mkdir -p .mas/run && cp bin/busybox .mas/mas-toolrunner && ln -s /etc .mas/empty"},
    {"/.mas/run is a link", "mkdir .mas && ln -s ../etc .mas/run"},
    {"/sys has files", "mkdir -p sys/kernel && echo x > sys/x"},
    {"/sys is a link", "ln -s proc sys"},
    {"/workspace is a file", "echo x > workspace"},
    {"/workspace is a link to /etc", "ln -s /etc workspace"},
    {"/tmp is a link to /etc", "ln -s /etc tmp"},
    {"/home is a link to /etc", "rmdir home && ln -s etc home"},
    {"/home/sandbox is a link out", "ln -s ../../../../../../../../../etc home/sandbox"},
    {"/var is a link to /", "rm -r var && ln -s / var"},
    {"/var/tmp is a file", "echo x > var/tmp"},
    {"/var/tmp is a link to itself", "ln -s tmp var/tmp"},
    {"/etc is a file", "rm -r etc && echo x > etc"},
    {"/etc is a link out", "rm -r etc && ln -s ../../../../../../../../../etc etc"},
    {"there is no /etc", "rm -r etc"},
    {"/etc/passwd is a link out", "ln -sf ../../../../../../../../../etc/shadow etc/passwd"},
    {"/etc/passwd is a link to itself", "ln -sf passwd etc/passwd"},
    {"/etc/passwd is a pipe", "rm etc/passwd && mkfifo etc/passwd"},
    {"/etc/passwd is a directory", "rm etc/passwd && mkdir etc/passwd"},
    {"/etc/passwd is a device", "rm etc/passwd && mknod etc/passwd c 5 0"},
    {"/etc/passwd is a terabyte", "truncate -s 1T etc/passwd"},
    {"/etc/passwd has no text", "head -c 300 /dev/zero > etc/passwd"},
    {"/etc/hosts is a link out", "ln -s ../../../../../../../../../etc/hosts etc/hosts"},
    {"/etc/hosts is a directory", "mkdir -p etc/hosts/x"},
    {"a thousand directories in /", "mkdir $(seq -f d%g 1000)"},
    {"whiteouts", "mknod proc c 0 0; mknod workspace c 0 0; mknod etc/x c 0 0"},
    {"nobody may look", "chmod 711 . && chmod 700 etc opt var home"},
};

/* The first ones are about places that a runtime mounts on; the others are the warden's alone. */
#define N_PLACES 19

static void test_hostile(enum oci_backend b)
{
    for (size_t i = 0; i < (b ? N_PLACES : ELEMENTS(hostile)); i += few ? 12 : 1) {
        if (b && (i % 2 != 0) != (b == OCI_RUNC)) /* test-images.py has more for both */
            continue;
        const char *digest = make_image(1000 + (unsigned)i);
        run("cd %s && umask 022 && { %s; }", rootfs_of(digest), hostile[i].script);
        run("find %s -uid 0 -print0 | xargs -0r chown -h 64216:64216", rootfs_of(digest));
        _cleanup_free_ char *before = xstrdup(hash_of(digest));
        int fd = create(image_plan("hostile", digest, b));
        const char *out = fd >= 0 ? client_shell(fd, "%s", look) : "";
        ok(contains(out, seen), "P27 %s: %s harms nobody", name_of(b), hostile[i].what);
        end("hostile", fd);
        ok(strcmp(before, hash_of(digest)) == 0, "P27 and the image is as it was");
    }
}

static void set_xattr(const char *digest, const char *path, const char *name, const char *value)
{
    char full[512];
    snprintf(full, sizeof(full), "%s/%s", rootfs_of(digest), path);
    if (setxattr(full, name, value, strlen(value), 0) < 0)
        printf("# setxattr %s %s: %s\n", path, name, strerror(errno));
}

/* What an overlay keeps in attributes of its upper layer is believed of no image. */
static void test_overlay_attributes(enum oci_backend b)
{
    static const char *const kinds[] = {"user", "trusted"};
    const char *digest = make_image(3);
    for (size_t i = 0; i < ELEMENTS(kinds); i++) {
        char name[64];
        snprintf(name, sizeof(name), "%s.overlay.redirect", kinds[i]);
        set_xattr(digest, "opt", name, "/root");
        set_xattr(digest, "app/file", name, "/root/secret");
        snprintf(name, sizeof(name), "%s.overlay.metacopy", kinds[i]);
        set_xattr(digest, "app/file", name, "");
        snprintf(name, sizeof(name), "%s.overlay.opaque", kinds[i]);
        set_xattr(digest, "var", name, "y");
    }
    int fd = create(image_plan("attributes", digest, b));
    const char *out = client_shell(fd, "cat /app/file; ls /opt; echo . ; %s", look);
    ok(contains(out, "deep\n.\n1000\n") && !strstr(out, "hidden"),
       "P27 %s: attributes of an overlay mean nothing in an image", name_of(b));
    end("attributes", fd);
}

static void test_sharing(enum oci_backend b)
{
    const char *digest = make_image(1);
    _cleanup_free_ char *before = xstrdup(hash_of(digest));
    int one = create(image_plan("one", digest, b)), two = create(image_plan("two", digest, b));
    const char *out =
        client_shell(one, "echo mine > /app/file; echo new > /app/new; rm /app/dir/x; "
                          "mv /app/dir/ /app/moved; cat /app/file; ls /app");
    ok(contains(out, "mine\n"), "P27 %s: one changes the image's files", name_of(b));
    out = client_shell(one, "rm -r /app/moved /app/dir; mkdir /app/dir; ls /app/dir; ls /app");
    ok(contains(out, "dir\nfile\nnew\nexit=0"), "P27 %s: and its directories", name_of(b));
    out = client_shell(two, "cat /app/file /app/dir/x; ls /app");
    ok(contains(out, "lower\nx\ndir\nfile\nexit=0"), "P27 %s: the other does not see it",
       name_of(b));
    ok(strcmp(before, hash_of(digest)) == 0, "P27 %s: nor does the image", name_of(b));
    end("one", one);
    int three = create(image_plan("three", digest, b));
    out = client_shell(three, "cat /app/file; ls /app");
    ok(contains(out, "lower\ndir\nfile\nexit=0"), "P27 %s: nor who comes after", name_of(b));
    end("two", two);
    end("three", three);
}

static void test_rights(enum oci_backend b)
{
    const char *digest = make_image(1);
    int fd = create(image_plan("rights", digest, b));
    const char *out = client_shell(
        fd, "id -u; stat -c %%u /app /bin/sh; cat /root/secret; touch /etc/x; echo x > /bin/sh; "
            "rm /etc/marker; mv /etc/passwd /app/p; mkdir /new; cat /etc/marker");
    ok(contains(out, "1000\n1000\n0\n") && contains(out, "image\nexit=0") && !strstr(out, "hidden"),
       "P27 %s: owners are the sandbox's, and the tool is not root", name_of(b));
    out = client_shell(fd, "ls -l /bin/suid; /bin/suid id -u; /bin/suid cat /root/secret; cp "
                           "/bin/suid /app/s; /bin/busybox chmod 6755 /app/s; /app/s id -u");
    ok(contains(out, "-rwsr-sr-x") && !strstr(out, "hidden") && !strstr(out, "\n0\n"),
       "P27 %s: a set-user-id program of the image gives nothing", name_of(b));
    end("rights", fd);
}

static void test_budget(enum oci_backend b, uint64_t memory)
{
    const char *digest = make_image(1);
    struct plan p = image_plan("budget", digest, b);
    p.limits = (struct limits){.disk_bytes = 16 * MIB, .disk_inodes = 1024, .memory_bytes = memory};
    int fd = -1;
    struct plan_reply r = client_call(&c, &p, &fd);
    if (memory && (r.error == EOPNOTSUPP || !(can.features & FEATURE_LOOP))) {
        ok(true, "# skip no loop devices");
        return end("budget", fd);
    }
    const char *by = mechanism_name(r.mechanism[WALL_DISK]);
    const char *out = client_shell(
        fd, "dd if=/dev/zero of=/app/big bs=1M count=64 2>&1; stat -c %%s /app/big; echo y > "
            "/workspace/y; cat /workspace/y");
    ok(contains(out, "No space left") && !strstr(out, "67108864"),
       "P27 %s: what goes above an image is in the disk's budget (%s)", name_of(b), by);
    p = client_plan(PLAN_STATS, "budget");
    r = client_call(&c, &p, NULL);
    ok(r.disk_used_bytes > 12 * MIB, "P27 %s: and is counted: %llu", name_of(b),
       (unsigned long long)r.disk_used_bytes);
    end("budget", fd);
}

static struct plan with_target(const char *digest, enum oci_backend b, const char *target)
{
    struct plan p = image_plan("target", digest, b);
    p.n_mounts = 1;
    strcpy(p.mounts[0].subpath, "sub");
    snprintf(p.mounts[0].target, sizeof(p.mounts[0].target), "%s", target);
    return p;
}

static void test_targets(enum oci_backend b)
{
    static const char *const good[] = {"/data", "/opt/deep/in", "/app/dir", "/workspace/in",
                                       "/home/user/x"};
    static const char *const bad[] = {"/link/in", "/app/file", "/app/file/in", "/out/x", "/etc/x"};
    const char *digest = make_image(4);
    run("cd %s && ln -s opt link && ln -s ../../../../../../../../tmp out", rootfs_of(digest));
    for (size_t i = 0; i < (few ? 1 : ELEMENTS(good)); i++) {
        int fd = create(with_target(digest, b, good[i]));
        ok(contains(client_shell(fd, "cat %s/file; stat -c %%u /app; cat /app/file", good[i]),
                    "allowed\n1000\nlower\n"),
           "P27 %s: a mount at %s", name_of(b), good[i]);
        end("target", fd);
    }
    for (size_t i = 0; i < (few ? 1 : ELEMENTS(bad)); i++) {
        struct plan p = with_target(digest, b, bad[i]);
        int fd = -1;
        struct plan_reply r = client_call(&c, &p, &fd);
        ok(r.error && strstr(r.message, bad[i]), "P27 %s: no mount at %s: %s", name_of(b), bad[i],
           r.message);
        end("target", fd);
    }
}

static void test_store(void)
{
    static const struct {
        const char *what, *script;
        int error;
    } wrong[] = {
        {"rootfs is a link", "mv rootfs x && ln -s x rootfs", ELOOP},
        {"rootfs is a link to /", "mv rootfs x && ln -s / rootfs", ELOOP},
        {"rootfs is a file", "mv rootfs x && touch rootfs", ENOTDIR},
        {"there is no rootfs", "mv rootfs x", ENOENT},
        {"the image is a link", "cd .. && mv %s y && ln -s y %s", ELOOP},
    };
    for (size_t i = 0; i < ELEMENTS(wrong); i++) {
        char digest[PLAN_IMAGE_SIZE], script[512];
        snprintf(digest, sizeof(digest), "%s", make_image(100 + (unsigned)i));
        snprintf(script, sizeof(script), wrong[i].script, digest, digest);
        run("cd %s/.. && %s", rootfs_of(digest), script);
        struct plan p = image_plan("store", digest, OCI_NONE);
        int fd = -1;
        struct plan_reply r = client_call(&c, &p, &fd);
        ok(r.error == wrong[i].error && fd < 0 && strstr(r.message, digest), "P27 %s: %s",
           wrong[i].what, r.message);
        end("store", fd);
        run("rm -rf %s/images/store/%s %s/images/store/y", state_dir, digest, state_dir);
    }
}

/* The store is the operator's: whatever happens to it, others go on. */
static void test_removal(enum oci_backend b)
{
    const char *digest = make_image(2);
    int fd = create(image_plan("removal", digest, b));
    client_shell(fd, "echo mine > /app/file");
    run("mv %s/images/store/%s %s/images/away", state_dir, digest, state_dir);
    const char *out = client_shell(fd, "cat /etc/marker /app/file");
    ok(contains(out, "image\nmine\nexit=0"), "P27 %s: an image that was moved is still used",
       name_of(b));
    run("rm -rf %s/images/away", state_dir);
    client_shell(fd, "cat /etc/marker; ls -l / /app; echo x > /app/file; echo y > /workspace/y");
    end("removal", fd);
    struct plan p = client_plan(PLAN_PROBE, "");
    ok(client_call(&c, &p, NULL).error == 0, "P27 %s: one that was removed harms nobody",
       name_of(b));
}

static void test_adoption(enum oci_backend b)
{
    const char *digest = make_image(1);
    int fd = create(image_plan("adopted", digest, b));
    client_shell(fd, "echo kept > /app/file");
    ok(client_reattach(&c), "P27 %s: another control plane", name_of(b));
    struct plan p = client_plan(PLAN_CONNECT, "adopted");
    int second = -1;
    client_call(&c, &p, &second);
    ok(contains(client_shell(second, "cat /app/file /etc/marker"), "kept\nimage\nexit=0"),
       "P27 %s: a sandbox with an image is adopted", name_of(b));
    close(fd);
    end("adopted", second);
}

static void prepare(void)
{
    snprintf(base_dir, sizeof(base_dir), "/tmp/test-images-%d", (int)getpid());
    snprintf(state_dir, sizeof(state_dir), "%s/state", base_dir);
    snprintf(allowed_dir, sizeof(allowed_dir), "%s/allow", base_dir);
    run("mkdir -p %s %s/sub && echo allowed > %s/sub/file", state_dir, allowed_dir, allowed_dir);
}

int main(int argc, char **argv)
{
    if (geteuid() != 0 || access(BUSYBOX, X_OK) < 0) {
        printf("1..0 # SKIP needs root and " BUSYBOX "\n");
        return 77;
    }
    struct warden_options o;
    warden_options_init(&o);
    few = argc > 2 && strcmp(argv[2], "--few") == 0;
    prepare();
    o.runner_fd = open(argc > 1 ? argv[1] : "", O_RDONLY | O_CLOEXEC);
    o.state_dir = state_dir;
    o.mounts_allow = (char *[]){allowed_dir, NULL};
    c = client_start(&o);
    struct plan p = client_plan(PLAN_PROBE, "");
    can = client_call(&c, &p, NULL);
    _cleanup_free_ char *host =
        xstrdup(run("find /etc /home -xdev -printf '%%p %%m %%T@\\n' | sha256sum"));
    if (!few)
        test_store();
    for (int b = OCI_NONE; b <= (few ? OCI_NONE : OCI_RUNC); b++) {
        if (b && !(can.features & FEATURE_OCI(b))) {
            ok(true, "# skip %s is not there", name_of((enum oci_backend)b));
            continue;
        }
        test_sharing((enum oci_backend)b);
        test_rights((enum oci_backend)b);
        test_budget((enum oci_backend)b, 0);
        test_budget((enum oci_backend)b, 24 * MIB);
        test_targets((enum oci_backend)b);
        test_removal((enum oci_backend)b);
        test_adoption((enum oci_backend)b);
        test_overlay_attributes((enum oci_backend)b);
        test_hostile((enum oci_backend)b);
    }
    ok(strcmp(host, run("find /etc /home -xdev -printf '%%p %%m %%T@\\n' | sha256sum")) == 0,
       "P27 nothing of the host has changed");
    close(c.side);
    waitpid(c.warden_pid, NULL, 0);
    run("rm -rf %s", base_dir);
    return tap_done();
}
