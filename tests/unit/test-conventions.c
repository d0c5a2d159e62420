/* SPDX-License-Identifier: Apache-2.0 */
/* Files that programs read by their names, and variables that load code: the tables whole, and what
 * is found of commands. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "shell/convention.h"
#include "shell/options.h"
#include "shell/shell.h"
#include "shell/table-env.h"
#include "tests/unit/tap.h"

static void each_word(const char *list, void (*with)(const char *word))
{
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, " ");
        _cleanup_free_ char *word = xstrndup(p, n);
        with(word);
        p += n + (p[n] == ' ');
    }
}

/* --- the table of programs */

static void check_one_row(const char *name)
{
    size_t rows = 0;
    for (size_t i = 0; i < shell_convention_count; i++)
        rows += shell_in_list(shell_convention_rows[i].names, name, strlen(name));
    ok(rows == 1, "%s has one row", name);
    ok(!shell_in_list(shell_convention_quiet, name, strlen(name)), "%s is not quiet as well", name);
}

static void check_form(const char *form)
{
    const char *name = form + (strchr("^~:/", form[0]) != NULL);
    ok(*name && *name != '/' && !strstr(name, ".."), "%s is a file below its place", form);
}

static void check_place(const char *place)
{
    size_t n = strlen(place);
    ok(strcmp(place, "*") == 0 || (n > 2 && place[0] == '-' && strchr("/<", place[n - 1])),
       "%s is an option with a directory or a file, or all operands", place);
}

static void test_rows(void)
{
    for (size_t i = 0; i < shell_convention_count; i++) {
        const struct shell_convention *row = &shell_convention_rows[i];
        each_word(row->names, check_one_row);
        each_word(row->files, check_form);
        each_word(row->places, check_place);
        const char *all = strchr(row->places, '*');
        ok(!all || !all[1], "%s: operands come last", row->names);
    }
}

/* --- commands */

static struct shell shell;
static struct shell_conventions found;

static void find(const char *line)
{
    _cleanup_free_ char *copy = xstrdup(line);
    char *argv[32] = {NULL}, *rest = NULL;
    size_t n = 0;
    shell_conventions_done(&found);
    if (strncmp(line, "sh -c ", 6) == 0) {
        argv[0] = (char *)"sh", argv[1] = (char *)"-c", argv[2] = copy + 6;
    } else {
        for (char *w = strtok_r(copy, " ", &rest); w && n < 31; w = strtok_r(NULL, " ", &rest))
            argv[n++] = w;
    }
    shell_parse_argv(argv, &shell);
    shell_conventions_find(&shell, &found);
    shell_done(&shell);
}

static const struct shell_look *look_for(const char *start, const char *name)
{
    for (size_t i = 0; i < found.n_looks; i++)
        if (strcmp(found.looks[i].start, start) == 0 && strcmp(found.looks[i].name, name) == 0)
            return &found.looks[i];
    return NULL;
}

static const struct shell_loads *loads_of(const char *program)
{
    for (size_t i = 0; i < found.n_loads; i++)
        if (strcmp(found.loads[i].program, program) == 0)
            return &found.loads[i];
    return NULL;
}

/* What the shell reader knows of a program is no word about which files it finds by itself: of each
 * one in its tables something is said, unless it is known to load nothing. */
static void check_is_covered(const char *name)
{
    _cleanup_free_ char *program =
        xstrndup(name, strcmp(name, "py.test") == 0 ? 7 : strcspn(name, "."));
    char *argv[] = {program, NULL};
    if (!*program || strncmp(name, "ld.", 3) == 0)
        return; /* "." itself, and the dynamic loader */
    shell_conventions_done(&found);
    shell_parse_argv(argv, &shell);
    shell_conventions_find(&shell, &found);
    bool row = shell_convention_find(program), quiet = shell_convention_is_quiet(program);
    ok(!(row && shell_in_list(shell_convention_quiet, program, strlen(program))),
       "%s has a row or loads nothing, not both", program);
    ok(row || quiet || shell.commands[0].opaque || found.n_loads > 0,
       "%s has a row, loads nothing, or is listed as not known", program);
    shell_done(&shell);
}

static void test_every_known_program(void)
{
    for (const struct shell_table *const *t = shell_tables; *t; t++)
        for (size_t i = 0; i < (*t)->n; i++)
            each_word((*t)->rows[i].names, check_is_covered);
    for (size_t i = 0; i < shell_convention_count; i++)
        each_word(shell_convention_rows[i].names, check_is_covered);
}

