/* SPDX-License-Identifier: Apache-2.0 */
/* Who is at the other end of an address that the user did not name.
 *
 * Any user of the machine may listen on a default port or leave a socket in a shared place. Before
 * the first byte of a request goes there, and a token with it, the kernel is asked whose it is:
 * root and the user who asks are trusted, and no other user is. A Unix socket's file belongs to the
 * user who bound it, and a TCP socket, in the kernel's tables, to the user who made it. SO_PEERCRED
 * would tell who called listen(): the daemon's own unprivileged user. */
#include "libsbx/internal.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"

#define TCP_STATE_LISTEN 0x0a
#define UID_NOT_KNOWN    ((uid_t)-1)

char *sbx_default_socket(void)
{
    return path_default_socket();
}

bool libsbx_default_socket_exists(const char *path)
{
    struct stat st;
    return path && stat(path, &st) == 0 && S_ISSOCK(st.st_mode);
}

/* --- TCP */

struct listener_row {
    struct in6_addr address; /* IPv4 as a mapped one */
    unsigned port;
    uid_t uid;
};

/* One line of /proc/net/tcp or tcp6; false for what does not listen. Addresses are 32-bit words in
 * the machine's own order. */
static bool parse_row(const char *line, struct listener_row *ret)
{
    char address[33];
    unsigned port, state, uid, word;
    if (sscanf(line, " %*u: %32[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*x:%*x %*x:%*x %*x %u", address,
               &port, &state, &uid) != 4 ||
        state != TCP_STATE_LISTEN)
        return false;
    size_t words = strlen(address) / 8;
    *ret = (struct listener_row){.port = port, .uid = uid};
    if (words != 1 && words != 4)
        return false;
    if (words == 1)
        ret->address.s6_addr32[2] = htonl(0xffff);
    for (size_t i = 0; i < words; i++) {
        if (sscanf(address + 8 * i, "%8x", &word) != 1)
            return false;
        ret->address.s6_addr32[4 - words + i] = word;
    }
    return true;
}

/* A socket bound to the very address is asked before one that is bound to all of them. */
static bool is_any(const struct in6_addr *a)
{
    return IN6_IS_ADDR_UNSPECIFIED(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr32[3] == 0);
}

/* A listener that is not trusted counts, so that none can hide behind another one. */
static void take_owner(uid_t uid, uid_t *owner)
{
    if (*owner == UID_NOT_KNOWN || *owner == 0 || *owner == geteuid())
        *owner = uid;
}

static uid_t find_listener(const struct in6_addr *address, unsigned port)
{
    static const char *const tables[] = {"/proc/net/tcp", "/proc/net/tcp6"};
    uid_t exact = UID_NOT_KNOWN, any = UID_NOT_KNOWN;
    char line[512];
    for (size_t i = 0; i < ELEMENTS(tables); i++) {
        FILE *f = fopen(tables[i], "re");
        struct listener_row row;
        while (f && fgets(line, sizeof(line), f)) {
            if (!parse_row(line, &row) || row.port != port)
                continue;
            if (memcmp(&row.address, address, sizeof(*address)) == 0)
                take_owner(row.uid, &exact);
            else if (is_any(&row.address))
                take_owner(row.uid, &any);
        }
        if (f)
            fclose(f);
    }
    return exact != UID_NOT_KNOWN ? exact : any;
}

static uid_t tcp_owner(const char *ip, int port)
{
    struct in6_addr address = {0};
    if (inet_pton(AF_INET6, ip, &address) != 1) {
        address.s6_addr32[2] = htonl(0xffff);
        if (inet_pton(AF_INET, ip, &address.s6_addr32[3]) != 1)
            return UID_NOT_KNOWN;
    }
    return find_listener(&address, (unsigned)port);
}

static uid_t unix_owner(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISSOCK(st.st_mode) ? st.st_uid : UID_NOT_KNOWN;
}

/* --- libcurl's moments */

/* The connection is there, and nothing was sent. */
static int on_connected(void *data, char *peer_ip, char *local_ip, int peer_port, int local_port)
{
    struct sbx_client *c = data;
    (void)local_ip;
    (void)local_port;
    uid_t owner = c->unix_path ? unix_owner(c->unix_path) : tcp_owner(peer_ip, peer_port);
    if (owner == 0 || owner == geteuid())
        return CURL_PREREQFUNC_OK;
    char who[48] = "a user whom the kernel does not name";
    if (owner != UID_NOT_KNOWN)
        snprintf(who, sizeof(who), "user %u", (unsigned)owner);
    snprintf(c->distrust, sizeof(c->distrust),
             "it belongs to %s, neither to root nor to you; if that is right, name the address",
             who);
    return CURL_PREREQFUNC_ABORT;
}

void libsbx_check_peer(struct sbx_client *c, CURL *h)
{
    curl_easy_setopt(h, CURLOPT_PREREQFUNCTION, on_connected);
    curl_easy_setopt(h, CURLOPT_PREREQDATA, c);
}

int libsbx_check_socket(struct sbx_client *c, int fd)
{
    struct sockaddr_storage a = {0};
    socklen_t len = sizeof(a);
    char ip[INET6_ADDRSTRLEN] = "";
    int port = 0;
    if (getpeername(fd, (struct sockaddr *)&a, &len) < 0)
        return -1;
    if (a.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&a;
        inet_ntop(AF_INET, &in->sin_addr, ip, sizeof(ip));
        port = ntohs(in->sin_port);
    } else if (a.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)&a;
        inet_ntop(AF_INET6, &in->sin6_addr, ip, sizeof(ip));
        port = ntohs(in->sin6_port);
    }
    return on_connected(c, ip, NULL, port, 0) == CURL_PREREQFUNC_OK ? 0 : -1;
}
