/* SPDX-License-Identifier: Apache-2.0 */
#include "warden/sign-sinks.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"

#define SYSLOG_SOCKET   "/dev/log"
#define SYSLOG_PRIORITY 85 /* authpriv.notice */

int signer_open_file(struct signer *s, const char *path, struct error *err)
{
    s->file_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
    return s->file_fd < 0 ? error_set(err, ERROR_INVALID, errno, "audit_checkpoint_file '%s'", path)
                          : 0;
}

/* By its directory, because no path of the host's is seen later and syslog may be started again. */
static int connect_syslog(struct signer *s)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    fd_close(&s->syslog_fd);
    s->syslog_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/%s", s->syslog_dir_fd,
             s->syslog_name);
    if (s->syslog_fd < 0 || connect(s->syslog_fd, (struct sockaddr *)&a, sizeof(a)) < 0)
        return -errno;
    return 0;
}

int signer_open_syslog(struct signer *s, struct error *err)
{
    char path[PATH_MAX];
    if (!realpath(SYSLOG_SOCKET, path))
        return error_set(err, ERROR_INVALID, errno, "audit_checkpoint_syslog: " SYSLOG_SOCKET);
    char *slash = strrchr(path, '/');
    snprintf(s->syslog_name, sizeof(s->syslog_name), "%s", slash + 1);
    *slash = 0;
    s->syslog_dir_fd = open(path[0] ? path : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = s->syslog_dir_fd < 0 ? -errno : connect_syslog(s);
    return r < 0 ? error_set(err, ERROR_INVALID, -r, "audit_checkpoint_syslog: " SYSLOG_SOCKET) : 0;
}

static int send_syslog(struct signer *s, const char *line)
{
    char message[CHECKPOINT_TEXT_SIZE + 64];
    int n = snprintf(message, sizeof(message), "<%d>mas-sandboxd[%d]: audit %s", SYSLOG_PRIORITY,
                     (int)getpid(), line);
    for (int attempt = 0; attempt < 2; attempt++) {
        if (send(s->syslog_fd, message, (size_t)n, MSG_NOSIGNAL) == n)
            return 0;
        if (connect_syslog(s) < 0)
            break;
    }
    return -errno;
}

void signer_publish(struct signer *s, const struct checkpoint *c)
{
    char line[CHECKPOINT_TEXT_SIZE + 1];
    size_t n = checkpoint_format(c, line);
    if (s->syslog_dir_fd >= 0 && send_syslog(s, line) < 0)
        log_error("audit: a checkpoint did not reach syslog: %s", strerror(errno));
    line[n++] = '\n';
    int r = s->file_fd >= 0 ? fd_write_all(s->file_fd, line, n) : 0;
    if (r < 0)
        log_error("audit: a checkpoint did not reach its file: %s", strerror(-r));
}
