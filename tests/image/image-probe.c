/* SPDX-License-Identifier: Apache-2.0 */
/* The image library by hand, for the scripts beside: one call on a store, its result as one line of
 * JSON. image-probe STORE [KEY=VALUE...] KIND [ARGS...]; a key is a limit, "as" a name to give,
 * "cancel" after how many reports of progress to end, "userns" the first of three ids to run with.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "image/info.h"
#include "image/store.h"

static struct image_options options;
static const char *as_name, *swap_path, *swap_with;
static unsigned long cancel_after, told;

static const struct {
    const char *key;
    uint64_t *value;
} limits[] = {
    {"bytes", &options.limits.bytes},           {"files", &options.limits.files},
    {"path_bytes", &options.limits.path_bytes}, {"depth", &options.limits.depth},
    {"layers", &options.limits.layers},         {"layer_bytes", &options.limits.layer_bytes},
    {"ratio", &options.limits.ratio},
};

/* Somebody else's write to the file, just when it has been verified. */
static void swap(void)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(16 << 20);
    _cleanup_close_ int fd = open(swap_path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    if (fd < 0 || fd_read_file_at(AT_FDCWD, swap_with, &b) < 0 ||
        fd_write_all(fd, b.data, b.len) < 0)
        exit(2);
    swap_path = NULL;
}

static int on_progress(void *arg, const struct image_progress *p)
{
    (void)arg;
    if (swap_path && !strcmp(p->step, "unpack"))
        swap();
    return cancel_after && ++told >= cancel_after;
}

static void write_map(pid_t pid, const char *name, unsigned first)
{
    char path[64], text[128];
    snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
    snprintf(text, sizeof(text), "0 %u 1\n1000 %u 1\n65534 %u 1\n", first, first + 1, first + 2);
    if (fd_write_file_at(AT_FDCWD, path, text) < 0)
        exit(2);
}

/* The rest of the program as root of a user namespace that has three ids, as the keeper is. Needs
 * root; this process stays outside and passes the result on. */
static void enter_userns(unsigned first)
{
    int up[2], down[2], status;
    char c = 0;
    if (pipe2(up, O_CLOEXEC) < 0 || pipe2(down, O_CLOEXEC) < 0)
        exit(2);
    pid_t pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWUSER) < 0 || write(up[1], &c, 1) != 1 || read(down[0], &c, 1) != 1 ||
            setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0 ||
            prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
            exit(2);
        return;
    }
    if (pid < 0 || read(up[0], &c, 1) != 1)
        exit(2);
    write_map(pid, "uid_map", first);
    write_map(pid, "gid_map", first);
    if (write(down[1], &c, 1) != 1)
        exit(2);
    close(0); /* the other end of a pipe must see the child's death */
    waitpid(pid, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static bool take_option(const char *text)
{
    const char *sign = strchr(text, '=');
    if (!sign)
        return false;
    size_t n = (size_t)(sign - text);
    for (size_t i = 0; i < ELEMENTS(limits); i++)
        if (strlen(limits[i].key) == n && !strncmp(limits[i].key, text, n))
            *limits[i].value = strtoull(sign + 1, NULL, 0);
    if (!strncmp(text, "swap=", 5))
        swap_path = sign + 1;
    if (!strncmp(text, "with=", 5))
        swap_with = sign + 1;
    if (!strncmp(text, "as=", 3))
        as_name = sign + 1;
    if (!strncmp(text, "userns=", 7))
        enter_userns((unsigned)strtoul(sign + 1, NULL, 0));
    if (!strncmp(text, "cancel=", 7))
        cancel_after = strtoul(sign + 1, NULL, 0);
    return true;
}

static void print(json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS);
    puts(text);
    free(text);
    json_decref(value);
}

static int open_source(const char *path)
{
    int fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : dup(0);
    if (fd < 0) {
        perror(path);
        exit(2);
    }
    return fd;
}

typedef int source_fn(int fd, const char *ref, int work, struct image_info *info,
                      struct error *err);

static int from_layout(int fd, const char *ref, int work, struct image_info *i, struct error *e)
{
    return image_from_layout(fd, ref, work, &options, i, e);
}
static int from_skopeo(int fd, const char *ref, int work, struct image_info *i, struct error *e)
{
    (void)ref;
    return image_from_skopeo_dir(fd, work, &options, i, e);
}
static int from_docker(int fd, const char *ref, int work, struct image_info *i, struct error *e)
{
    return image_from_docker_archive(fd, ref, work, &options, i, e);
}
static int from_tar(int fd, const char *ref, int work, struct image_info *i, struct error *e)
{
    (void)ref;
    return image_from_rootfs_tar(fd, work, &options, i, e);
}
static int from_dir(int fd, const char *ref, int work, struct image_info *i, struct error *e)
{
    (void)ref;
    return image_from_dir(fd, work, &options, i, e);
}

