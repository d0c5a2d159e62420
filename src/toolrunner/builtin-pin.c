/* SPDX-License-Identifier: Apache-2.0 */
/* pin PATHS ARGV...: which files a command would run that a process in the sandbox could change,
 * with their hashes. Runs as the tool's user in the command's own directory.
 *
 * pin-named PATHS COUNT (START NAME)... ARGV...: the same, and which of COUNT files are there that
 * the command finds by itself (shell/convention.h), as "named" with their place in the list.
 *
 * The program, and the script that an interpreter is to run, are run from sealed copies (pin.h).
 * Whatever else of the command runs code that is found only then (a `#!` interpreter, a module, a
 * directory, options of an interpreter, its libraries) is listed as not pinned, files among it with
 * their hashes, so that a change between the question and the start is seen. */
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

#define SHEBANG_MAX   256 /* bytes of a first line that the kernel reads */
#define SHEBANG_DEPTH 5
#define NAMED_BYTES   (64 * 1024 * 1024) /* that are hashed of files found by their names */
#define NAMED_ENTRIES 256                /* of files found by their names */
#define NAMED_LEVELS  32                 /* directories above that are looked at */

/* What runs the first of its arguments that is no option. Options made of other letters than
 * `quiet` name code, or make it read some. Those with libraries load files before the script. */
static const struct interpreter {
    const char *name; /* or how it begins, for versions */
    const char *quiet;
    bool libraries;
} interpreters[] = {
    {"ash", "euxfnvaCbhmp", false},
    {"awk", "", false},
    {"bash", "euxfnvaCbhmp", false},
    {"bun", "", true},
    {"dash", "euxfnvaCbhmp", false},
    {"deno", "", true},
    {"ksh", "euxfnvaCbhmp", false},
    {"lua", "vWE", true},
    {"node", "", true},
    {"perl", "wWtTcnlap", true},
    {"php", "nq", true},
    {"python", "uBEsSIOvqbdPV", true},
    {"ruby", "wWvcnlap", true},
    {"sh", "euxfnvaCbhmp", false},
    {"zsh", "euxnva", true},
};

/* "python3.11" is python, "shred" is not sh. */
static const struct interpreter *find_interpreter(const char *program)
{
    const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;
    for (size_t i = 0; i < ELEMENTS(interpreters); i++) {
        size_t n = strlen(interpreters[i].name);
        if (strncmp(interpreters[i].name, name, n) == 0 &&
            name[n + strspn(name + n, "0123456789.-")] == 0)
            return &interpreters[i];
    }
    return NULL;
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

static int hash_file(int fd, uint64_t max, uint64_t *ret_bytes, char hex[SHA256_HEX_SIZE])
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
        if (*ret_bytes > max)
            return -EFBIG;
    }
    sha256_final(&s, digest);
    sha256_hex(digest, hex);
    return n < 0 ? -errno : 0;
}

/* Of a file or directory; false as well where it is not there. */
static bool can_change(int fd, struct stat *ret)
{
    struct statvfs fs;
    return fd >= 0 && fstat(fd, ret) == 0 && fstatvfs(fd, &fs) == 0 && !(fs.f_flag & ST_RDONLY);
}

static json_t *add_entry(json_t *list, size_t arg, const char *path, const char *not_pinned)
{
    bool lossy;
    json_t *pin = json_pack("{s:i, s:o}", "arg", (int)arg, "path",
                            json_string_from_bytes(path, strlen(path), &lossy));
    if (not_pinned)
        json_object_set_new(pin, "not_pinned", json_string(not_pinned));
    json_array_append_new(list, pin);
    return pin;
}

/* The hash of what fd has, or why there is none. Returns how many bytes were read. */
static uint64_t set_hash(json_t *pin, int fd, uint64_t max)
{
    char hex[SHA256_HEX_SIZE];
    uint64_t bytes;
    int r = hash_file(fd, max, &bytes, hex);
    if (r < 0) {
        json_object_set_new(pin, "not_pinned",
                            json_string(r == -EFBIG ? "too large" : "unreadable"));
        return bytes;
    }
    json_object_set_new(pin, "sha256", json_string(hex));
    json_object_set_new(pin, "bytes", json_integer((json_int_t)bytes));
    return bytes;
}