static const struct {
    const char *line, *start, *name;
    const char *program, *directory; /* NULL: it says nothing; "?" not known */
} cases[] = {
    {"make", "", "GNUmakefile", "make", ""},
    {"make all", "", "makefile", "make", ""},
    {"/usr/bin/make", "", "Makefile", "make", ""},
    {"make -C sub", "sub", "Makefile", "make", "sub"},
    {"make -Csub", "sub", "Makefile", "make", "sub"},
    {"make -kC sub", "sub", "Makefile", "make", "sub"},
    {"make --directory=sub", "sub", "Makefile", "make", "sub"},
    {"make --dir sub", "sub", "Makefile", "make", "sub"},
    {"make -fx.mk", "", "x.mk", "make", ""},
    {"make --makefile=d/x.mk", "", "d/x.mk", "make", "d"},
    {"ninja -C build", "build", "build.ninja", "ninja", "build"},
    {"cmake .", ".", "CMakeLists.txt", "cmake", ""},
    {"cmake --build out", "out", "CMakeCache.txt", "cmake", "out"},
    {"cmake -S src -B out", "src", "CMakeLists.txt", "cmake", "out"},
    {"meson compile -C b", "b", "build.ninja", "meson", "b"},
    {"pytest tests/test_a.py::test_b", "tests/test_a.py", "conftest.py", "pytest", ""},
    {"pytest", "", "pyproject.toml", "pytest", ""},
    {"python3 -m pytest", "", "conftest.py", "pytest", ""},
    {"python3 -m pytest x", "", "pytest.py", "python -m pytest", ""},
    {"python3.11 -Im a.b", "", "a/b.py", "python -m a.b", ""},
    {"python3 -W error -mp", "", "p/__main__.py", "python -m p", ""},
    {"python3 dir", "dir", "__main__.py", NULL, NULL},
    {"node dir", "dir", "index.js", NULL, NULL},
    {"node dir", "dir", "package.json", NULL, NULL},
    {"git log", "", ".git/config", "git", ""},
    {"git commit -m x", "", ".git/hooks/pre-commit", "git", ""},
    {"git -C repo status", "repo", ".git/config", "git", "repo"},
    {"npm test", "", "package.json", "npm", ""},
    {"npm run x", "", "package.json", "npm", ""},
    {"npm ci --prefix web", "web", "package.json", "npm", "web"},
    {"npm --prefix=web test", "web", "package.json", "npm", "web"},
    {"cargo build", "", "build.rs", "cargo", ""},
    {"cargo build --manifest-path a/Cargo.toml", "a", "build.rs", "cargo", "a"},
    {"go test ./...", "", "go.mod", "go", ""},
    {"go -C sub generate", "sub", "go.mod", "go", "sub"},
    {"mvn test", "", "pom.xml", "mvn", ""},
    {"./gradlew build", "", "settings.gradle", "gradlew", ""},
    {"tox", "", "tox.ini", "tox", ""},
    {"just x", "", "justfile", "just", ""},
    {"rake", "", "Rakefile", "rake", ""},
    {"docker build ctx", "ctx", "Dockerfile", "docker", ""},
    {"pip install .", ".", "setup.py", "pip", ""},
    {"pip3 install -r reqs.txt", "", "reqs.txt", "pip3", ""},
    {"ansible-playbook site.yml", "", "ansible.cfg", "ansible-playbook", ""},
    {"terraform -chdir=infra apply", "infra", "main.tf", "terraform", "infra"},
    {"env A=1 make", "", "Makefile", "make", ""},
    {"timeout 5 nice make", "", "Makefile", "make", ""},
    {"sh -c make", "", "Makefile", "make", ""},
    {"sh -c cd a && cd b && make", "a/b", "Makefile", "make", "?"},
    {"sh -c make -C $X", "", "Makefile", "make", "?"},
    {"frobnicate x", NULL, NULL, "frobnicate", ""},
    {"bash -lc true", "/etc", "profile", "bash", "?"},
    {"bash -lc true", "", ".bash_profile", "bash", "?"},
    {"bash --login s.sh", "", ".bash_login", "bash", "?"},
    {"bash -o pipefail -l -c true", "", ".profile", "bash", "?"},
    {"bash -c -l true", "", ".bash_logout", "bash", "?"},
    {"bash -login", "", ".profile", "bash", "?"},
    {"bash -ic true", "", ".bashrc", "bash", "?"},
    {"/bin/bash -i s.sh", "/etc", "bash.bashrc", "bash", "?"},
    {"bash", "", ".bashrc", "bash", "?"},
    {"bash -s x", "", ".bashrc", "bash", "?"},
    {"bash -", "", ".bashrc", "bash", "?"},
    {"bash --rcfile f -i", "", "f", "bash", "?"},
    {"bash -rcfile d/f -i", "", "d/f", "bash", "?"},
    {"bash --init-file /f -ic true", "", "/f", "bash", "?"},
    {"-bash -c true", "", ".bash_profile", "-bash", "?"},
    {"sh -lc true", "", ".profile", "sh", "?"},
    {"sh -l s.sh", "/etc", "profile", "sh", "?"},
    {"dash -l s.sh", "", ".profile", "dash", "?"},
    {"ksh -l s.sh", "", ".profile", "ksh", "?"},
    {"ksh93 -i", "", ".kshrc", "ksh93", "?"},
    {"mksh -ic true", "", ".mkshrc", "mksh", "?"},
    {"zsh -c true", "/etc/zsh", "zshenv", NULL, NULL},
    {"zsh s.zsh", "", ".zshenv", NULL, NULL},
    {"zsh -lc true", "", ".zprofile", "zsh", "?"},
    {"zsh -l s.zsh", "/etc/zsh", "zlogin", "zsh", "?"},
    {"zsh -i", "", ".zshrc", "zsh", "?"},
    {"env A=1 bash -lc true", "", ".bash_profile", "bash", "?"},
    {"sh -c cd a && bash -lc true", "", ".bash_profile", "bash", "?"},
    {"sh -c exec -l bash -c true", "", ".bash_profile", "bash", "?"},
    {"sh -c exec -ca -x bash s.sh", "", ".bash_profile", "bash", "?"},
    {"sh -c bash $X", "", ".bashrc", "bash", "?"},
    {"su - user", "", ".profile", "su", ""},
};

