/* SPDX-License-Identifier: Apache-2.0 */
/* What a line could run: the commands that are found, what is known of them, and the limits. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "shell/shell.h"
#include "tests/unit/tap.h"

/* "[a b] [c]": each command's words; ! is opaque, ~ transparent, + more arguments, > redirected. */
static char *shape(const struct shell *s)
{
    struct strbuf out = STRBUF_INIT(1 << 20);
    for (size_t i = 0; i < s->n_commands; i++) {
        const struct shell_command *c = &s->commands[i];
        _cleanup_free_ char *words = shell_command_format(c);
        strbuf_printf(&out, "%s[%s%s%s", i ? " " : "", c->opaque ? "!" : "",
                      c->transparent ? "~" : "", words);
        for (size_t k = 0; k < c->n_redirects; k++)
            strbuf_printf(&out, " %s%s", c->redirects[k].write ? ">" : "<",
                          c->redirects[k].target.unknown ? "<?>" : c->redirects[k].target.text);
        strbuf_puts(&out, "]");
    }
    return strbuf_steal(&out);
}

static const struct {
    const char *line, *expected;
} lines[] = {
    {"", ""},
    {"ls", "[ls]"},
    {"ls -la  /tmp", "[ls -la /tmp]"},
    {"a; b && c || d | e & f", "[a] [b] [c] [d] [e] [f]"},
    {"a\nb\n\nc # d", "[a] [b] [c]"},
    {"echo a#b", "[echo a#b]"},
    {"'a b' \"c d\" e\\ f", "[!'a b' 'c d' 'e f']"},
    {"echo \"a\\\"b\\$c\\d\"", "[echo 'a\"b$c\\d']"},
    {"echo $x ${y} \"$z\" $1 $@ $? $$", "[echo <?> <?> <?> <?> <?> <?> <?>]"},
    {"echo a$x\"b$y\"c", "[echo a<?>b<?>c]"},
    {"echo $ a$", "[echo $ a$]"},
    {"echo *.c a?b [ab]x", "[echo *.c a?b ?x]"},
    {"echo '*' \\* \"?\"", "[echo * * ?]"},
    {"echo {a,b} {1..3} {} {a} '{a,b}'", "[echo <?> <?> {} {a} {a,b}]"},
    {"echo $'a\\tb\\x41\\101'", "[echo 'a\\x09bAA']"},
    {"a $(b $(c))", "[c] [b <?>] [a <?>]"},
    {"a `b \\`c\\``", "[c] [b <?>] [a <?>]"},
    {"a \"$(b \"c d\")\"", "[b 'c d'] [a <?>]"},
    {"a ${x:-$(b)}", "[b] [a <?>]"},
    {"a $((1 + $(b)))", "[b] [a <?>]"},
    {"a $((b); c)", "[b] [c] [a <?>]"},
    {"((x = 1)); a", "[!] [x = 1] [a]"},
    {"bash -c '((x = 1)); a'", "[~bash -c '((x = 1)); a'] [a]"},
    {"a <(b) >(c)", "[b] [c] [a <?> <?>]"},
    {"a < b > c 2>&1 2>d &> e <> f", "[a <b >c >d >e >f]"},
    {"> x", "[~ >x]"},
    {"a >$x", "[a ><?>]"},
    {"(a; b) > c", "[a] [b] [~ >c]"},
    {"{ a; b; }", "[a] [b]"},
    {"if a; then b; elif c; then d; else e; fi", "[a] [b] [c] [d] [e]"},
    {"while a; do b; done; until c; do d; done", "[a] [b] [c] [d]"},
    {"for x in $(a) b; do c; done", "[a] [c]"},
    {"for x do a; done", "[a]"},
    {"for ((i = 0; i < $(a); i++)); do b; done", "[a] [b]"},
    {"case $(a) in b|c) d;; (e) f ;; *) g; esac; h", "[a] [d] [f] [g] [h]"},
    {"a $(case x in b) c;; esac) d", "[c] [a <?> d]"},
    {"[[ -f a && $(b) ]] && c", "[b] [!] [c]"},
    {"bash -c '[[ -f a && -f b ]]'", "[~bash -c '[[ -f a && -f b ]]']"},
    {"[[ -f a ]]", ""},
    {"[[ x || a ]]", "[!]"},
    {"time a", "[a]"},
    {"time -f x a", "[!] [time -f x a] [a]"},
    {"echo $[1]", "[echo] [!]"},
    {"echo $'a\\'; b", "[echo] [!]"},
    {"a \"${x#'\"'}\"; b; c \"${x#'\"'}\"", "[a] [!]"},
    {"! a | b", "[a] [b]"},
    {"f() { a; }; f", "[a] [!f]"},
    {"function g { a; }; g x", "[a] [!g x]"},
    {"x=1 y=2", "[~]"},
    {"x=$(a)", "[a] [~]"},
    {"LANG=C a", "[a]"},
    {"PATH=x a", "[!a]"},
    {"PATH=x; a", "[!] [a]"},
    {"a=(b $(c)); d", "[c] [~] [d]"},
    {"cat <<E; a\nb $(c)\nE\nd", "[cat] [a] [c] [d]"},
    {"cat <<'E'\n$(c)\nE", "[cat]"},
    {"cat <<-E\n\tx\n\tE\na", "[cat] [a]"},
    {"cat <<A <<B\n1\nA\n2\nB\na", "[cat] [a]"},
    {"a \"$(cat <<'E'\nx y\nE\n)\"", "[cat] [a 'x y']"},
    {"bash -c 'a; b'", "[~bash -c 'a; b'] [a] [b]"},
    {"sh -c \"$x\"", "[!sh -c <?>]"},
    {"bash x.sh -c", "[bash x.sh -c]"},
    {"bash", "[!bash]"},
    {"bash <<'E'\na\nE", "[~bash] [a]"},
    {"bash <<< 'a b'", "[~bash] [a b]"},
    {"echo a b | sh", "[echo a b] [!sh] [a b]"},
    {"eval a '; b'", "[~eval a '; b'] [a] [b]"},
    {"eval $x", "[!eval <?>]"},
    {"env -i LANG=C a b", "[~env -i LANG=C a b] [a b]"},
    {"env -u X nice -n 3 timeout -k 1 5 a",
     "[~env -u X nice -n 3 timeout -k 1 5 a] "
     "[~nice -n 3 timeout -k 1 5 a] [~timeout -k 1 5 a] [a]"},
    {"sudo -u root a", "[sudo -u root a] [a]"},
    {"command -v a", "[command -v a]"},
    {"busybox rm x", "[~busybox rm x] [rm x]"},
    {"xargs -n 1 rm -f", "[~xargs -n 1 rm -f] [rm -f <more>]"},
    {"xargs -I% a % b", "[~xargs -I% a % b] [a <?> b]"},
    {"echo 1 2 | xargs a", "[echo 1 2] [~xargs a] [a 1 2 <more>]"},
    {"find . -exec a {} \\; -exec b {} +", "[find . -exec a {} ';' -exec b {} +] [a <?>] [b <?>]"},
    {"python3 -c x", "[!python3 -c x]"},
    {"python3 x.py -c", "[python3 x.py -c]"},
    {"python3 --version", "[python3 --version]"},
    {"awk '{print $1}' f", "[awk '{print $1}' f]"},
    {"awk 'BEGIN{system(1)}'", "[!awk 'BEGIN{system(1)}']"},
    {"git -c a=b log", "[!git -c a=b log]"},
    {"a |& b", "[a] [b]"},
    {"a \\\n b", "[a b]"},
    {"a & b", "[a] [b]"},
    {"a 'b", "[a] [!]"},
    {"a $(b", "[b] [a] [!]"},
    {"a )", "[a] [!]"},
    {"alias a=b; a", "[!alias a=b] [!a] [b]"},
    {"trap 'a' EXIT", "[~trap a EXIT] [a]"},
};

