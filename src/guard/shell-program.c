/* Programs that run code of their own: interpreters given a program in an argument or on their
 * input, and tools with an option, a command or a language that starts others. Which word says so
 * is kept, so that a rule which names it ("python3 -c *") knows what it allows. */
#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "guard/shell-internal.h"

void shell_plain_name(const char *name, char *out, size_t size)
{
    size_t n = strlen(name);
    while (n > 1 && (isdigit((unsigned char)name[n - 1]) || name[n - 1] == '.'))
        n--;
    if (n > 1 && name[n - 1] == '-')
        n--;
    n = n < size ? n : size - 1;
    memcpy(out, name, n);
    out[n] = 0;
}

/* --- interpreters */

static const struct interpreter {
    const char *names;
    const char *code;      /* short options with a program in them or behind them */
    const char *long_code; /* long ones */
    const char *ends;      /* short options behind which nothing is an option */
} interpreters[] = {
    {"python pypy jython ipython micropython", "c", "", "m"},
    {"perl", "eEM", "", ""},
    {"ruby irb jruby", "e", "", ""},
    {"node nodejs bun tsx ts-node", "ep", "eval print", ""},
    {"deno", "", "eval", ""},
    {"php", "rBRE", "run process-code", ""},
    {"lua luajit texlua", "el", "", ""},
    {"Rscript R", "e", "expression", ""},
    {"julia", "eE", "eval print", ""},
    {"guile", "ce", "", ""},
    {"elixir iex", "e", "eval rpc-eval", ""},
    {"erl", "", "", ""},
    {"groovy scala osascript swift", "e", "", ""},
    {"tclsh wish expect", "c", "", ""},
    {"qjs duk mujs racket sbcl clisp ghci ocaml", "eE", "eval", ""},
};

static bool is_harmless_flag(const char *t)
{
    static const char flags[] = "--version -version -V -v --help -help -h --check -c";
    return shell_in_list(flags, t, strlen(t));
}

/* Whether a word is an option that holds or announces code. */
static bool announces_code(const struct interpreter *in, const char *t)
{
    if (t[1] == '-') {
        size_t n = strcspn(t + 2, "=");
        return n && shell_in_list(in->long_code, t + 2, n);
    }
    for (const char *p = t + 1; *p && !strchr(in->ends, *p); p++)
        if (strchr(in->code, *p))
            return true;
    return false;
}

static bool ends_options(const struct interpreter *in, const char *t)
{
    return t[1] != '-' && *in->ends && strpbrk(t + 1, in->ends);
}

static bool is_input_name(const char *t)
{
    return strcmp(t, "-") == 0 || strncmp(t, "/dev/", 5) == 0 || strncmp(t, "/proc/", 6) == 0;
}

/* A word behind an option may be the option's value or the script: options behind it are looked at
 * as if it were the value. */
static void look_at_interpreter(struct shell_command *c, const struct interpreter *in)
{
    bool harmless = c->n_words > 1, script = false, value = false;
    for (size_t i = 1; i < c->n_words; i++) {
        const char *t = c->words[i].text;
        bool option = t[0] == '-' && t[1];
        if (c->words[i].unknown || is_input_name(t)) {
            shell_mark(c, "what it runs is not known", SHELL_NOT_NAMED);
            return;
        }
        if ((option && announces_code(in, t)) || strcmp(t, "eval") == 0) {
            shell_mark(c, "runs a program in an argument", i);
            return;
        }
        if (option ? ends_options(in, t) : !value)
            return;
        script |= !option;
        value = option && !strchr(t, '=');
        harmless &= option && is_harmless_flag(t);
    }
    if ((!harmless && !script) || c->more)
        shell_mark(c, "runs a program that it reads", SHELL_NOT_NAMED);
}

/* --- awk and sed: the program is read for what starts others */

/* '>' and '|' send what is printed elsewhere; outside of print they only compare. */
static bool awk_runs_others(const char *program)
{
    if (strstr(program, "system") || strstr(program, "getline") || strchr(program, '@') ||
        strstr(program, "|&"))
        return true;
    for (const char *p = program; (p = strstr(p, "print")); p++) {
        size_t n = strcspn(p, ";}\n");
        if (memchr(p, '>', n) || memchr(p, '|', n))
            return true;
    }
    return false;
}

