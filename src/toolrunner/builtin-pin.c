/* pin PATHS ARGV...: which files a command would run that somebody in the sandbox could change,
 * with their hashes. Runs as the tool's user in the command's own directory. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "toolrunner/builtin-io.h"
#include "toolrunner/builtin.h"
#include "toolrunner/pin.h"

/* What runs the first of its arguments that is no option. */
static const char *const interpreters[] = {"ash", "awk",  "bash", "bun", "dash", "deno", "ksh",
                                           "lua", "node", "perl", "php", "ruby", "sh",   "zsh"};

static bool is_interpreter(const char *program)
{
    const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;
    for (size_t i = 0; i < ELEMENTS(interpreters); i++)
        if (strcmp(interpreters[i], name) == 0)
            return true;
    return strncmp(name, "python", 6) == 0;
}

/* As execvp() would find it. */
static bool find_program(const char *paths, const char *name, char out[PATH_MAX])
{
    if (strchr(name, '/'))
        return snprintf(out, PATH_MAX, "%s", name) < PATH_MAX && access(out, X_OK) == 0;
    for (const char *dir = paths;;) {
        size_t n = strcspn(dir, ":");
        int len = snprintf(out, PATH_MAX, "%.*s/%s", n ? (int)n : 1, n ? dir : ".", name);
        struct stat st;
        if (len < PATH_MAX && access(out, X_OK) == 0 && stat(out, &st) == 0 && S_ISREG(st.st_mode))
            return true;
        if (!dir[n])
            return false;
        dir += n + 1;
    }
}

static int hash_file(int fd, uint64_t *ret_bytes, char hex[SHA256_HEX_SIZE])
{
    static char chunk[65536];
    uint8_t digest[SHA256_SIZE];
    struct sha256 s;
    ssize_t n;
    sha256_init(&s);
    *ret_bytes = 0;
    while ((n = read(fd, chunk, sizeof(chunk))) > 0) {
        sha256_update(&s, chunk, (size_t)n);
        *ret_bytes += (uint64_t)n;
        if (*ret_bytes > PIN_BYTES_MAX)
            return -EFBIG;
    }
    sha256_final(&s, digest);
    sha256_hex(digest, hex);
    return n < 0 ? -errno : 0;
}

/* Nothing for what is no file, or what nobody in here can change. */
static void add(json_t *list, size_t arg, const char *path, bool runs)
{
    struct stat st;
    struct statvfs fs;
    char hex[SHA256_HEX_SIZE], real[PATH_MAX];
    uint64_t bytes;
    bool lossy;
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || fstatvfs(fd, &fs) < 0 ||
        (fs.f_flag & ST_RDONLY))
        return;
    const char *shown = realpath(path, real) ? real : path;
    int r = hash_file(fd, &bytes, hex);
    json_t *pin = json_pack("{s:i, s:o}", "arg", (int)arg, "path",
                            json_string_from_bytes(shown, strlen(shown), &lossy));
    if (r == 0) {
        json_object_set_new(pin, "sha256", json_string(hex));
        json_object_set_new(pin, "bytes", json_integer((json_int_t)bytes));
    }
    if (r < 0)
        json_object_set_new(pin, "not_pinned",
                            json_string(r == -EFBIG ? "too large" : "unreadable"));
    else if (!runs)
        json_object_set_new(pin, "not_pinned",
                            json_string("compared before the start, read by the command itself"));
    json_array_append_new(list, pin);
}

int builtin_pin(int argc, char **argv)
{
    char program[PATH_MAX];
    if (argc < 3)
        return builtin_failure_code("invalid_request", "usage: pin PATHS ARGV...");
    json_t *list = json_array();
    _cleanup_json_ json_t *o = json_pack("{s:o}", "pins", list);
    char **command = argv + 2;
    bool script = is_interpreter(command[0]);
    if (find_program(argv[1], command[0], program)) {
        bool lossy;
        json_object_set_new(o, "program", json_string_from_bytes(program, strlen(program), &lossy));
        add(list, 0, program, true);
    }
    for (size_t i = 1; command[i]; i++) {
        if (command[i][0] == '-') {
            script = script && strcmp(command[i], "-c") != 0 && strcmp(command[i], "-e") != 0 &&
                     strcmp(command[i], "-m") != 0;
            continue;
        }
        add(list, i, command[i], script);
        script = false;
    }
    return builtin_print(o);
}