static void test_lines(void)
{
    for (size_t i = 0; i < ELEMENTS(lines); i++) {
        struct shell s;
        shell_parse_line(lines[i].line, strlen(lines[i].line), &s);
        _cleanup_free_ char *got = shape(&s);
        _cleanup_free_ char *title = xstrdup(lines[i].line);
        for (char *p = title; *p; p++)
            *p = *p == '\n' || *p == '#' ? ' ' : *p;
        if (!ok(strcmp(got, lines[i].expected) == 0, "%s", title))
            printf("# got      %s\n# expected %s\n", got, lines[i].expected);
        shell_done(&s);
    }
}

static enum shell_name kind_of(const char *line)
{
    struct shell s;
    shell_parse_line(line, strlen(line), &s);
    enum shell_name kind = s.commands[s.n_commands - 1].kind;
    shell_done(&s);
    return kind;
}

static void test_names(void)
{
    ok(kind_of("ls") == SHELL_NAME_KNOWN, "a bare name is known");
    ok(kind_of("/usr/bin/ls") == SHELL_NAME_KNOWN, "so is one in a directory of the system");
    ok(kind_of("./ls") == SHELL_NAME_PATH && kind_of("/tmp/ls") == SHELL_NAME_PATH &&
           kind_of("/usr/bin/../../tmp/ls") == SHELL_NAME_PATH,
       "a path elsewhere is a path");
    ok(kind_of("$x") == SHELL_NAME_UNKNOWN && kind_of("l?") == SHELL_NAME_UNKNOWN &&
           kind_of("l\xd1\x95") == SHELL_NAME_UNKNOWN && kind_of("''") == SHELL_NAME_UNKNOWN,
       "holes, look-alikes and nothing are not known");
}

