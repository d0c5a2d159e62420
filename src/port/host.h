/* SPDX-License-Identifier: Apache-2.0 */
/* Names under which the ports of sandboxes have hosts of their own: {port}-{id}.<ports_domain>. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define PORT_HOST_ID_SIZE 72

/* What a Host header means, in any case, with or without a port and trailing dots. 0: it is not
 * below the domain (NULL: there is none). 1: it names a port of a sandbox. -EINVAL: it is below the
 * domain and names nothing, which is no reason to take it for a name of the API's. */
int port_host_parse(const char *host, const char *domain, uint16_t *ret_port,
                    char ret_id[PORT_HOST_ID_SIZE]);
/* Whether a name may be a ports_domain: two labels at least, or "localhost"; no address. */
int port_domain_check(const char *domain);