/* A file with its hash. Nothing for what is no file, or what no process in the sandbox can change.
 * why: it is not run from a sealed copy. */
static void add_file(json_t *list, size_t arg, const char *path, const char *why)
{
    struct stat st;
    char real[PATH_MAX];
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (!can_change(fd, &st) || !S_ISREG(st.st_mode))
        return;
    set_hash(add_entry(list, arg, realpath(path, real) ? real : path, why), fd, PIN_BYTES_MAX);
}

/* --- #! */

/* The words after "#!": the interpreter and at most one argument, as the kernel splits them. */
static bool read_shebang(const char *path, char line[SHEBANG_MAX], char **ret_word, char **ret_arg)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t n = fd < 0 ? -1 : read(fd, line, SHEBANG_MAX - 1);
    if (n < 3 || line[0] != '#' || line[1] != '!')
        return false;
    line[n] = 0;
    line[strcspn(line, "\n")] = 0;
    char *word = line + 2 + strspn(line + 2, " \t");
    char *end = word + strcspn(word, " \t");
    *ret_arg = end + strspn(end, " \t");
    if (*end)
        *end = 0;
    *ret_word = word;
    return *word;
}

/* env looks its argument up in PATH: that is the interpreter. */
static bool is_env(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strcmp(slash ? slash + 1 : path, "env") == 0;
}

/* The last of the chain is what reads the script; "" when it is not known. */
static void follow_shebang(json_t *list, const char *paths, const char *program,
                           char last[PATH_MAX])
{
    char line[SHEBANG_MAX], found[PATH_MAX], *word, *arg;
    snprintf(last, PATH_MAX, "%s", program);
    for (int depth = 0; depth < SHEBANG_DEPTH && read_shebang(last, line, &word, &arg); depth++) {
        add_file(list, 0, word, "the interpreter of a script: compared, run from its own place");
        if (is_env(word) && *arg) {
            char *name = strncmp(arg, "-S", 2) == 0 ? arg + 2 + strspn(arg + 2, " \t") : arg;
            name[strcspn(name, " \t")] = 0;
            if (!find_program(paths, name, found)) {
                add_entry(list, 0, name, "the interpreter of a script: looked up when it runs");
                *last = 0;
                return;
            }
            word = found;
            add_file(list, 0, word,
                     "the interpreter of a script: compared, run from its own place");
        } else if (*arg && arg[0] == '-' && find_interpreter(word)) {
            add_entry(list, 0, arg,
                      "an option of the interpreter: what it makes run is not pinned");
        }
        memmove(last, word, strlen(word) + 1);
    }
}

/* --- what an interpreter runs */

static bool is_quiet(const struct interpreter *in, const char *option)
{
    return strcmp(option, "--") == 0 ||
           (option[1] && option[1 + strspn(option + 1, in->quiet)] == 0);
}

static void add_script(json_t *list, size_t arg, const char *path)
{
    struct stat st;
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (can_change(fd, &st) && S_ISDIR(st.st_mode))
        add_entry(list, arg, path, "a directory: the code in it is looked up when it runs");
    else
        add_file(list, arg, path, NULL);
}

/* An option that names code, or takes the next word, leaves no word that is surely the script. */
static void add_arguments(json_t *list, char **command, const struct interpreter *in)
{
    bool script = in;
    for (size_t i = 1; command[i]; i++) {
        if (script && command[i][0] == '-' && is_quiet(in, command[i]))
            continue;
        if (script && command[i][0] == '-') {
            add_entry(list, i, command[i],
                      "an option of the interpreter: what it makes run is not pinned");
            script = command[i][1] == '-';
        } else if (script) {
            add_script(list, i, command[i]);
            script = false;
        } else {
            add_file(list, i, command[i], "compared before the start, read by the command itself");
        }
    }
}

/* --- files that are found by their names */

struct named {
    json_t *list;
    uint64_t left; /* bytes that may still be hashed */
    bool more;     /* not all places were looked at */
};

static bool is_named(const struct named *n, const char *path)
{
    size_t i;
    json_t *entry;
    json_array_foreach(n->list, i, entry)
    {
        if (strcmp(json_string_value(json_object_get(entry, "path")), path) == 0)
            return true;
    }
    return false;
}

