/* SPDX-License-Identifier: Apache-2.0 */
/* mas-link-tls: options, then the listener (pod/tls.h). */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/digits.h"
#include "base/log.h"
#include "net/pin.h"
#include "pod/link.h"
#include "pod/tls.h"

#define EXIT_USAGE 2

static const char help[] =
    "mas-link-tls --port PORT --peer FINGERPRINT [--door SOCKET]\n"
    "Connections to a pod's link over the network: TLS 1.3 with a key that is made at start. Its\n"
    "fingerprint is the first line of the output. mas-link --direct starts it.\n"
    "  --port PORT          where to listen, on every address\n"
    "  --peer FINGERPRINT   sha256: and 64 digits, of the public key that may connect\n"
    "  --door SOCKET        where the link is (" LINK_DOOR ")\n"
    "  --link               started by mas-link, with whose end it ends\n"
    "  --help, --version\n";

static bool port_parse(const char *text, uint16_t *ret)
{
    uint64_t n = 0;
    if (decimal_parse(text, &n) < 0 || n < 1 || n > 65535)
        return false;
    *ret = (uint16_t)n;
    return true;
}

/* A library's configuration file is not read: the link's image has none, and another container's
 * must not count. */
static void tls_protect(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"port", required_argument, NULL, 'p'},
                                            {"peer", required_argument, NULL, 'k'},
                                            {"door", required_argument, NULL, 'd'},
                                            {"link", no_argument, NULL, 'l'},
                                            {"help", no_argument, NULL, 'h'},
                                            {"version", no_argument, NULL, 'v'},
                                            {0}};
    static uint8_t peer[PIN_SIZE];
    struct tls_options o = {.door_path = LINK_DOOR, .lifeline = -1};
    const char *what = "";
    bool good = true;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'p')
            good &= port_parse(optarg, &o.port);
        else if (c == 'k' && pin_parse(optarg, peer))
            o.peer = peer;
        else if (c == 'd')
            o.door_path = optarg;
        else if (c == 'l')
            o.lifeline = LINK_LIFELINE;
        else if (c == 'v')
            return puts("mas-link-tls " MAS_VERSION) < 0;
        else {
            fputs(help, c == 'h' ? stdout : stderr);
            return c == 'h' ? EXIT_SUCCESS : EXIT_USAGE;
        }
    }
    if (optind < argc || !good || !o.port || !o.peer) {
        fputs(help, stderr);
        return EXIT_USAGE;
    }
    log_setup("mas-link-tls", LOG_INFO, false);
    tls_protect();
    int r = tls_serve(&o, &what);
    if (r == 0)
        return EXIT_SUCCESS;
    log_error("cannot go on step=\"%s\" error=\"%s\"", what, strerror(-r));
    return EXIT_FAILURE;
}