static void test_commands(void)
{
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        find(cases[i].line);
        ok(!cases[i].name || look_for(cases[i].start, cases[i].name), "%s looks for %s in '%s'",
           cases[i].line, cases[i].name ? cases[i].name : "-",
           cases[i].start ? cases[i].start : "");
        if (!cases[i].program) {
            ok(found.n_loads == 0, "%s: the runner says what else is loaded", cases[i].line);
            continue;
        }
        const struct shell_loads *l = loads_of(cases[i].program);
        const char *directory = l && l->directory ? l->directory : "?";
        ok(l && l->what && strcmp(directory, cases[i].directory) == 0, "%s loads from '%s': '%s'",
           cases[i].line, cases[i].directory, directory);
    }
}

static void test_quiet(void)
{
    static const char *const lines[] = {"true",
                                        "touch x",
                                        "ls -l",
                                        "sh s.sh",
                                        "cat Makefile",
                                        "./program",
                                        "timeout 5 true",
                                        "gcc -c x.c",
                                        "bash -c true",
                                        "bash s.sh -l -i",
                                        "bash -c true -l",
                                        "bash -o pipefail -ec true",
                                        "bash -- -l",
                                        "dash -c ls",
                                        "ksh s.sh",
                                        "env -i bash -c true",
                                        "sh -c exec ls -la",
                                        "sh -c bash +l s.sh"};
    for (size_t i = 0; i < ELEMENTS(lines); i++) {
        find(lines[i]);
        ok(found.n_looks == 0 && found.n_loads == 0, "%s loads nothing by itself", lines[i]);
    }
}

static void test_forms(void)
{
    find("git log");
    const struct shell_look *home = look_for("", ".gitconfig"), *up = look_for("", ".git/config");
    ok(home && home->home && !home->above, "~ is the home directory");
    ok(up && up->above && !up->home, "^ is every directory above");
    find("python3 -c 1");
    ok(!look_for("", "__main__.py"), ": is only in operands");
    find("python3 d");
    ok(look_for("d", "__main__.py")->only_inside, ": is not beside an operand that is a file");
}

static void test_bounds(void)
{
    _cleanup_free_ char *line = xstrdup("");
    for (int i = 0; i < 200; i++) {
        char *next = xasprintf("%s%sgit -C d%d log", line, i ? " && " : "sh -c ", i);
        free(line);
        line = next;
    }
    find(line);
    ok(found.n_looks <= SHELL_LOOKS_MAX && found.n_loads <= SHELL_LOADS_MAX, "bounded");
    char *argv[40] = {(char *)"pytest"};
    for (int i = 1; i < 39; i++)
        argv[i] = xasprintf("t%d", i);
    shell_conventions_done(&found);
    shell_parse_argv(argv, &shell);
    shell_conventions_find(&shell, &found);
    shell_done(&shell);
    ok(loads_of("pytest") && !loads_of("pytest")->directory, "places beyond the limit are told");
    for (int i = 1; i < 39; i++)
        free(argv[i]);
}

/* Long words, and the same places again and again: the work that a line makes has an end, and what
 * was left out is marked. */
