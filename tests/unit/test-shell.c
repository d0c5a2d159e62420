/* What a line could run: the commands that are found, what is known of them, and the limits. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "guard/shell.h"
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

int main(void)
{
    test_lines();
    test_names();
    test_limits();
    test_argv();
    return tap_done();
}