static const struct {
    const char *kind;
    source_fn *from;
} sources[] = {
    {"layout", from_layout},  {"skopeo", from_skopeo}, {"docker-archive", from_docker},
    {"rootfs-tar", from_tar}, {"dir", from_dir},
};

static int make_image(struct image_store *s, source_fn *from, char **args, struct error *err)
{
    _cleanup_image_work_ struct image_work *w = NULL;
    _cleanup_image_info_ struct image_info info = {0};
    int r = image_work_begin(s, &w, err);
    if (r < 0)
        return r;
    _cleanup_close_ int fd = open_source(args[0]);
    r = from(fd, args[1], image_work_fd(w), &info, err);
    fault_point("probe.unpacked");
    if (r == 0)
        r = image_store_commit(s, w, &info, err);
    if (r == 0 && as_name)
        r = image_store_name(s, as_name, info.digest, err);
    if (r == 0)
        print(image_info_format(&info));
    return r;
}

/* Layers over one another in an existing directory: ROOT LAYER... */
static int unpack_layers(char **args, struct error *err)
{
    _cleanup_close_ int root = open(args[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_image_info_ struct image_info info = {0};
    for (char **path = args + 1; *path; path++) {
        char diff_id[IMAGE_DIGEST_SIZE];
        _cleanup_close_ int fd = open_source(*path);
        int r = image_unpack_layer(root, fd, &options, &info, diff_id, err);
        if (r < 0)
            return r;
    }
    image_info_fill(&info);
    print(image_info_format(&info));
    return 0;
}

static bool is_named(void *arg, const char *digest)
{
    for (char **v = arg; *v; v++)
        if (!strcmp(*v, digest))
            return true;
    return false;
}

static void print_vector(char **v)
{
    json_t *array = json_array();
    for (char **p = v; *p; p++)
        json_array_append_new(array, json_string(*p));
    strv_free(v);
    print(array);
}

static int print_list(struct image_store *s, struct error *err)
{
    _cleanup_image_list_ struct image_list l = {0};
    int r = image_store_list(s, &l, err);
    json_t *array = json_array();
    for (size_t i = 0; i < l.count; i++)
        json_array_append_new(array, image_info_format(&l.items[i]));
    print(array);
    return r;
}

static int use_store(struct image_store *s, const char *verb, char **args, struct error *err)
{
    char digest[IMAGE_DIGEST_SIZE], **v;
    int r = -EINVAL;
    if (!strcmp(verb, "list"))
        return print_list(s, err);
    if (!strcmp(verb, "sweep"))
        return image_store_sweep(s, err);
    if (!strcmp(verb, "rm"))
        return image_store_remove(s, args[0], err);
    if (!strcmp(verb, "touch"))
        return image_store_touch(s, args[0], err);
    if (!strcmp(verb, "name"))
        return image_store_name(s, args[0], args[1], err);
    if (!strcmp(verb, "resolve") && (r = image_store_resolve(s, args[0], digest, err)) == 0)
        puts(digest);
    if (!strcmp(verb, "names") && (r = image_store_names(s, args[0], &v, err)) == 0)
        print_vector(v);
    if (!strcmp(verb, "victims") &&
        (r = image_store_victims(s, strtoull(args[0], NULL, 0), is_named, args + 1, &v, err)) == 0)
        print_vector(v);
    return r;
}

static int run(struct image_store *s, const char *kind, char **args, struct error *err)
{
    if (!strcmp(kind, "layers"))
        return unpack_layers(args, err);
    for (size_t i = 0; i < ELEMENTS(sources); i++)
        if (!strcmp(kind, sources[i].kind))
            return make_image(s, sources[i].from, args, err);
    return use_store(s, kind, args, err);
}

int main(int argc, char **argv)
{
    struct image_store *s = NULL;
    struct error err = {0};
    options.limits = IMAGE_LIMITS_DEFAULT;
    options.on_progress = on_progress;
    fault_arm(getenv("MAS_FAULT"), 1);
    int at = 2;
    while (at < argc && take_option(argv[at]))
        at++;
    if (at >= argc)
        return 2;
    _cleanup_close_ int dir = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = image_store_open(dir, &s, &err);
    if (r == 0)
        r = run(s, argv[at], argv + at + 1, &err);
    image_store_close(s);
    if (r < 0)
        print(json_pack("{s:s, s:o}", "error", error_code_name(err.code), "message",
                        json_message(err.message)));
    return r < 0;
}