static void look_at_awk(struct shell_command *c)
{
    for (size_t i = 1; i < c->n_words; i++) {
        const char *t = c->words[i].text;
        bool short_value = strcmp(t, "-F") == 0 || strcmp(t, "-v") == 0;
        if (c->words[i].unknown) {
            shell_mark(c, "its program is not known", SHELL_NOT_NAMED);
            return;
        }
        if (t[0] == '-' && t[1] && t[1] != 'F' && t[1] != 'v') {
            shell_mark(c, "an option of awk may name a program", i);
            return;
        }
        if (short_value) {
            i++;
        } else if (t[0] != '-') {
            if (awk_runs_others(t))
                shell_mark(c, "its awk program may run others", i);
            return;
        }
    }
}

/* From behind the 's' to behind its flags; NULL when it may write or run. */
static const char *skip_substitution(const char *s)
{
    char d = *s;
    int parts = 0;
    if (!d || isalnum((unsigned char)d) || d == '\\' || d == '\n')
        return NULL;
    for (s++; *s && parts < 2; s++) {
        if (*s == '\n')
            return NULL;
        if (*s == '\\' && s[1])
            s++;
        else
            parts += *s == d;
    }
    return parts == 2 ? s + strspn(s, "gpiI0123456789") : NULL;
}

/* Behind "12", "$", "/text/", two of them with ',' between, and '!'; NULL when one has no end. */
static const char *skip_addresses(const char *s)
{
    for (;;) {
        s += strspn(s, "0123456789,$! ");
        if (*s != '/')
            return s;
        for (s++; *s && *s != '/'; s++)
            if (*s == '\n' || (*s == '\\' && !*++s))
                return NULL;
        if (!*s++)
            return NULL;
    }
}

/* s/a/b/ with harmless flags, or an address and one of p d q =, with ';' between them. */
static bool sed_is_plain(const char *s)
{
    while (s && (s = skip_addresses(s))) {
        if (*s == 's')
            s = skip_substitution(s + 1);
        else if (*s && strchr("pdq=", *s))
            s++;
        else
            return false;
        if (s && !s[strspn(s, " ")])
            return true;
        s = s ? s + strspn(s, " ") : NULL;
        s = s && *s == ';' ? s + 1 : NULL;
    }
    return false;
}

static void look_at_sed(struct shell_command *c)
{
    bool given = false;
    for (size_t i = 1; i < c->n_words; i++) {
        const char *t = c->words[i].text;
        bool option = t[0] == '-' && t[1];
        bool script = strcmp(t, "-e") == 0 || strcmp(t, "--expression") == 0;
        if (c->words[i].unknown && !given) {
            shell_mark(c, "its script is not known", SHELL_NOT_NAMED);
            return;
        }
        if (script && i + 1 < c->n_words) {
            given = true;
            if (c->words[++i].unknown || !sed_is_plain(c->words[i].text))
                shell_mark(c, "its sed script may write or run", i);
        } else if (option &&
                   !shell_in_list("-n -E -r -i -s -u -z -En -nE -ne -i.bak", t, strlen(t))) {
            shell_mark(c, "an option of sed may hold a script", i);
        } else if (!option && !given) {
            given = true;
            if (!sed_is_plain(t))
                shell_mark(c, "its sed script may write or run", i);
        } else if (strcmp(t, "-ne") == 0 && i + 1 < c->n_words && !given) {
            given = true;
            if (c->words[++i].unknown || !sed_is_plain(c->words[i].text))
                shell_mark(c, "its sed script may write or run", i);
        }
    }
}

/* --- git: options before the subcommand set its configuration, which can name programs */

static void look_at_git(struct shell_command *c)
{
    static const char running[] = "filter-branch difftool mergetool daemon http-backend shell "
                                  "send-email instaweb web--browse";
    size_t i = 1;
    for (; i < c->n_words && c->words[i].text[0] == '-'; i++) {
        const char *t = c->words[i].text;
        if (t[1] == 'c' || strncmp(t, "--config", 8) == 0 || strncmp(t, "--exec", 6) == 0)
            shell_mark(c, "sets git's configuration", i);
        if (t[1] == 'C' || shell_in_list("--git-dir --work-tree --namespace", t, strlen(t)))
            c->moved = true, i++;
    }
    if (i >= c->n_words)
        return;
    const char *sub = c->words[i].text;
    if (shell_in_list(running, sub, strlen(sub)))
        shell_mark(c, "a git command that runs others", i);
    for (size_t k = i + 1; k < c->n_words; k++) {
        const char *t = c->words[k].text;
        if ((strcmp(sub, "bisect") == 0 && strcmp(t, "run") == 0) ||
            (strcmp(sub, "grep") == 0 && strncmp(t, "-O", 2) == 0) ||
            (strcmp(sub, "submodule") == 0 && strcmp(t, "foreach") == 0) ||
            (strcmp(sub, "rebase") == 0 &&
             (strncmp(t, "-x", 2) == 0 || strncmp(t, "--ex", 4) == 0)))
            shell_mark(c, "a git command that runs others", k);
    }
}