/* A text of n repetitions between two others. */
static char *repeat(const char *head, const char *middle, size_t n, const char *tail)
{
    struct strbuf b = STRBUF_INIT(1 << 22);
    strbuf_puts(&b, head);
    for (size_t i = 0; i < n; i++)
        strbuf_puts(&b, middle);
    strbuf_puts(&b, tail);
    return strbuf_steal(&b);
}

static bool any_opaque(const char *line)
{
    struct shell s;
    bool opaque = false;
    shell_parse_line(line, strlen(line), &s);
    for (size_t i = 0; i < s.n_commands; i++)
        opaque |= s.commands[i].opaque && s.commands[i].opaque_word == SHELL_NOT_NAMED;
    shell_done(&s);
    return opaque;
}

static void test_limits(void)
{
    static const struct {
        const char *head, *middle;
        size_t n;
        const char *tail, *what;
    } cases[] = {
        {"", "$(", 1000, "", "deep substitutions"},
        {"", "$((", 5000, "", "deep arithmetic"},
        {"", "$(( (", 3000, "", "arithmetic that is none"},
        {"a ", "\"$(", 1000, "", "deep quotes"},
        {"", "(", 100000, "", "deep groups"},
        {"", "`", 1001, "", "backquotes"},
        {"", "${a:-", 20000, "", "deep parameters"},
        {"", "a;", 2000, "", "many commands"},
        {"a ", "b ", 20000, "", "many words"},
        {"", "env ", 100, "a", "deep wrappers"},
        {"a ", "x", 200000, "", "a long line"},
        {"", "f() ", 20000, "", "many functions"},
        {"", "case x in a) ", 5000, "", "deep cases"},
        {"cat ", "<<A ", 100, "\n", "many here-documents"},
        {"", "eval ", 200, "a", "deep evals"},
        {"find . ", "-exec a ", 5000, "", "many -exec"},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        _cleanup_free_ char *line =
            repeat(cases[i].head, cases[i].middle, cases[i].n, cases[i].tail);
        ok(any_opaque(line), "%s end in what is not known", cases[i].what);
    }
}

static void test_argv(void)
{
    struct shell s;
    char *argv[] = {(char *)"echo", (char *)"$(a) ; b", (char *)"\001", NULL};
    shell_parse_argv(argv, &s);
    ok(s.n_commands == 1 && !s.commands[0].words[1].unknown && s.commands[0].words[2].unknown,
       "words of an argv are what they are, but for bytes that would be holes");
    shell_done(&s);
    char *none[] = {NULL};
    shell_parse_argv(none, &s);
    ok(s.n_commands == 1 && s.commands[0].opaque, "no command is not known");
    shell_done(&s);
}

static const char *hides(const char *line, size_t n)
{
    _cleanup_free_ char *copy = xstrdup(line);
    char *argv[16] = {NULL}, *rest = NULL;
    size_t k = 0;
    for (char *w = strtok_r(copy, " ", &rest); w && k < 15; w = strtok_r(NULL, " ", &rest))
        argv[k++] = w;
    return shell_hides_behind(argv, n);
}

