/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/handover.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "config/config.h"
#include "proto/claims.h"

int handover_seal_config(const struct config *c)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(HANDOVER_CONFIG_MAX);
    int r = config_serialize(c, &b);
    if (r < 0)
        return r;
    return fd_sealed_memory("mas-control-config", b.data, b.len);
}

static int read_config(int fd, struct config *c, struct error *err)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(HANDOVER_CONFIG_MAX);
    int r = fd_read_from_start(fd, &b);
    if (r < 0)
        return error_set(err, ERROR_INTERNAL, -r, "the configuration");
    close(fd);
    config_init(c);
    return config_deserialize(c, b.data, b.len, err);
}

int handover_probe(void)
{
    struct config c;
    struct error err = {0};
    int r = read_config(PROBE_CONFIG, &c, &err);
    r = r < 0 ? dprintf(PROBE_ANSWER, "%s", err.message)
              : dprintf(PROBE_ANSWER, PROBE_ANSWER_FORMAT, MAS_VERSION, PROTOCOL_MAJOR,
                        PROTOCOL_MINOR);
    return r < 0 || error_is_set(&err);
}

static int check_record(const struct handover *h, ssize_t n, struct error *err)
{
    if (n >= (ssize_t)(2 * sizeof(uint32_t)) && h->major != PROTOCOL_MAJOR)
        return error_set(
            err, ERROR_CONFLICT, 0,
            "the warden speaks protocol %u.%u and this mas-sandboxd (%s) %d.%d: only a "
            "restart of the daemon, which ends its sandboxes, brings them together",
            h->major, h->minor, MAS_VERSION, PROTOCOL_MAJOR, PROTOCOL_MINOR);
    if (n != (ssize_t)sizeof(*h))
        return error_set(err, ERROR_INTERNAL, n < 0 ? (int)-n : EPROTO,
                         HANDOVER_CONTROL_FLAG " is for the warden's own use: no record from it");
    if (h->n_listeners > HANDOVER_LISTENERS_MAX ||
        strnlen(h->state_path, sizeof(h->state_path)) == sizeof(h->state_path))
        return error_set(err, ERROR_INTERNAL, EPROTO, "the warden's first record makes no sense");
    for (int fd = HANDOVER_WARDEN; fd < HANDOVER_LISTEN + (int)h->n_listeners; fd++)
        if (fd_set_cloexec(fd, true) < 0)
            return error_set(err, ERROR_INTERNAL, EBADF, "descriptor %d of the warden", fd);
    return 0;
}

int handover_take(struct handover *ret, struct config *c, struct claimant *ret_room,
                  struct error *err)
{
    int fds[FD_PASS_MAX];
    int r = check_record(ret, fd_recv_msg(HANDOVER_WARDEN, ret, sizeof(*ret), fds), err);
    if (r < 0)
        return r;
    *ret_room = (struct claimant){
        .dir_fd = -1, .promised_fd = fds[0], .claims_fd = fds[1], .slot = CLAIMS_OUTPUT};
    return read_config(HANDOVER_CONFIG, c, err);
}