/* A link in a place that can be changed may lead to another file next time, wherever it leads. */
static void add_named(struct named *n, size_t at, int dir, const char *path)
{
    struct stat st, ignored;
    char real[PATH_MAX];
    bool lossy;
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || (!can_change(fd, &st) && !can_change(dir, &ignored)) || fstat(fd, &st) < 0 ||
        S_ISDIR(st.st_mode))
        return;
    const char *shown = realpath(path, real) ? real : path;
    if (is_named(n, shown))
        return;
    json_t *entry = json_pack("{s:i, s:o}", "at", (int)at, "path",
                              json_string_from_bytes(shown, strlen(shown), &lossy));
    json_array_append_new(n->list, entry);
    if (!S_ISREG(st.st_mode))
        json_object_set_new(entry, "not_pinned", json_string("not a regular file"));
    if (!S_ISREG(st.st_mode))
        return;
    uint64_t bytes = set_hash(entry, fd, n->left < PIN_BYTES_MAX ? n->left : PIN_BYTES_MAX);
    n->left -= bytes < n->left ? bytes : n->left;
}

/* Cuts the last component off; false at the root. */
static bool go_up(char *dir)
{
    char *slash = strrchr(dir, '/');
    if (!dir[1])
        return false;
    slash[slash == dir] = 0;
    return true;
}

/* form: '^' and the name of a file that is looked for above as well, ':' and one that is looked for
 * only where start is a directory, '-' and any other. */
static void look_up(struct named *n, size_t at, const char *start, const char *form)
{
    char dir[PATH_MAX], path[PATH_MAX];
    struct stat st;
    unsigned levels = 0;
    if (!realpath(*start ? start : ".", dir) || stat(dir, &st) < 0)
        return;
    if (!S_ISDIR(st.st_mode) && (form[0] == ':' || !go_up(dir)))
        return;
    do {
        if (levels++ == NAMED_LEVELS || json_array_size(n->list) == NAMED_ENTRIES) {
            n->more = true;
            return;
        }
        _cleanup_close_ int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
        bool below = form[1] != '/';
        int len =
            snprintf(path, sizeof(path), "%s%s%s", below ? dir : "", below ? "/" : "", form + 1);
        if (len > 0 && (size_t)len < sizeof(path))
            add_named(n, at, fd, path);
    } while (form[0] == '^' && go_up(dir));
}

/* --- the builtins */

static int pin_command(const char *paths, char **command, json_t *o)
{
    char program[PATH_MAX], reader[PATH_MAX] = "";
    json_t *list = json_array();
    json_object_set_new(o, "pins", list);
    if (find_program(paths, command[0], program)) {
        bool lossy;
        json_object_set_new(o, "program", json_string_from_bytes(program, strlen(program), &lossy));
        add_file(list, 0, program, NULL);
        follow_shebang(list, paths, program, reader);
    }
    const char *reads = *reader ? reader : command[0];
    const struct interpreter *in = find_interpreter(reads);
    if (in && in->libraries)
        add_entry(list, 0, reads, "an interpreter: libraries and files that it reads at its start");
    add_arguments(list, command, find_interpreter(command[0]));
    return builtin_print(o);
}

int builtin_pin(int argc, char **argv)
{
    if (argc < 3)
        return builtin_failure_code("invalid_request", "usage: pin PATHS ARGV...");
    _cleanup_json_ json_t *o = json_object();
    return pin_command(argv[1], argv + 2, o);
}

int builtin_pin_named(int argc, char **argv)
{
    size_t words = argc > 3 ? (size_t)argc - 3 : 0;
    unsigned long count = words ? strtoul(argv[2], NULL, 10) : 0;
    if (!words || count > (words - 1) / 2)
        return builtin_failure_code("invalid_request",
                                    "usage: pin-named PATHS COUNT (START NAME)... ARGV...");
    _cleanup_json_ json_t *o = json_object();
    struct named n = {.list = json_array(), .left = NAMED_BYTES};
    json_object_set_new(o, "named", n.list);
    for (size_t i = 0; i < count; i++) {
        const char *form = argv[4 + 2 * i];
        if (*form)
            look_up(&n, i, argv[3 + 2 * i], form);
    }
    if (n.more)
        json_object_set_new(o, "more", json_true());
    return pin_command(argv[1], argv + 3 + 2 * count, o);
}
