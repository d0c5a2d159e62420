/* SPDX-License-Identifier: Apache-2.0 */
#include "port/host.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/target.h"

/* The length of the part in front of ".domain"; 0: the name is not below it. */
static size_t find_label(const char *host, const char *domain)
{
    size_t n = strcspn(host, ":"), d = strlen(domain);
    while (n && host[n - 1] == '.')
        n--;
    if (n <= d + 1 || host[n - d - 1] != '.' || strncasecmp(host + n - d, domain, d) != 0)
        return 0;
    return n - d - 1;
}

int port_host_parse(const char *host, const char *domain, uint16_t *ret_port,
                    char ret_id[PORT_HOST_ID_SIZE])
{
    size_t len = host && domain ? find_label(host, domain) : 0;
    if (!len)
        return 0;
    size_t digits = strspn(host, "0123456789");
    if (digits >= len || host[digits] != '-' || target_parse_port(host, digits, ret_port) < 0)
        return -EINVAL;
    const char *id = host + digits + 1;
    size_t n = len - digits - 1;
    if (!n || n >= PORT_HOST_ID_SIZE)
        return -EINVAL;
    for (size_t i = 0; i < n; i++) {
        char c = id[i] >= 'A' && id[i] <= 'Z' ? (char)(id[i] | 0x20) : id[i];
        if (c != '-' && (c < 'a' || c > 'z') && (c < '0' || c > '9'))
            return -EINVAL;
        ret_id[i] = c;
    }
    ret_id[n] = 0;
    return 1;
}

int port_domain_check(const char *domain)
{
    struct target t;
    if (target_parse_host(domain, strlen(domain), &t) < 0 || t.is_address ||
        strcmp(t.host, domain) != 0)
        return -EINVAL;
    return strchr(domain, '.') || !strcmp(domain, "localhost") ? 0 : -EINVAL;
}
