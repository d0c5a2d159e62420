/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets, and what two sandboxes might share. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/un.h>
#include <unistd.h>

#define SHARED_KEY    0x6d617321 /* of the System V objects that two sandboxes look for */
#define SHARED_TEXT   "left by another sandbox"
#define SHARED_QUEUE  "/mas-attack"
#define ABSTRACT_NAME "mas-attack"

static int attack_socket(char **args)
{
    return attack_result(socket(atoi(args[0]), (int)strtol(args[1], NULL, 0), atoi(args[2])));
}

/* EOPNOTSUPP comes after both sockets were made: the family was reached. */
static int attack_socketpair(char **args)
{
    int pair[2];
    int r = attack_result(
        socketpair(atoi(args[0]), (int)strtol(args[1], NULL, 0), atoi(args[2]), pair));
    return r == -EOPNOTSUPP ? 0 : r;
}

static int attack_connect(char **args)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(args[1]))};
    unsigned b[4];
    if (sscanf(args[0], "%u.%u.%u.%u", &b[0], &b[1], &b[2], &b[3]) != 4)
        return -EINVAL;
    a.sin_addr.s_addr = htonl(b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3]);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct timeval limit = {.tv_sec = 2};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    return attack_result(connect(fd, (struct sockaddr *)&a, sizeof(a)));
}

static int abstract_socket(struct sockaddr_un *ret, socklen_t *ret_len)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(ret->sun_path + 1, ABSTRACT_NAME, sizeof(ABSTRACT_NAME) - 1);
    *ret_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof(ABSTRACT_NAME));
    return socket(AF_UNIX, SOCK_STREAM, 0);
}

static int attack_connect_abstract(char **args)
{
    struct sockaddr_un a;
    socklen_t len;
    int fd = abstract_socket(&a, &len);
    (void)args;
    return attack_result(connect(fd, (struct sockaddr *)&a, len));
}

static int attack_connect_path(char **args)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof(a.sun_path), "%s", args[0]);
    return attack_result(
        connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&a, sizeof(a)));
}

/* Adds an interface. */
static int attack_new_link(char **args)
{
    struct {
        struct nlmsghdr h;
        struct ifinfomsg i;
        struct rtattr name;
        char text[8];
    } m = {.h = {.nlmsg_len = sizeof(m),
                 .nlmsg_type = RTM_NEWLINK,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL},
           .name = {.rta_len = 4 + 8, .rta_type = 3 /* IFLA_IFNAME */},
           .text = "masx0"};
    struct {
        struct nlmsghdr h;
        struct nlmsgerr e;
        char rest[1024];
    } answer;
    (void)args;
    int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    if (fd < 0 || send(fd, &m, sizeof(m), 0) < 0 ||
        recv(fd, &answer, sizeof(answer), 0) < (ssize_t)offsetof(typeof(answer), rest))
        return -errno;
    /* Outside, the kernel gets as far as asking which kind of interface. */
    return answer.e.error == -EPERM ? -EPERM : 0;
}

static int attack_lo_down(char **args)
{
    char ifr[40] = "lo";
    (void)args;
    return attack_result(ioctl(socket(AF_INET, SOCK_DGRAM, 0), 0x8914 /* SIOCSIFFLAGS */, ifr));
}

/* Leaves something in every place that two sandboxes might share, listens, and waits. */
static int attack_leave(char **args)
{
    struct mq_attr attr = {.mq_maxmsg = 1, .mq_msgsize = 64};
    int shm = shmget(SHARED_KEY, 4096, IPC_CREAT | 0666);
    char *at = shmat(shm, NULL, 0);
    if (at == (void *)-1)
        return -errno;
    strcpy(at, SHARED_TEXT);
    if (msgget(SHARED_KEY, IPC_CREAT | 0666) < 0 || semget(SHARED_KEY, 1, IPC_CREAT | 0666) < 0)
        return -errno;
    /* Not where Landlock is: the queues' file system is below no directory that has rights. */
    mq_open(SHARED_QUEUE, O_CREAT | O_RDWR, 0666, &attr);
    struct sockaddr_un a;
    socklen_t len;
    int abstract = abstract_socket(&a, &len);
    if (bind(abstract, (struct sockaddr *)&a, len) < 0 || listen(abstract, 5) < 0)
        return -errno;
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(args[0]))};
    in.sin_addr.s_addr = htonl(INADDR_ANY);
    int tcp = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(tcp, (struct sockaddr *)&in, sizeof(in)) < 0 || listen(tcp, 5) < 0)
        return -errno;
    puts("left");
    fflush(stdout);
    sleep((unsigned)atoi(args[1]));
    return 0;
}

static int attack_find_shm(char **args)
{
    (void)args;
    int id = shmget(SHARED_KEY, 4096, 0666);
    return id < 0 ? -errno : 0;
}

static int attack_find_msg(char **args)
{
    (void)args;
    return attack_result(msgget(SHARED_KEY, 0666));
}

static int attack_find_sem(char **args)
{
    (void)args;
    return attack_result(semget(SHARED_KEY, 1, 0666));
}

static int attack_find_queue(char **args)
{
    (void)args;
    return attack_result((long)mq_open(SHARED_QUEUE, O_RDWR));
}

const struct attack attacks_on_network[] = {
    {"socket", "FAMILY TYPE PROTOCOL", attack_socket},
    {"socketpair", "FAMILY TYPE PROTOCOL", attack_socketpair},
    {"connect", "ADDRESS PORT", attack_connect},
    {"connect-abstract", "", attack_connect_abstract},
    {"connect-path", "PATH", attack_connect_path},
    {"new-link", "", attack_new_link},
    {"lo-down", "", attack_lo_down},
    {"leave", "PORT SECONDS", attack_leave},
    {"find-shm", "", attack_find_shm},
    {"find-msg", "", attack_find_msg},
    {"find-sem", "", attack_find_sem},
    {"find-queue", "", attack_find_queue},
    {NULL, NULL, NULL},
};
