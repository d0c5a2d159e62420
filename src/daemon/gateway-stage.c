#include "daemon/gateway-stage.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/error.h"
#include "base/log.h"
#include "daemon/drop.h"
#include "gateway/gateway.h"

static char as_root[] = "root", as_caller[] = "caller";

size_t gateway_stage_argv(char **argv, bool privileged, char *const *allow_private)
{
    static char name[] = "mas-sandboxd", flag[] = GATEWAY_FLAG;
    size_t n = 0;
    argv[n++] = name;
    argv[n++] = flag;
    argv[n++] = privileged ? as_root : as_caller;
    for (; allow_private && *allow_private; allow_private++)
        argv[n++] = *allow_private;
    return n;
}

int gateway_stage(int argc, char **argv)
{
    struct error err = {0};
    struct gateway_options options = {.uid = DROP_GATEWAY_UID, .gid = DROP_GATEWAY_UID};
    sigset_t none;
    sigemptyset(&none);
    prctl(PR_SET_NAME, "mas-gateway", 0, 0, 0);
    log_setup("mas-sandboxd", LOG_INFO, false);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (argc < GATEWAY_ARGS_FIXED)
        return 1;
    options.allow_private = argv + GATEWAY_ARGS_FIXED;
    /* Root goes with the uid; a caller's namespace would leave it capabilities. */
    if (strcmp(argv[2], as_caller) == 0 && drop_identity(false, 0, 0, &err) < 0) {
        log_error("gateway cannot give up its privileges: %s", err.message);
        return 1;
    }
    return gateway_main(GATEWAY_SOCK, &options);
}