/* --- options that start programs */

static const struct {
    const char *names;
    const char *options; /* long ones may be abbreviated; short ones bundled; "": always */
} starters[] = {
    {"git", "--upload-pack --receive-pack --extcmd --open-files-in-pager --ext-diff --textconv "
            "--gpg-program"},
    {"tar bsdtar gtar", "-I -F --use-compress-program --checkpoint-action --to-command "
                        "--rsh-command --info-script --new-volume-script"},
    {"rsync", "-e --rsh --rsync-path"},
    {"scp sftp", "-S -o -F -D"},
    {"curl", "-K --config"},
    {"wget", "-e --execute --use-askpass --config"},
    {"sort", "--compress-program"},
    {"split csplit", "--filter"},
    {"rg", "--pre --hostname-bin"},
    {"file", "-C --compile"},
    {"man", "-P -H --pager --html"},
    {"zip", "-T --unzip-command"},
    {"make gmake", "--eval -E"},
    {"cmake", "-P -E"},
    {"nc ncat netcat", "-e -c --exec --sh-exec --lua-exec"},
    {"apt apt-get aptitude apt-cache", "-o --option -c --config-file"},
    {"npx npm yarn pnpm bunx", "-c --call --shell-auto-fallback --script-shell"},
    {"cargo", "--config"},
    {"gcc g++ cc clang c++", "-wrapper -fplugin -specs -B"},
    {"pip", "--config-settings --global-option"},
    {"rpm", "--eval -E --pipe"},
    {"nmap", "--script --interactive"},
    {"tcpdump", "-z"},
    {"openssl", "-engine -provider"},
    {"hash enable complete bind", "-p -f -C -F -x -n"},
    {"mapfile readarray", "-C"},
    {"go", "-toolexec -exec"},
    {"fd fdfind", "-x -X --exec --exec-batch"},
    {"vi vim nvim view vimdiff rvim ex ed emacs nano pico gdb lldb dc m4 crontab at batch tmux "
     "screen "
     "socat perf start-stop-daemon run-parts entr capsh gnuplot octave psql mysql sqlite "
     "ip docker podman kubectl nerdctl lxc-execute machinectl systemctl firejail bwrap "
     "nix-shell vagrant ansible source . coproc shopt sg newgrp",
     ""},
};

/* Whether a word is this option, in any form that programs take: --long=x, abbreviated --lo, -Ix.
 */
static bool is_option(const char *word, const char *option, size_t len)
{
    if (option[1] == '-') {
        size_t n = strcspn(word, "=");
        return n >= 4 && n <= len && strncmp(word, option, n) == 0;
    }
    if (len > 2)
        return strncmp(word, option, len) == 0;
    return word[0] == '-' && word[1] && word[1] != '-' && strchr(word + 1, option[1]);
}

static bool has_option(const char *options, const char *word)
{
    for (const char *p = options; *p;) {
        size_t n = strcspn(p, " ");
        if (is_option(word, p, n))
            return true;
        p += n + (p[n] == ' ');
    }
    return false;
}

static void look_at_options(struct shell_command *c, const char *options)
{
    if (!*options) {
        shell_mark(c, "a program that can run others", 0);
        return;
    }
    for (size_t i = 1; i < c->n_words; i++)
        if (has_option(options, c->words[i].text))
            shell_mark(c, "an option that can run others", i);
}

static void look_at_directory(struct shell_command *c)
{
    for (size_t i = 1; i < c->n_words; i++)
        if (strncmp(c->words[i].text, "-C", 2) == 0 ||
            strncmp(c->words[i].text, "--directory", 8) == 0 ||
            strncmp(c->words[i].text, "--chdir", 6) == 0)
            c->moved = true;
}

void shell_look_at_program(struct shell_build *b, size_t index)
{
    struct shell_command *c = &b->out->commands[index];
    char plain[64];
    shell_plain_name(c->name, plain, sizeof(plain));
    size_t len = strlen(plain);
    for (size_t i = 0; i < ELEMENTS(interpreters); i++)
        if (shell_in_list(interpreters[i].names, plain, len))
            look_at_interpreter(c, &interpreters[i]);
    for (size_t i = 0; i < ELEMENTS(starters); i++)
        if (shell_in_list(starters[i].names, plain, len))
            look_at_options(c, starters[i].options);
    if (shell_in_list("awk gawk mawk nawk original-awk", plain, len))
        look_at_awk(c);
    if (strcmp(plain, "sed") == 0)
        look_at_sed(c);
    if (strcmp(plain, "git") == 0)
        look_at_git(c);
    look_at_directory(c);
}
