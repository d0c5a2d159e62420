/* SPDX-License-Identifier: Apache-2.0 */
/* mas-link: options, then the link or one connection through it (pod/link.h), or an end of the
 * proof that policies are enforced (pod/reach.h). */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/log.h"
#include "pod/link.h"
#include "pod/reach.h"

#define EXIT_USAGE 2

static const char help[] =
    "mas-link --listen SOCKET [--door SOCKET] [--direct PORT --peer FINGERPRINT] [--events DIR]\n"
    "mas-link --attach [--door SOCKET]\n"
    "mas-link --witness\n"
    "mas-link --until-open ADDRESS | --until-closed ADDRESS\n"
    "The way into a sandbox that is a pod: takes the runner's channel once, and hands every\n"
    "connection of the control plane over to it. Runs in a container of its own.\n"
    "  --listen SOCKET   where the runner connects, once; in a directory that both containers have\n"
    "  --direct PORT     take connections from the network, too, by mas-link-tls beside this program\n"
    "  --peer FINGERPRINT   sha256: and 64 digits, of the public key that may connect there\n"
    "  --events DIR      where the runner files output for the pod's stream container\n"
    "  --attach          connect standard input and output to the runner\n"
    "  --door SOCKET     where --attach finds the link (" LINK_DOOR ");\n"
    "                    in a directory that only the link's container has\n"
    "  --witness         answer connections, as the pod that no walled pod may reach\n"
    "  --until-open ADDRESS     wait until the witness there answers\n"
    "  --until-closed ADDRESS   wait until it cannot be reached\n"
    "  --help, --version\n";

/* As the first process of a container it has no default actions: without this, ending the pod
 * would wait for the kill. */
static void on_end_signal(int sig)
{
    (void)sig;
    _exit(EXIT_SUCCESS);
}

static void link_protect(void)
{
    struct sigaction end = {.sa_handler = on_end_signal}, ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGTERM, &end, NULL);
    sigaction(SIGINT, &end, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"listen", required_argument, NULL, 'l'},
                                            {"attach", no_argument, NULL, 'a'},
                                            {"door", required_argument, NULL, 'd'},
                                            {"direct", required_argument, NULL, 'p'},
                                            {"peer", required_argument, NULL, 'k'},
                                            {"events", required_argument, NULL, 'e'},
                                            {"witness", no_argument, NULL, 'w'},
                                            {"until-open", required_argument, NULL, 'o'},
                                            {"until-closed", required_argument, NULL, 'c'},
                                            {"help", no_argument, NULL, 'h'},
                                            {"version", no_argument, NULL, 'v'},
                                            {0}};
    struct link_options o = {.door_path = LINK_DOOR};
    const char *what = "", *open = NULL, *closed = NULL;
    bool attach = false, witness = false;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'l')
            o.channel_path = optarg;
        else if (c == 'a')
            attach = true;
        else if (c == 'd')
            o.door_path = optarg;
        else if (c == 'p')
            o.port = optarg;
        else if (c == 'k')
            o.peer = optarg;
        else if (c == 'e')
            o.events_path = optarg;
        else if (c == 'w')
            witness = true;
        else if (c == 'o')
            open = optarg;
        else if (c == 'c')
            closed = optarg;
        else if (c == 'v')
            return puts("mas-link " MAS_VERSION) < 0;
        else {
            fputs(help, c == 'h' ? stdout : stderr);
            return c == 'h' ? EXIT_SUCCESS : EXIT_USAGE;
        }
    }
    int ways = attach + witness + (o.channel_path != NULL) + (open != NULL) + (closed != NULL);
    if (optind < argc || ways != 1 || !o.port != !o.peer ||
        ((o.port || o.events_path) && !o.channel_path)) {
        fputs(help, stderr);
        return EXIT_USAGE;
    }
    log_setup("mas-link", LOG_INFO, false);
    link_protect();
    if (open || closed)
        return open ? reach_until_open(open) : reach_until_closed(closed);
    int r = witness  ? reach_serve(&what)
            : attach ? link_attach(o.door_path, &what)
                     : link_serve(&o, &what);
    if (r == 0)
        return EXIT_SUCCESS;
    log_error("cannot go on step=\"%s\" error=\"%s\"", what, strerror(-r));
    return EXIT_FAILURE;
}
