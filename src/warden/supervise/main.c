/* SPDX-License-Identifier: Apache-2.0 */
/* mas-warden: what mas-sandboxd becomes once it has read the configuration and opened what must be
 * opened in the host's view, in the same process. It is all that runs as root for as long as the
 * daemon does, so it links little: no loop library, no database, no HTTP, no TLS, no YAML.
 *
 *   record       what mas-sandboxd hands over (startup.h), checked
 *   signals      waiting since mas-sandboxd started; read from a descriptor from now on
 *   warden       this process moves into its own namespaces
 *   supervision  gateway and control plane are started, the loop runs
 *
 * and the way back in reverse. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/tree.h"
#include "warden/sign-key.h"
#include "warden/startup.h"
#include "warden/supervise/notify.h"
#include "warden/supervise/supervise.h"

#define EXIT_USAGE 2

/* Leak checking traces the process, which is not dumpable; everything else of the sanitizers works.
 * A weak default: the operator's ASAN_OPTIONS are read after it. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

/* mas-sandboxd has blocked them, so that none was lost. */
static int open_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

/* Without a root of its own the control plane has to pass through, as another user; what it is not
 * to see there belongs to root alone. The next start closes it again. */
static int open_state_dir(const struct startup *s, const struct warden *w, struct error *err)
{
    if (!s->privileged || warden_has_own_root(w))
        return 0;
    if (fchmod(s->state_fd, 0711) < 0)
        return error_set(err, ERROR_INVALID, errno, "let the control plane into '%s'",
                         s->options.store_dir);
    return 0;
}

/* Paths mean nothing here any more: what goes with the daemon is found from descriptors. */
static void remove_socket_file(const struct startup_listener *l)
{
    struct stat st;
    /* Another daemon may have put its own in the place of ours. */
    if (l->name[0] && fstatat(l->dir_fd, l->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        st.st_dev == l->dev && st.st_ino == l->ino)
        unlinkat(l->dir_fd, l->name, 0);
}

static void close_listeners(struct startup *s)
{
    for (uint32_t i = 0; i < s->n_listeners; i++) {
        remove_socket_file(&s->listeners[i]);
        fd_close(&s->listeners[i].fd);
    }
}

static int run_warden(struct startup *s)
{
    struct error err = {0};
    struct supervise_options o = {.startup = s, .signal_fd = open_signals(), .notify_fd = -1};
    int code = 1;
    if (o.signal_fd < 0) {
        log_error("cannot start: signals: %s", strerror(-o.signal_fd));
        close_listeners(s);
        return code;
    }
    o.notify_fd = notify_open();
    o.warden = warden_new(&s->options, &err);
    if (!o.warden || open_state_dir(s, o.warden, &err) < 0)
        log_error("cannot start: %s", err.message);
    else
        code = supervise(&o);
    close_listeners(s); /* before sandboxes are ended, which may take a while */
    warden_free(o.warden);
    fd_close(&o.signal_fd);
    fd_close(&o.notify_fd);
    return code;
}

static int clean_host(const struct startup *s)
{
    const struct warden_options *o = &s->options;
    int removed = warden_clean(o);
    if (removed < 0) {
        log_error("cannot clean: %s", strerror(-removed));
        return 1;
    }
    printf("removed %d leftovers\n", removed);
    return 0;
}

static int explain_usage(const char *asked)
{
    static const char help[] =
        "mas-sandboxd becomes mas-warden when it starts; the program is of no use by hand.\n"
        "  --help, --version\n";
    if (strcmp(asked, "--version") == 0) {
        puts("mas-warden " MAS_VERSION);
        return EXIT_SUCCESS;
    }
    bool wanted = strcmp(asked, "--help") == 0;
    fputs(help, wanted ? stdout : stderr);
    return wanted ? EXIT_SUCCESS : EXIT_USAGE;
}

int main(int argc, char **argv)
{
    struct error err = {0};
    if (argc != 3 || strcmp(argv[1], STARTUP_FLAG) != 0)
        return explain_usage(argc == 2 ? argv[1] : "");
    prctl(PR_SET_NAME, "mas-warden", 0, 0, 0);
    sign_key_wipe_memory();
    struct startup *s = startup_take(atoi(argv[2]), &err);
    if (!s) {
        log_error("cannot start: %s", err.message);
        return EXIT_FAILURE;
    }
    log_setup("mas-sandboxd", s->log_level, s->log_json);
    if (s->mode == STARTUP_CLEAN)
        return clean_host(s);
    if (s->faults)
        fault_arm(getenv("MAS_FAULT"), FAULT_WARDEN);
    int code = run_warden(s);
    if (s->temporary && s->state_parent_fd >= 0)
        tree_remove_at(s->state_parent_fd, strrchr(s->options.store_dir, '/') + 1);
    return code;
}
