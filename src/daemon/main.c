/* SPDX-License-Identifier: Apache-2.0 */
/* mas-sandboxd: options and configuration, then daemon_run(), which becomes mas-warden; or, in the
 * processes that mas-warden starts of it, the stage that a flag names. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "config/config.h"
#include "daemon/control.h"
#include "daemon/daemon.h"
#include "daemon/gateway-stage.h"
#include "daemon/handover.h"
#include "daemon/keeper-stage.h"

#define EXIT_USAGE 2
#define OUTPUT_MAX (256 * 1024)

/* Leak checking traces the process, which the drop forbids; everything else of the sanitizers
 * works. A weak default: the operator's ASAN_OPTIONS are read after it. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

static void print_lines(const char *what, const struct strbuf *lines)
{
    for (const char *line = lines->data; line && *line;) {
        size_t len = strcspn(line, "\n");
        fprintf(stderr, "mas-sandboxd: %s%.*s\n", what, (int)len, line);
        line += len + (line[len] == '\n');
    }
}

static int print_text(int (*format)(struct strbuf *out))
{
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(OUTPUT_MAX);
    if (format(&out) < 0)
        return EXIT_FAILURE;
    fputs(out.data, stdout);
    return EXIT_SUCCESS;
}

static int print_config(const struct config *c)
{
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(OUTPUT_MAX);
    if (config_print(c, &out) < 0)
        return EXIT_FAILURE;
    fputs(out.data, stdout);
    return EXIT_SUCCESS;
}

static int run_daemon(struct config *c, const struct config_args *args, struct config_problems *p)
{
    print_lines("", &p->errors);
    if (args->mode != MODE_RUN || p->n_errors)
        print_lines("warning: ", &p->warnings);
    if (p->n_errors)
        return EXIT_USAGE;
    if (args->mode == MODE_PRINT)
        return print_config(c);
    if (args->mode == MODE_CHECK) {
        puts("ok");
        return EXIT_SUCCESS;
    }
    enum log_level level = LOG_INFO;
    log_level_parse(c->log_level, &level);
    log_setup("mas-sandboxd", level, strcmp(c->log_format, "json") == 0);
    if (args->mode == MODE_CLEAN)
        return daemon_clean(c);
    for (char *rest = p->warnings.data, *line; rest && (line = strsep(&rest, "\n"));)
        if (*line)
            log_warn("%s", line);
    return daemon_run(c);
}

/* The policy is read again on SIGHUP. One that comes before anything reads it waits, where it would
 * end the daemon otherwise. */
static void block_hangup(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

/* A number below 3 that was closed would be a listening socket's or a program's, which the warden's
 * children take for a standard stream. */
static int fill_standard_streams(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR); /* NOLINT(android-cloexec-open): children keep it */
    while (fd >= 0 && fd <= STDERR_FILENO);
    return fd < 0 ? fd : close(fd);
}

int main(int argc, char **argv)
{
    block_hangup();
    if (argc == 2 && strcmp(argv[1], HANDOVER_CONTROL_FLAG) == 0)
        return control_stage();
    if (argc == 2 && strcmp(argv[1], HANDOVER_GATEWAY_FLAG) == 0)
        return gateway_stage();
    if (argc == 2 && strcmp(argv[1], HANDOVER_KEEPER_FLAG) == 0)
        return keeper_stage();
    if (argc == 2 && strcmp(argv[1], HANDOVER_PROBE_FLAG) == 0)
        return handover_probe();

    if (fill_standard_streams() < 0)
        return EXIT_FAILURE;
    _cleanup_config_ struct config c;
    __attribute__((cleanup(config_problems_done))) struct config_problems p;
    struct config_args args;
    config_init(&c);
    config_problems_init(&p);
    config_args_scan(argc, argv, &args, &p);
    if (args.mode == MODE_HELP)
        return print_text(config_print_help);
    if (args.mode == MODE_VERSION) {
        puts("mas-sandboxd " MAS_VERSION);
        return EXIT_SUCCESS;
    }
    /* The file first, though a flag may name it; then variables, then flags. */
    const char *path = args.config_path ? args.config_path : getenv("SANDBOX_CONFIG");
    if (path && *path)
        config_load_file(&c, path, &p);
    config_load_env(&c, environ, &p);
    config_load_args(&c, argc, argv, &p);
    config_load_secrets(&c, &p);
    config_check(&c, &p);
    daemon_check(&c, &p);
    config_args_hide(argc, argv);
    return run_daemon(&c, &args, &p);
}
