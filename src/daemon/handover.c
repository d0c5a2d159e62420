#include "daemon/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "config/config.h"

#define HANDOVER_BYTES_MAX (16 * 1024 * 1024)
/* Above any number that HANDOVER_* names. */
#define HANDOVER_PARKING (HANDOVER_LISTEN + HANDOVER_LISTENERS_MAX)

int handover_seal(const struct handover *h, const struct config *c)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(HANDOVER_BYTES_MAX);
    int r = strbuf_append(&b, h, sizeof(*h));
    if (r == 0)
        r = config_serialize(c, &b);
    if (r < 0)
        return r;
    _cleanup_close_ int fd = memfd_create("mas-sandbox-config", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    r = fd_write_all(fd, b.data, b.len);
    if (r < 0)
        return r;
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        return -errno;
    return fd_steal(&fd);
}

int handover_arrange(const int *fds, size_t n)
{
    int parked[HANDOVER_LISTENERS_MAX + HANDOVER_LISTEN];
    if (n > ELEMENTS(parked))
        return -E2BIG;
    /* Twice, because a source may sit on the number that another one is to have. */
    for (size_t i = 0; i < n; i++) {
        parked[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, HANDOVER_PARKING);
        if (parked[i] < 0)
            return -errno;
    }
    for (size_t i = 0; i < n; i++)
        if (dup2(parked[i], HANDOVER_WARDEN + (int)i) < 0)
            return -errno;
    return close_range(HANDOVER_WARDEN + (unsigned)n, ~0U, CLOSE_RANGE_CLOEXEC) < 0 ? -errno : 0;
}

static int read_all(int fd, struct strbuf *b)
{
    for (off_t at = 0;;) {
        char chunk[4096];
        ssize_t n = pread(fd, chunk, sizeof(chunk), at);
        if (n < 0)
            return -errno;
        if (n == 0)
            return 0;
        int r = strbuf_append(b, chunk, (size_t)n);
        if (r < 0)
            return r;
        at += n;
    }
}

static int check_header(const struct handover *h, struct error *err)
{
    if (h->n_listeners > HANDOVER_LISTENERS_MAX ||
        strnlen(h->state_path, sizeof(h->state_path)) == sizeof(h->state_path))
        return error_set(err, ERROR_INTERNAL, EPROTO, "the warden's header makes no sense");
    for (int fd = HANDOVER_WARDEN; fd < HANDOVER_LISTEN + (int)h->n_listeners; fd++)
        if (fd_set_cloexec(fd, true) < 0)
            return error_set(err, ERROR_INTERNAL, EBADF, "descriptor %d of the warden", fd);
    return 0;
}

int handover_take(struct handover *ret, struct config *c, struct error *err)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(HANDOVER_BYTES_MAX);
    int r = read_all(HANDOVER_MEMORY, &b);
    if (r < 0)
        return error_set(err, ERROR_INTERNAL, -r,
                         HANDOVER_FLAG " is for the daemon's own use: no configuration");
    if (b.len < sizeof(*ret))
        return error_set(err, ERROR_INTERNAL, EPROTO, "the warden's header is cut short");
    memcpy(ret, b.data, sizeof(*ret));
    r = check_header(ret, err);
    if (r < 0)
        return r;
    close(HANDOVER_MEMORY);
    config_init(c);
    return config_deserialize(c, b.data + sizeof(*ret), b.len - sizeof(*ret), err);
}
