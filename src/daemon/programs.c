/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/programs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"

static int open_in(const char *dir, const char *name)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
        return -ENAMETOOLONG;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* The directory of the running program; ret_name (may be NULL): its name there. */
static int own_dir(char out[PATH_MAX], const char **ret_name)
{
    ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);
    if (n < 0)
        return -errno;
    out[n] = 0;
    char *slash = strrchr(out, '/');
    *slash = 0;
    if (ret_name)
        *ret_name = slash + 1;
    return 0;
}

/* By its directory: what is installed there later is what later control planes run. */
static int find_self(struct programs *p, struct error *err)
{
    char dir[PATH_MAX];
    const char *name;
    int r = own_dir(dir, &name);
    if (r == 0)
        p->self_dir = r = open(*dir ? dir : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (r < 0)
        return error_set(err, ERROR_INTERNAL, errno, "the directory of this program");
    p->self_name = xstrdup(name);
    return 0;
}

static int find_program(const char *dir, const char *name)
{
    char own[PATH_MAX];
    if (dir)
        return open_in(dir, name);
    int r = own_dir(own, NULL);
    if (r == 0)
        r = open_in(own, name);
    return r == -ENOENT ? open_in(MAS_LIBEXECDIR, name) : r;
}

static int find_needed(int *fd, const char *dir, const char *name, struct error *err)
{
    *fd = find_program(dir, name);
    if (*fd >= 0)
        return 0;
    return error_set(err, ERROR_INVALID, -*fd, "%s (looked in %s; set libexec_dir)", name,
                     dir ? dir : "the daemon's directory and " MAS_LIBEXECDIR);
}

/* Root executes them, and what others may write to is theirs. */
static int check_writers(const struct programs *p, struct error *err)
{
    const struct {
        int fd;
        const char *name;
    } opened[] = {{p->warden, "mas-warden"},
                  {p->runner, "mas-toolrunner"},
                  {p->engine, "mas-engine"},
                  {p->oci, "mas-oci"},
                  {p->intercept, "mas-intercept"},
                  {p->vmm, "mas-vmm"},
                  {p->toolnet, "mas-tool-net"},
                  {p->net, "mas-net"},
                  {p->kube, "mas-kube"}};
    struct stat st;
    for (size_t i = 0; i < ELEMENTS(opened); i++)
        if (opened[i].fd >= 0 && fstat(opened[i].fd, &st) == 0 && st.st_mode & S_IWOTH)
            return error_set(err, ERROR_INVALID, 0, "%s: others may write to it (mode %03o)",
                             opened[i].name, (unsigned)st.st_mode & 0777);
    return 0;
}

int programs_open(struct programs *p, const char *dir, struct error *err)
{
    *p = (struct programs)PROGRAMS_INIT;
    int r = find_self(p, err);
    if (r < 0)
        return r;
    r = find_needed(&p->runner, dir, "mas-toolrunner", err);
    if (r < 0)
        return r;
    r = find_needed(&p->warden, dir, "mas-warden", err);
    if (r < 0)
        return r;
    p->engine = find_program(dir, "mas-engine"); /* asked for only by those who name an engine */
    p->engine = p->engine < 0 ? -1 : p->engine;
    p->oci = find_program(dir, "mas-oci"); /* likewise those who name an OCI runtime */
    p->oci = p->oci < 0 ? -1 : p->oci;
    p->intercept = find_program(dir, "mas-intercept"); /* and those who want a secret injected */
    p->intercept = p->intercept < 0 ? -1 : p->intercept;
    p->vmm = find_program(dir, "mas-vmm");
    p->vmm = p->vmm < 0 ? -1 : p->vmm;
    p->net = find_program(dir, "mas-net"); /* likewise those who name network_cidrs */
    p->net = p->net < 0 ? -1 : p->net;
    p->kube = find_program(dir, "mas-kube"); /* and those who name a cluster */
    p->kube = p->kube < 0 ? -1 : p->kube;
    p->toolnet = find_program(dir, "mas-tool-net");
    if (p->toolnet < 0) {
        log_warn("mas-tool-net is not there; URL tools will fail: %s", strerror(-p->toolnet));
        p->toolnet = -1;
    }
    p->default_image = find_program(dir, "default-image.tar");
    if (p->default_image < 0)
        p->default_image = -1;
    return check_writers(p, err);
}
