/* SPDX-License-Identifier: Apache-2.0 */
/* How the keeper gives up its rights:
 *
 *   root        a private one: its directory, the programs of /usr, the allowed host directories
 *   identity    root of a user namespace with three ids of its own, or with the caller's
 *   network     a namespace with nothing but loopback: keeper/outlet.h has the way out
 *   rights      owning and changing files of those ids, starting programs under one of them
 *   files       Landlock, the same again
 *   calls       seccomp: no mounts, namespaces, tracing, modules, ...
 */
#include "daemon/keeper-stage.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <net/if.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/helper.h"
#include "base/json.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "config/config.h"
#include "daemon/drop.h"
#include "daemon/stage.h"
#include "keeper/keeper-proto.h"
#include "keeper/keeper.h"
#include "proto/handover.h"

#define IMAGES_PATH "/images"
#define ALLOW_PATH  "/allow"
#define AUTH_PATH   "/auth.json"
#define AUTH_MAX    (1024 * 1024)
#define ALLOW_MAX   64
#define OPEN_FILES  2048 /* walks hold a descriptor a level */
#define AS_ROOT     "root"
#define AS_CALLER   "caller"
#define NOBODY_AT   2 /* of the three ids */

/* --- what it is handed */

enum { AT_RIGHTS, AT_PARENT, AT_PATH, AT_LOG, AT_SETTINGS };

int keeper_stage_seal(bool privileged, const struct config *c, const char *images_path)
{
    _cleanup_strv_ char **list = NULL;
    stage_append(&list, xstrdup(privileged ? AS_ROOT : AS_CALLER));
    stage_append(&list, xasprintf("%d", (int)getpid()));
    stage_append(&list, xstrdup(images_path));
    stage_append(&list, stage_log_style(c->log_format, c->log_level));
    config_list_part(c, offsetof(struct config, keeper), sizeof(c->keeper), &list);
    config_list_part(c, offsetof(struct config, warden.state_reserve_bytes),
                     sizeof(c->warden.state_reserve_bytes), &list);
    return stage_seal("mas-keeper-config", list);
}

/* --- root */

static const struct drop_kept shown[] = {
    {"/usr", .directory = true, .programs = true},
    {"/lib", .directory = true, .programs = true},
    {"/lib64", .directory = true, .programs = true},
    {"/etc/resolv.conf"},
    {"/etc/hosts"},
    {"/etc/nsswitch.conf"},
    {"/etc/ld.so.cache"},
    {"/etc/ssl", .directory = true},
    {"/etc/ca-certificates", .directory = true},
    {"/dev/null", .device = true},
    {"/dev/urandom", .device = true},
};

struct stage {
    struct keeper_options options;
    char **allow;
    const char *auth_file; /* on the host; NULL: none */
    struct strbuf auth;    /* what is in it */
    struct drop_kept kept[ELEMENTS(shown) + ALLOW_MAX + 1];
    struct drop_view view;
    bool privileged;
    pid_t parent;
    int proc_fd;
    bool in_namespace;
};

static void fill_view(struct stage *s, const char *images_path)
{
    size_t n = ELEMENTS(shown);
    memcpy(s->kept, shown, sizeof(shown));
    for (size_t i = 0; s->allow && s->allow[i] && i < ALLOW_MAX; i++)
        s->kept[n++] = (struct drop_kept){
            .path = s->allow[i], .target = xasprintf(ALLOW_PATH "/%zu", i), .directory = true};
    s->view = (struct drop_view){.kept = s->kept,
                                 .n_kept = n,
                                 .state_path = images_path,
                                 .state_fd = KEEPER_DIR,
                                 .state_target = IMAGES_PATH,
                                 .data = s};
}

/* Credentials are the operator's to read: a copy is for the id that the fetching program has. */
static int show_auth(const struct drop_view *v, struct error *err)
{
    const struct stage *s = v->data;
    uid_t id = s->privileged ? DROP_KEEPER_UID + NOBODY_AT : (uid_t)-1;
    _cleanup_close_ int fd = open(&AUTH_PATH[1], O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0400);
    int r = fd < 0 ? -errno : fd_write_all(fd, s->auth.data, s->auth.len);
    if (r == 0 && fchown(fd, id, id) < 0)
        r = -errno;
    return r < 0 ? error_set(err, ERROR_INTERNAL, -r, "copy images_auth_file") : 0;
}

