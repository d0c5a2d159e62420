/* SPDX-License-Identifier: Apache-2.0 */
/* What the control plane, the gateway and the image keeper can still see: a root of their own with
 * a handful of files in it (drop-root.c), and behind that Landlock, which is all there is when the
 * daemon was not started as root. */
#include "daemon/drop.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/landlock.h"
#include "base/log.h"

/* Shown read-only where they exist. */
static const struct drop_kept kept[] = {
    {"/etc/resolv.conf"},
    {"/etc/hosts"},
    {"/etc/nsswitch.conf"},
    {"/etc/ssl/openssl.cnf"},
    {"/etc/ssl/certs", .directory = true},
    {"/usr/share/ca-certificates", .directory = true},
    {"/usr/local/share/ca-certificates", .directory = true},
    {"/dev/null", .device = true},
    {"/dev/urandom", .device = true},
};

int drop_root(const char *state_path, int state_fd, struct error *err)
{
    struct drop_view view = {kept, ELEMENTS(kept), state_path, state_fd, DROP_STATE_PATH};
    return drop_root_view(&view, err);
}

/* --- Landlock */

#define FS_READ (LANDLOCK_READ_FILE | LANDLOCK_READ_DIR)
/* Plain files and directories: no devices, no programs. */
#define FS_STATE                                                                                   \
    (FS_READ | LANDLOCK_WRITE_FILE | LANDLOCK_REMOVE_DIR | LANDLOCK_REMOVE_FILE |                  \
     LANDLOCK_MAKE_DIR | LANDLOCK_MAKE_REG | LANDLOCK_REFER | LANDLOCK_TRUNCATE)

/* 0 also when there is no such file. */
static int allow_path(int ruleset, const struct landlock_rights *refused, const char *path,
                      uint64_t rights)
{
    _cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == EACCES ? 0 : -errno;
    return landlock_ruleset_allow(ruleset, fd, rights & refused->fs);
}

/* 0 without Landlock in the kernel, which is logged; else the version. */
static int open_ruleset(struct landlock_rights *refused, bool with_network, int *ret_fd)
{
    int abi = landlock_abi();
    if (abi < 1) {
        log_warn("no landlock in this kernel: one wall less around pid=%d", getpid());
        return 0;
    }
    *refused = landlock_known(abi);
    if (with_network)
        refused->net = 0;
    *ret_fd = landlock_ruleset_open(abi, refused);
    return *ret_fd < 0 ? *ret_fd : abi;
}

static uint64_t kept_rights(const struct drop_kept *k)
{
    return FS_READ | (k->device ? LANDLOCK_WRITE_FILE : 0) | (k->programs ? LANDLOCK_EXECUTE : 0);
}

static int restrict_view(const struct drop_view *v, uint64_t state_rights, bool with_network,
                         struct error *err)
{
    struct landlock_rights refused;
    _cleanup_close_ int ruleset = -1;
    int r = open_ruleset(&refused, with_network, &ruleset);
    if (r == 0)
        return 0;
    if (r > 0)
        r = allow_path(ruleset, &refused, v->state_target, state_rights);
    for (size_t i = 0; r == 0 && i < v->n_kept; i++)
        r = allow_path(ruleset, &refused, v->kept[i].target ? v->kept[i].target : v->kept[i].path,
                       kept_rights(&v->kept[i]));
    if (r == 0)
        r = landlock_restrict(ruleset);
    return r < 0 ? error_set(err, ERROR_INTERNAL, -r, "landlock") : 0;
}

int drop_files(const char *state_path, struct error *err)
{
    struct drop_view view = {kept, ELEMENTS(kept), .state_target = state_path};
    return restrict_view(&view, FS_STATE, false, err);
}

int drop_keeper_files(const struct drop_view *v, struct error *err)
{
    return restrict_view(v, FS_STATE | LANDLOCK_MAKE_SYM, true, err);
}

/* Directories, because resolv.conf and its like are replaced while we run; libraries, because libc
 * loads what nsswitch.conf names. */
static const char *const lookup[] = {
    "/etc",     "/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager", "/lib", "/lib64",
    "/usr/lib", "/dev/urandom",
};

int drop_gateway_files(struct error *err)
{
    struct landlock_rights refused;
    _cleanup_close_ int ruleset = -1;
    int r = open_ruleset(&refused, true, &ruleset);
    if (r < 0)
        return error_set(err, ERROR_INTERNAL, -r, "landlock");
    if (r == 0)
        return 0;
    for (size_t i = 0; i < ELEMENTS(lookup); i++) {
        r = allow_path(ruleset, &refused, lookup[i], FS_READ);
        if (r < 0)
            return error_set(err, ERROR_INTERNAL, -r, "landlock");
    }
    r = landlock_restrict(ruleset);
    return r < 0 ? error_set(err, ERROR_INTERNAL, -r, "landlock") : 0;
}