static void test_bounds_of_work(void)
{
    static char deep[30 * 1024];
    memset(deep, 'd', sizeof(deep) - 1);
    struct strbuf text = STRBUF_INIT(256 * 1024);
    strbuf_printf(&text, "cd %s; cd %s", deep, deep);
    for (int i = 0; i < 240; i++)
        strbuf_printf(&text, "; eslint a%d b%d c%d", i, i, i);
    char *argv[] = {(char *)"sh", (char *)"-c", text.data, NULL};
    shell_conventions_done(&found);
    shell_parse_argv(argv, &shell);
    shell_conventions_find(&shell, &found);
    shell_done(&shell);
    size_t bytes = 0;
    for (size_t i = 0; i < found.n_looks; i++)
        bytes += strlen(found.looks[i].start) + strlen(found.looks[i].name);
    ok(found.more, "a line that needs more looks than there are says so");
    ok(bytes < SHELL_LOOKS_BYTES && found.n_tries < 10000, "in %zu bytes and %zu tries", bytes,
       found.n_tries);
    strbuf_done(&text);
    char *files[40] = {(char *)"make"};
    for (int i = 1; i < 39; i += 2) {
        files[i] = xstrdup("-f");
        files[i + 1] = xasprintf("x%d.mk", i);
    }
    shell_conventions_done(&found);
    shell_parse_argv(files, &shell);
    shell_conventions_find(&shell, &found);
    shell_done(&shell);
    ok(loads_of("make") && !loads_of("make")->directory, "files beyond the limit are marked");
    for (int i = 1; i < 39; i++)
        free(files[i]);
}

/* --- variables */

static void check_variable(const char *pattern)
{
    size_t n = strlen(pattern);
    _cleanup_free_ char *name = xasprintf("%.*s%s", (int)(n - (pattern[n - 1] == '*')), pattern,
                                          pattern[n - 1] == '*' ? "ZZ" : "");
    ok(shell_env_is_known(name, strlen(name)) && shell_env_is_harmful(name, strlen(name)),
       "%s is known", name);
}

static void check_harmless(const char *name)
{
    ok(!shell_env_is_harmful(name, strlen(name)), "%s is harmless", name);
}

static void check_known(const char *name)
{
    ok(shell_env_is_known(name, strlen(name)), "%s is known", name);
}

static void check_rule(const char *name)
{
    ok(!shell_env_is_known(name, strlen(name)) && shell_env_is_harmful(name, strlen(name)),
       "%s is in no table and seen by its look", name);
}

static void test_variables(void)
{
    for (size_t i = 0; i < shell_env_harmful_count; i++)
        each_word(shell_env_harmful[i], check_variable);
    each_word(shell_env_harmless, check_harmless);
    each_word("COLOUR PLAIN QUIET GREETING HOSTNAME USER DATABASE_URL API_TOKEN AWS_ACCESS_KEY_ID "
              "PGPASSWORD STAGE DATA_DIR LOG_PATH LC_ALL",
              check_harmless);
    each_word("GNUMAKEFLAGS PYTEST_ADDOPTS PYTEST_PLUGINS GCC_EXEC_PREFIX COMPILER_PATH "
              "CCC_OVERRIDE_OPTIONS ZDOTDIR DOTNET_STARTUP_HOOKS CORECLR_PROFILER_PATH GTK_MODULES "
              "QT_PLUGIN_PATH GIO_EXTRA_MODULES GST_PLUGIN_PATH R_PROFILE R_PROFILE_USER ERL_FLAGS "
              "JULIA_LOAD_PATH GRADLE_OPTS MAVEN_OPTS TCLLIBPATH EMACSLOADPATH GUILE_LOAD_PATH "
              "CAML_LD_LIBRARY_PATH LD_PRELOAD BASH_ENV NODE_OPTIONS GIT_SSH_COMMAND",
              check_known);
    static const char *const starts[] = {"FROB", "X_Y", "frob"};
    static const char *const ends[] = {
        "_OPTIONS",       "_OPTS",       "_FLAGS",   "FLAGS",          "OPTS",
        "_PRELOAD",       "PRELOAD",     "_STARTUP", "_STARTUP_HOOKS", "_PLUGIN_PATH",
        "_PLUGINS",       "_MODULES",    "LOADPATH", "_LOAD_PATH",     "LIBPATH",
        "_LIBRARY_PATH",  "_MODULE_DIR", "_COMMAND", "_CMD",           "_EXEC",
        "_EDITOR",        "_PAGER",      "_ASKPASS", "_WRAPPER",       "_PROFILER",
        "_PROFILER_PATH", "_ADDOPTS",    "_ARGS",    "_options",       "_plugin_path"};
    for (size_t i = 0; i < ELEMENTS(starts); i++)
        for (size_t k = 0; k < ELEMENTS(ends); k++) {
            _cleanup_free_ char *name = xasprintf("%s%s", starts[i], ends[k]);
            check_rule(name);
        }
}

int main(void)
{
    test_rows();
    test_every_known_program();
    test_commands();
    test_quiet();
    test_forms();
    test_bounds();
    test_bounds_of_work();
    test_variables();
    shell_conventions_done(&found);
    return tap_done();
}
