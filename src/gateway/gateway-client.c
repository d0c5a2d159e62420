/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/gateway-client.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/map.h"
#include "gateway/gateway-proto.h"
#include "gateway/rule.h"

/* As error_field(), for lists that not every contract calls the same. */
#define error_member(err, member, ...)                                                             \
    ((member) ? error_field(err, member, __VA_ARGS__)                                              \
              : error_set(err, ERROR_INVALID, 0, __VA_ARGS__))

static int pack_host(struct gateway_request *req, const char *host, const char *member,
                     uint32_t *count, struct error *err)
{
    size_t size = strlen(host) + 1;
    if (req->n_hosts + req->n_denied + req->n_intercepted == GATEWAY_HOSTS_MAX ||
        size > GATEWAY_HOSTS_SIZE - req->hosts_len)
        return error_member(
            err, member,
            "too many hosts, with those that are intercepted or that the policy denies: at "
            "most %d and %d bytes",
            GATEWAY_HOSTS_MAX, GATEWAY_HOSTS_SIZE);
    memcpy(req->hosts + req->hosts_len, host, size);
    req->hosts_len += (uint32_t)size;
    (*count)++;
    return 0;
}

static int check_host(const char *host, bool full, const char *member, struct error *err)
{
    struct rule_list l = {0};
    int r = full ? rule_list_add_full(&l, host) : rule_list_add(&l, host);
    rule_list_done(&l);
    if (r < 0)
        return error_member(err, member, "'%.64s' is not a host, *.domain, address or network",
                            host);
    return 0;
}

int gateway_hosts_check(char *const *hosts, const char *member, struct error *err)
{
    int r = 0;
    for (; r >= 0 && hosts && *hosts; hosts++)
        r = check_host(*hosts, false, member, err);
    return r;
}

static int pack_list(struct gateway_request *req, char *const *hosts, const char *member,
                     uint32_t *count, struct error *err)
{
    int r = 0;
    for (; r >= 0 && hosts && *hosts; hosts++)
        r = pack_host(req, *hosts, member, count, err);
    return r;
}

static int check_list(char *const *hosts, const char *member, struct error *err)
{
    int r = 0;
    for (; r >= 0 && hosts && *hosts; hosts++)
        r = check_host(*hosts, true, member, err);
    return r;
}

/* FNV-1a. Keys of one number would share what is one key's, which is all that it is used for. */
static uint64_t number_of(const char *owner)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (; owner && *owner; owner++)
        hash = (hash ^ (unsigned char)*owner) * 0x100000001b3;
    return hash;
}

/* Into a request that is all zeros. */
static int pack(struct gateway_request *req, const struct gateway_rules *rules, struct error *err)
{
    req->version = GATEWAY_VERSION;
    req->tag = rules->tag;
    req->owner = number_of(rules->owner);
    if (rules->label)
        strncpy(req->label, rules->label, sizeof(req->label) - 1);
    /* Without a list a tool may ask for any public host. A sandbox's proxy must never be opened
     * that way by a list that got lost. */
    if (rules->proxy && (!rules->hosts || !rules->hosts[0]))
        return error_set(err, ERROR_INTERNAL, 0, "a proxy without a list of hosts");
    if (rules->proxy)
        req->flags |= GATEWAY_PROXY | (rules->socket ? GATEWAY_SOCKET : 0);
    else if (!rules->hosts || !rules->hosts[0])
        req->flags |= GATEWAY_ANY_HOST;
    if (rules->images)
        req->flags |= GATEWAY_IMAGES;
    int r = pack_list(req, rules->hosts, rules->hosts_member, &req->n_hosts, err);
    r = r < 0 ? r : pack_list(req, rules->denied, rules->denied_member, &req->n_denied, err);
    return r < 0 ? r : pack_list(req, rules->intercepted, NULL, &req->n_intercepted, err);
}

static struct rule_list parse_list(char *const *hosts)
{
    struct rule_list l = {0};
    for (; *hosts; hosts++)
        rule_list_add_full(&l, *hosts);
    return l;
}

/* Both lists may be a caller's, and two short ones can have a long result: every name of the one
 * with every port of the other. So the work ends one rule behind what a request has room for: such
 * a list is refused where it is checked or sent, and its rest would not be looked at. */
#define INTERSECTION_MAX (GATEWAY_HOSTS_MAX + 1)

static char **intersect(const struct rule_list *a, const struct rule_list *b)
{
    size_t pairs = a->n * b->n, n = 0;
    char **out = xcalloc((pairs < INTERSECTION_MAX ? pairs : INTERSECTION_MAX) + 2, sizeof(*out));
    struct map *seen = map_new();
    for (size_t i = 0; i < pairs && n < INTERSECTION_MAX; i++) {
        struct rule both;
        if (!rule_intersect(&a->rules[i / b->n], &b->rules[i % b->n], &both))
            continue;
        char *text = rule_format(&both);
        rule_done(&both);
        if (map_put(seen, text, seen))
            free(text);
        else
            out[n++] = text;
    }
    map_free(seen);
    /* An empty list would mean every host, and the two lists have none in common. */
    if (n == 0)
        out[n++] = xstrdup(GATEWAY_HOST_NONE);
    return out;
}

