/* SPDX-License-Identifier: Apache-2.0 */
/* Netlink messages, one request and its acknowledgement at a time. A socket belongs to the network
 * namespace in which it was opened, and acts there wherever its holder is. */
#pragma once

#include <linux/netlink.h>
#include <stddef.h>
#include <stdint.h>

#define NETLINK_MESSAGE_MAX 1024

struct netlink_message {
    union {
        struct nlmsghdr head;
        char bytes[NETLINK_MESSAGE_MAX];
    };
};

/* A socket of this protocol in the caller's network namespace, or -errno. */
int netlink_open(int protocol);
/* Begins a message with the fixed part of its type. */
void netlink_begin(struct netlink_message *m, uint16_t type, uint16_t flags, const void *fixed,
                   size_t size);
void netlink_put(struct netlink_message *m, uint16_t type, const void *data, size_t size);
void netlink_put_text(struct netlink_message *m, uint16_t type, const char *text);
void netlink_put_u32(struct netlink_message *m, uint16_t type, uint32_t value);
/* Nested attributes: what begins returns where it is, for the end. */
size_t netlink_nest(struct netlink_message *m, uint16_t type);
void netlink_nest_end(struct netlink_message *m, size_t at);
/* Sends it and waits for the kernel's answer: 0 or -errno. */
int netlink_send(int sock, struct netlink_message *m);
/* The same of a request that is answered with many messages (NLM_F_DUMP): each goes to fn, which
 * must not use the socket. All of them are read, whatever fn thinks of them. */
typedef void (*netlink_fn)(void *data, const struct nlmsghdr *message);
int netlink_dump(int sock, struct netlink_message *m, netlink_fn fn, void *data);
/* The attribute of this type among those of size bytes at data, or NULL. */
const struct nlattr *netlink_find(const void *data, size_t size, uint16_t type);
const void *netlink_data(const struct nlattr *a);
size_t netlink_data_size(const struct nlattr *a);