/* Programs that run their arguments, in tables or not: leave for the name is leave for nothing. */
static void test_wrappers_as_prefix(void)
{
    static const char *const wrappers[] = {
        "stdbuf",
        "env",
        "nice",
        "ionice",
        "nohup",
        "setsid",
        "timeout 5",
        "time",
        "taskset 1",
        "chrt 1",
        "setarch x",
        "linux32",
        "flock x",
        "unbuffer",
        "busybox",
        "toybox",
        "sudo",
        "doas",
        "pkexec",
        "chroot x",
        "unshare",
        "nsenter",
        "setpriv",
        "fakeroot",
        "rlwrap",
        "strace",
        "ltrace",
        "valgrind",
        "catchsegv",
        "xvfb-run",
        "prlimit",
        "npx",
        "uvx",
        "uv run",
        "poetry run",
        "pnpm exec",
        "pnpm dlx",
        "bunx",
        "npm exec",
        "bundle exec",
        "mise exec",
        "mise x --",
        "tini",
        "dumb-init",
        "catatonit",
        "gosu x",
        "su-exec x",
        "proot",
        "chpst",
        "envdir x",
        "cgexec",
        "eatmydata",
        "faketime",
        "torsocks",
        "firejail",
        "bwrap",
        "ccache",
        "caffeinate",
        "direnv exec .",
        "pipx run",
        "conda run",
        "asdf exec",
        "rbenv exec",
        "hatch run",
        "pdm run",
        "doppler run",
        "hyperfine",
        "watchexec",
        "entr",
        "xargs",
        "parallel",
        "watch",
        "script",
        "su",
        "ssh x",
        "exec",
        "command",
        "numactl",
        "cpulimit",
        "chronic",
        "systemd-run",
        "systemd-inhibit",
        "dbus-run-session",
        "nix run",
        "docker run x",
        "kubectl exec x --",
        "gdb --args",
        "perf stat",
        "./wrapper",
        "some-wrapper",
        "some-wrapper --quiet",
        "/opt/bin/w -x 5",
        "ld.so",
        "eval",
    };
    size_t accepted = 0;
    for (size_t i = 0; i < ELEMENTS(wrappers); i++) {
        _cleanup_free_ char *line = xasprintf("%s sh -c id", wrappers[i]);
        _cleanup_free_ char *other = xasprintf("%s rm -rf x", wrappers[i]);
        for (size_t n = 1; n <= 2; n++)
            if ((!hides(line, n) || (!hides(other, n) && n == 1)) && ++accepted)
                printf("# '%s' is taken for a plain program\n", wrappers[i]);
    }
    ok(accepted == 0, "nothing is leave for a command behind any of %zu wrappers",
       ELEMENTS(wrappers));
}

static void test_prefix(void)
{
    static const struct {
        const char *line;
        size_t n;
        bool hides;
    } cases[] = {
        {"touch a b", 1, false},
        {"ls -la x", 1, false},
        {"deploy staging", 1, false},
        {"./deploy.sh prod --fast", 1, false},
        {"git status", 1, true},
        {"git status -sb", 2, false},
        {"git rebase main", 2, false},
        {"git rebase -qx id main", 2, true},
        {"python3 x.py a", 1, true},
        {"python3 x.py a", 2, false},
        {"python3 -c code", 2, true},
        {"python3 -m pytest -q", 2, true},
        {"python3 -m pytest -q", 3, false},
        {"bash x.sh", 1, true},
        {"bash x.sh a", 2, false},
        {"make all", 1, true},
        {"make -j4 all", 3, false},
        {"npm run build", 2, true},
        {"npm run build", 3, false},
        {"sort -o x y", 1, true},
        {"sort -r y", 1, false},
        {"find . -name x", 1, false},
        {"find . -delete", 2, true},
        {"find . -exec id ;", 2, true},
        {"awk {print} x", 1, true},
        {"awk {print} x", 2, false},
        {"timeout 5 deploy a", 3, true},
        {"timeout 5 deploy a", 4, false},
        {"deploy --shell=bash", 1, true},
        {"deploy /bin/sh", 1, true},
        {"docker ps", 2, false},
        {"docker ps -a", 2, true},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++)
        ok(!hides(cases[i].line, cases[i].n) == !cases[i].hides, "%zu words of '%s' %s", cases[i].n,
           cases[i].line, cases[i].hides ? "do not say what runs" : "say what runs");
}

/* What is beyond a limit is not even read: the work is bounded, not only the result. */
static void test_no_work_beyond(void)
{
    struct shell s;
    _cleanup_free_ char *line = repeat("a ", "b ", SHELL_WORDS_MAX, "; evil $(worse)");
    shell_parse_line(line, strlen(line), &s);
    bool more = false;
    for (size_t i = 0; i < s.n_commands; i++)
        more |= s.commands[i].name && strcmp(s.commands[i].name, "a") != 0;
    ok(!more && s.commands[s.n_commands - 1].opaque, "nothing is read behind too many words");
    shell_done(&s);
}

int main(void)
{
    test_lines();
    test_names();
    test_limits();
    test_argv();
    test_wrappers_as_prefix();
    test_prefix();
    test_no_work_beyond();
    return tap_done();
}