static int make_root(struct stage *s, struct error *err)
{
    if (s->auth_file) {
        int r = fd_read_file_at(AT_FDCWD, s->auth_file, &s->auth);
        if (r < 0)
            return error_set(err, ERROR_INVALID, -r, "images_auth_file %s", s->auth_file);
        s->view.fill = show_auth;
    }
    s->proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = drop_root_view(&s->view, err);
    if (s->auth_file) {
        s->kept[s->view.n_kept++] = (struct drop_kept){.path = AUTH_PATH};
        s->options.config.auth_file = (char *)AUTH_PATH;
        explicit_bzero(s->auth.data, s->auth.len);
        strbuf_done(&s->auth);
    }
    return r;
}

/* --- identity */

static int write_maps(int proc_fd, pid_t pid, const char *map)
{
    char path[32];
    snprintf(path, sizeof(path), "%d/uid_map", (int)pid);
    int r = fd_write_file_at(proc_fd, path, map);
    snprintf(path, sizeof(path), "%d/gid_map", (int)pid);
    if (r < 0)
        return r;
    return fd_write_file_at(proc_fd, path, map);
}

/* Only a process outside a namespace may map more than itself into it: one is forked before. */
static pid_t fork_mapper(const struct stage *s, const int start[2])
{
    char map[128], go;
    const int kept[] = {start[0], s->proc_fd};
    pid_t target = getpid(), pid = helper_fork(kept, ELEMENTS(kept));
    if (pid != 0)
        return pid;
    if (s->privileged)
        snprintf(map, sizeof(map), "0 %d 1\n1000 %d 1\n65534 %d 1\n", DROP_KEEPER_UID,
                 DROP_KEEPER_UID + 1, DROP_KEEPER_UID + NOBODY_AT);
    else
        snprintf(map, sizeof(map), "0 0 1\n");
    _exit(read(start[0], &go, 1) == 1 && write_maps(s->proc_fd, target, map) == 0 ? 0 : 1);
}

static int enter_namespace(struct stage *s, struct error *err)
{
    int start[2], status;
    if (pipe2(start, O_CLOEXEC) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "pipe");
    _cleanup_close_ int write_end = start[1];
    pid_t mapper = fork_mapper(s, start);
    close(start[0]);
    if (mapper < 0)
        return error_set(err, ERROR_INTERNAL, -mapper, "fork");
    /* The mapper writes to files of this process, which are root's while it cannot be dumped. */
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    bool entered = unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
    int failure = errno;
    bool told = entered && write(write_end, "x", 1) == 1;
    fd_close(&write_end);
    if (waitpid(mapper, &status, 0) < 0 || !told || status != 0)
        return error_set(err, ERROR_INTERNAL, entered ? EPERM : failure, "user namespace");
    fd_close(&s->proc_fd);
    if ((s->privileged && setgroups(0, NULL) < 0) || setresgid(0, 0, 0) < 0 ||
        setresuid(0, 0, 0) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "become root of the namespace");
    return 0;
}

static int raise_loopback(struct error *err)
{
    struct ifreq link = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    _cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return fd < 0 || ioctl(fd, SIOCSIFFLAGS, &link) < 0
               ? error_set(err, ERROR_INTERNAL, errno, "loopback")
               : 0;
}

/* --- the whole */

/* Ports below 1024 are those of its own loopback, where the way out stands for registries that are
 * on the host's. */
#define RIGHTS                                                                                     \
    (1ull << CAP_CHOWN | 1ull << CAP_DAC_OVERRIDE | 1ull << CAP_FOWNER | 1ull << CAP_SETUID |      \
     1ull << CAP_SETGID | 1ull << CAP_KILL | 1ull << CAP_NET_BIND_SERVICE)