char **gateway_hosts_intersect(char *const *a, char *const *b)
{
    bool any_a = !a || !*a, any_b = !b || !*b;
    if (any_a && any_b)
        return NULL;
    if (any_a || any_b)
        return strv_copy(any_a ? b : a);
    struct rule_list la = parse_list(a), lb = parse_list(b);
    char **both = intersect(&la, &lb);
    rule_list_done(&la);
    rule_list_done(&lb);
    return both;
}

/* A text that cannot be read is not covered: the caller refuses it. */
static bool is_covered(const struct rule_list *wide, const char *text)
{
    struct rule_list one = {0};
    bool covered = false;
    if (rule_list_add_full(&one, text) >= 0)
        for (size_t i = 0; i < wide->n && !covered; i++)
            covered = rule_covers(&wide->rules[i], &one.rules[0]);
    rule_list_done(&one);
    return covered;
}

bool gateway_hosts_cover(char *const *wide, char *const *narrow)
{
    bool covered = true;
    struct rule_list list = wide ? parse_list(wide) : (struct rule_list){0};
    for (; covered && narrow && *narrow; narrow++)
        covered = is_covered(&list, *narrow);
    rule_list_done(&list);
    return covered;
}

int gateway_rules_check(const struct gateway_rules *rules, struct error *err)
{
    _cleanup_free_ struct gateway_request *req = new0(struct gateway_request);
    int r = check_list(rules->hosts, rules->hosts_member, err);
    r = r < 0 ? r : check_list(rules->denied, rules->denied_member, err);
    r = r < 0 ? r : check_list(rules->intercepted, NULL, err);
    return r < 0 ? r : pack(req, rules, err);
}

/* --- sending */

struct gateway_packet {
    int text_fd; /* where the text is too long for a request; -1: it is not */
    struct gateway_request req;
};

struct gateway_packet *gateway_packet_new(const struct gateway_rules *rules, struct error *err)
{
    struct gateway_packet *p = new0(struct gateway_packet);
    p->text_fd = -1;
    int r = pack(&p->req, rules, err);
    if (r >= 0 && p->req.hosts_len > GATEWAY_INLINE_MAX) {
        p->req.flags |= GATEWAY_TEXT_FILE;
        p->text_fd = fd_sealed_memory("mas-rules", p->req.hosts, p->req.hosts_len);
        if (p->text_fd < 0)
            r = error_set(err, ERROR_UNAVAILABLE, -p->text_fd, "hand rules over");
    }
    if (r < 0) {
        gateway_packet_free(p);
        return NULL;
    }
    /* It may be kept for long: not with room for all that could be. */
    size_t size = offsetof(struct gateway_packet, req) + offsetof(struct gateway_request, hosts);
    return xrealloc(p, size + (p->text_fd < 0 ? p->req.hosts_len : 0));
}

void gateway_packet_free(struct gateway_packet *p)
{
    if (!p)
        return;
    fd_close(&p->text_fd);
    free(p);
}

int gateway_packet_send(struct gateway_packet *p, int gateway_sock, const struct gateway_rules *now,
                        int stream_fd, int report_fd, struct error *err)
{
    struct gateway_request *req = &p->req;
    size_t size = offsetof(struct gateway_request, hosts), n_fds = 0;
    int fds[FD_PASS_MAX];
    req->tag = now->tag;
    req->flags &= ~(uint32_t)GATEWAY_SOCKET;
    if (now->socket && req->flags & GATEWAY_PROXY)
        req->flags |= GATEWAY_SOCKET;
    fds[n_fds++] = stream_fd;
    if (report_fd >= 0)
        fds[n_fds++] = report_fd;
    if (req->n_intercepted && now->intercept_fd >= 0 && report_fd >= 0)
        fds[n_fds++] = now->intercept_fd;
    if (p->text_fd >= 0)
        fds[n_fds++] = p->text_fd;
    else
        size += req->hosts_len;
    ssize_t n = fd_send_msg(gateway_sock, req, size, fds, n_fds);
    if (n < 0)
        return error_set(err, ERROR_UNAVAILABLE, (int)-n, "the network gateway does not answer");
    return 0;
}

int gateway_open(int gateway_sock, const struct gateway_rules *rules, int stream_fd, int report_fd,
                 struct error *err)
{
    struct gateway_packet *p = gateway_packet_new(rules, err);
    int r = p ? gateway_packet_send(p, gateway_sock, rules, stream_fd, report_fd, err) : -EINVAL;
    gateway_packet_free(p);
    return r;
}
