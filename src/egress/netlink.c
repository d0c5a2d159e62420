/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/netlink.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define ANSWER_MAX_S 10 /* the kernel answers at once; never wait for ever all the same */

int netlink_open(int protocol)
{
    struct sockaddr_nl self = {.nl_family = AF_NETLINK};
    const struct timeval most = {.tv_sec = ANSWER_MAX_S};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
    if (fd < 0)
        return -errno;
    if (bind(fd, (struct sockaddr *)&self, sizeof(self)) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most)) == 0)
        return fd;
    int error = -errno;
    close(fd);
    return error;
}

/* Where in the message the new bytes are. */
static size_t message_grow(struct netlink_message *m, size_t size)
{
    size_t at = NLMSG_ALIGN(m->head.nlmsg_len);
    assert(at + size <= sizeof(m->bytes));
    memset(m->bytes + at, 0, NLMSG_ALIGN(size));
    m->head.nlmsg_len = (uint32_t)(at + size);
    return at;
}

void netlink_begin(struct netlink_message *m, uint16_t type, uint16_t flags, const void *fixed,
                   size_t size)
{
    m->head = (struct nlmsghdr){.nlmsg_len = NLMSG_HDRLEN,
                                .nlmsg_type = type,
                                .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | NLM_F_ACK | flags)};
    size_t at = message_grow(m, size);
    memcpy(m->bytes + at, fixed, size);
}

void netlink_put(struct netlink_message *m, uint16_t type, const void *data, size_t size)
{
    struct nlattr a = {.nla_len = (uint16_t)(NLA_HDRLEN + size), .nla_type = type};
    size_t at = message_grow(m, NLA_HDRLEN + NLA_ALIGN(size));
    memcpy(m->bytes + at, &a, sizeof(a));
    if (size)
        memcpy(m->bytes + at + NLA_HDRLEN, data, size);
}

void netlink_put_text(struct netlink_message *m, uint16_t type, const char *text)
{
    netlink_put(m, type, text, strlen(text) + 1);
}

void netlink_put_u32(struct netlink_message *m, uint16_t type, uint32_t value)
{
    netlink_put(m, type, &value, sizeof(value));
}

size_t netlink_nest(struct netlink_message *m, uint16_t type)
{
    size_t at = NLMSG_ALIGN(m->head.nlmsg_len);
    netlink_put(m, type | NLA_F_NESTED, NULL, 0);
    return at;
}

void netlink_nest_end(struct netlink_message *m, size_t at)
{
    struct nlattr *a = (struct nlattr *)(void *)(m->bytes + at);
    a->nla_len = (uint16_t)(m->head.nlmsg_len - at);
}

/* What a socket that was handed over still holds of before is not an answer to this message, and
 * neither is one that came after a wait for it had ended: only the number says which is which. */
static int receive_answer(int sock, uint32_t seq)
{
    union {
        struct nlmsghdr head;
        char bytes[4096];
    } answer;
    for (;;) {
        ssize_t n = recv(sock, &answer, sizeof(answer), 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n < (ssize_t)NLMSG_LENGTH(sizeof(struct nlmsgerr)) || answer.head.nlmsg_seq != seq)
            continue;
        if (answer.head.nlmsg_type != NLMSG_ERROR)
            return -EPROTO;
        return ((struct nlmsgerr *)NLMSG_DATA(&answer.head))->error;
    }
}

static int message_send(int sock, struct netlink_message *m)
{
    static uint32_t next_seq = 1;
    m->head.nlmsg_seq = next_seq++;
    return send(sock, m, m->head.nlmsg_len, 0) < 0 ? -errno : 0;
}

int netlink_send(int sock, struct netlink_message *m)
{
    int r = message_send(sock, m);
    return r < 0 ? r : receive_answer(sock, m->head.nlmsg_seq);
}

/* --- many messages */

/* 1: there are more; 0 or -errno: that was the last. */
static int deliver_messages(const char *bytes, size_t size, uint32_t seq, netlink_fn fn, void *data)
{
    int left = (int)size;
    /* NLMSG_OK() compares numbers with and without a sign, which clang refuses. */
    for (const struct nlmsghdr *h = (const void *)bytes;
         left >= (int)sizeof(*h) && h->nlmsg_len >= sizeof(*h) && h->nlmsg_len <= (uint32_t)left;
         h = NLMSG_NEXT(h, left)) {
        if (h->nlmsg_seq != seq)
            continue;
        if (h->nlmsg_type == NLMSG_DONE)
            return 0;
        if (h->nlmsg_type != NLMSG_ERROR)
            fn(data, h);
        else if (h->nlmsg_len >= NLMSG_LENGTH(sizeof(struct nlmsgerr)))
            return ((const struct nlmsgerr *)NLMSG_DATA(h))->error;
    }
    return 1;
}

int netlink_dump(int sock, struct netlink_message *m, netlink_fn fn, void *data)
{
    static union {
        struct nlmsghdr head;
        char bytes[32768]; /* as much as the kernel puts into one answer */
    } answer;
    int r = message_send(sock, m);
    for (r = r < 0 ? r : 1; r == 1;) {
        ssize_t n = recv(sock, &answer, sizeof(answer), 0);
        if (n < 0 && errno == EINTR)
            continue;
        r = n < 0 ? -errno : deliver_messages(answer.bytes, (size_t)n, m->head.nlmsg_seq, fn, data);
    }
    return r;
}

const struct nlattr *netlink_find(const void *data, size_t size, uint16_t type)
{
    const char *at = data;
    while (size >= NLA_HDRLEN) {
        const struct nlattr *a = (const void *)at;
        if (a->nla_len < NLA_HDRLEN || a->nla_len > size)
            return NULL;
        if ((a->nla_type & NLA_TYPE_MASK) == type)
            return a;
        size_t step = NLA_ALIGN(a->nla_len);
        if (step >= size)
            return NULL;
        at += step;
        size -= step;
    }
    return NULL;
}

const void *netlink_data(const struct nlattr *a)
{
    return (const char *)a + NLA_HDRLEN;
}

size_t netlink_data_size(const struct nlattr *a)
{
    return a->nla_len - NLA_HDRLEN;
}