static int give_up(struct stage *s, struct error *err)
{
    int r = drop_limits(OPEN_FILES, err);
    if (r == 0)
        r = make_root(s, err);
    if (r == 0)
        r = enter_namespace(s, err);
    s->in_namespace = r == 0;
    if (r == 0)
        r = raise_loopback(err);
    if (r == 0)
        r = drop_capabilities_but(RIGHTS, err);
    if (r == 0)
        r = drop_process(s->parent, err);
    if (r == 0)
        r = drop_keeper_files(&s->view, err);
    if (r < 0)
        return r;
    return drop_keeper_syscalls(err);
}

/* The calls that wait get the reason, and so will the next ones, in place of a process that dies.
 * Nothing that they say is looked at: a process that could not give up its rights reads no records.
 * Returns the exit status. */
static int tell_why(const struct stage *s, const struct error *err)
{
    static char data[KEEPER_RECORD_MAX];
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(sizeof(data) - 1);
    bool forbidden = !s->in_namespace && err->code == ERROR_INTERNAL;
    _cleanup_free_ char *text =
        forbidden
            ? xasprintf("images need a mount and a user namespace to be kept and unpacked in, "
                        "and this host allows none (%s): see 'user namespaces' in 'sbx "
                        "doctor'; in a container, its seccomp profile has to allow them",
                        err->message)
            : xasprintf("images cannot be kept here: %s", err->message);
    _cleanup_json_ json_t *record = json_pack(
        "{s:b, s:s, s:o}", "gone", 1, "code",
        error_code_name(forbidden ? ERROR_UNSUPPORTED : err->code), "message", json_message(text));
    while (recv(KEEPER_SOCK, data, sizeof(data), MSG_DONTWAIT) > 0)
        ;
    return json_format(record, &b) < 0 || fd_send_msg(KEEPER_SOCK, b.data, b.len, NULL, 0) < 0;
}

int keeper_stage(void)
{
    char **list = stage_take(KEEPER_CONFIG);
    static struct stage s = {.auth = STRBUF_INIT(AUTH_MAX), .proc_fd = -1};
    static struct config c; /* what it owns is used until the process ends */
    struct error err = {0};
    prctl(PR_SET_NAME, "mas-images", 0, 0, 0);
    stage_set_signals();
    config_init(&c);
    if (strv_length(list) < AT_SETTINGS) {
        log_error("image keeper: no configuration from the warden");
        return 1;
    }
    stage_use_log_style(list[AT_LOG]);
    if (config_load_part(&c, list + AT_SETTINGS, &err) < 0) {
        log_error("image keeper: %s", err.message);
        return 1;
    }
    s.privileged = strcmp(list[AT_RIGHTS], AS_ROOT) == 0;
    s.parent = (pid_t)strtol(list[AT_PARENT], NULL, 10);
    s.allow = c.keeper.allow;
    s.auth_file = c.keeper.auth_file;
    s.options = (struct keeper_options){
        .config = c.keeper,
        .dir = IMAGES_PATH,
        .allow_dir = ALLOW_PATH,
        .default_fd = fcntl(KEEPER_DEFAULT_IMAGE, F_GETFD) < 0 ? -1 : KEEPER_DEFAULT_IMAGE,
        .own_ids = s.privileged,
        .room = {.dir_fd = -1,
                 .promised_fd = fcntl(KEEPER_PROMISED, F_GETFD) < 0 ? -1 : KEEPER_PROMISED,
                 .claims_fd = fcntl(KEEPER_CLAIMS, F_GETFD) < 0 ? -1 : KEEPER_CLAIMS,
                 .reserve_bytes = c.warden.state_reserve_bytes},
        .gateway_sock = fcntl(KEEPER_GATEWAY, F_GETFD) < 0 ? -1 : KEEPER_GATEWAY,
    };
    s.options.config.auth_file = NULL; /* a copy is, once it is there */
    fill_view(&s, list[AT_PATH]);
    if (give_up(&s, &err) < 0) {
        log_error("image keeper cannot give up its privileges: %s", err.message);
        return tell_why(&s, &err);
    }
    /* It was to compare with what is mounted, and is of the host's mounts: a way out of this root.
     */
    close(KEEPER_DIR);
    for (int fd = KEEPER_SOCK; fd < _KEEPER_FD_END; fd++)
        fd_set_cloexec(fd, true);
    return keeper_main(KEEPER_SOCK, &s.options);
}
