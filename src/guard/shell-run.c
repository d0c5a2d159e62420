/* Programs and builtins that run another command: what they run is put on the list too. One that
 * does nothing else is transparent; one that also changes who runs it (sudo, ssh, chroot) is not.
 */
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "guard/shell-internal.h"

enum { RUN_SELF = 1, RUN_ASSIGNS = 2 };

struct runner {
    const char *name;
    unsigned flags;          /* RUN_SELF: needs leave of its own */
    const char *short_value; /* short options that have a value behind them */
    const char *long_value;  /* long ones, when there is no '=' */
    size_t operands;         /* before the command */
    const char *opaque;      /* options with which it runs what is not seen */
};

static const struct runner runners[] = {
    {"env", RUN_ASSIGNS, "uC", "unset chdir", 0, "S split-string"},
    {"nice", 0, "n", "adjustment", 0, ""},
    {"ionice", 0, "cnpPu", "class classdata pid", 0, ""},
    {"nohup", 0, "", "", 0, ""},
    {"setsid", 0, "", "", 0, ""},
    {"stdbuf", 0, "ioe", "input output error", 0, ""},
    {"timeout", 0, "sk", "signal kill-after", 1, ""},
    {"time", RUN_SELF, "fo", "format output", 0, ""},
    {"command", 0, "", "", 0, ""},
    {"builtin", 0, "", "", 0, ""},
    {"exec", 0, "a", "", 0, ""},
    {"noglob", 0, "", "", 0, ""},
    {"sudo", RUN_SELF | RUN_ASSIGNS, "ugpCcThrtDRUa", "user group prompt host chdir chroot", 0,
     "s i e shell login edit"},
    {"doas", RUN_SELF, "uC", "", 0, "s"},
    {"pkexec", RUN_SELF, "", "user", 0, ""},
    {"chroot", RUN_SELF, "", "userspec groups", 1, ""},
    {"unshare", RUN_SELF, "SGRwl", "", 0, ""},
    {"nsenter", RUN_SELF, "tSG", "target", 0, ""},
    {"setpriv", RUN_SELF, "", "", 0, ""},
    {"taskset", 0, "", "", 1, "p pid"},
    {"chrt", 0, "TPD", "", 1, "p pid"},
    {"setarch", 0, "", "", 1, ""},
    {"linux32", 0, "", "", 0, ""},
    {"linux64", 0, "", "", 0, ""},
    {"fakeroot", RUN_SELF, "lsib", "", 0, ""},
    {"unbuffer", 0, "", "", 0, ""},
    {"rlwrap", RUN_SELF, "aAbcCdDefghHilmMnNopPqrRsStTvVwWz", "", 0, ""},
    {"strace", RUN_SELF, "aeEIoOpPsSuUX", "", 0, ""},
    {"ltrace", RUN_SELF, "aAeFlnopsuwx", "", 0, ""},
    {"valgrind", RUN_SELF, "", "", 0, ""},
    {"catchsegv", RUN_SELF, "", "", 0, ""},
    {"systemd-run", RUN_SELF, "HMpGtuE", "unit property host machine", 0, ""},
    {"systemd-inhibit", RUN_SELF, "", "", 0, ""},
    {"busybox", 0, "", "", 0, "install"},
    {"toybox", 0, "", "", 0, ""},
    {"prlimit", RUN_SELF, "po", "pid output", 0, ""},
    {"dbus-run-session", RUN_SELF, "", "config-file", 0, ""},
    {"xvfb-run", RUN_SELF, "efnpsw", "", 0, ""},
    {"flock", 0, "wE", "timeout wait conflict-exit-code", 1, "c command"},
};

/* 1: an option, and *i is behind it and its value; 0: none; -1: cannot be told. */
static int skip_option(const struct shell_command *c, const struct runner *run, size_t *i)
{
    const struct shell_word *w = &c->words[*i];
    const char *t = w->text;
    if (w->unknown)
        return -1;
    if (t[0] != '-' || !t[1])
        return 0;
    if (t[1] == '-') {
        size_t n = strcspn(t + 2, "=");
        if (shell_in_list(run->opaque, t + 2, n))
            return -1;
        *i += 1 + (!t[2 + n] && shell_in_list(run->long_value, t + 2, n));
        return 1;
    }
    for (const char *p = t + 1; *p; p++) {
        if (shell_in_list(run->opaque, p, 1))
            return -1;
        if (strchr(run->short_value, *p)) {
            *i += 1 + !p[1];
            return 1;
        }
    }
    (*i)++;
    return 1;
}

/* Steps over options. False: what it runs cannot be told. */
static bool skip_options(const struct shell_command *c, const struct runner *run, size_t *i)
{
    while (*i < c->n_words) {
        if (!c->words[*i].unknown && strcmp(c->words[*i].text, "--") == 0) {
            (*i)++;
            return true;
        }
        int r = skip_option(c, run, i);
        if (r <= 0)
            return r == 0;
    }
    return true;
}

static void skip_assignments(struct shell_command *c, size_t *i)
{
    for (; *i < c->n_words; (*i)++) {
        const struct shell_word *w = &c->words[*i];
        const char *equals = strchr(w->text, '=');
        if (!equals)
            break;
        if (shell_env_changes_meaning(w->text, (size_t)(equals - w->text), true))
            shell_mark(c, "sets a variable that may change what a command means", SHELL_NOT_NAMED);
    }
}

static bool is_query(const struct shell_command *c)
{
    return strcmp(c->name, "command") == 0 && c->n_words > 1 &&
           (strcmp(c->words[1].text, "-v") == 0 || strcmp(c->words[1].text, "-V") == 0);
}

static void look_through_runner(struct shell_build *b, size_t index, const struct runner *run)
{
    struct shell_command *c = &b->out->commands[index];
    size_t i = 1;
    if (is_query(c))
        return;
    if (!skip_options(c, run, &i)) {
        shell_mark(c, "an option hides what it runs", SHELL_NOT_NAMED);
        return;
    }
    if (run->flags & RUN_ASSIGNS)
        skip_assignments(c, &i);
    for (size_t n = 0; n < run->operands && i < c->n_words; n++, i++)
        if (c->words[i].unknown && c->words[i].splits)
            shell_mark(c, "a word before the command is not known", SHELL_NOT_NAMED);
    if (i >= c->n_words)
        return;
    shell_add_inner(b, index, i);
    b->out->commands[index].transparent = !(run->flags & RUN_SELF);
}

/* --- shells */

static void shell_reads_text(struct shell_build *b, size_t index, const char *text)
{
    const struct shell_command *c = &b->out->commands[index];
    bool own = shell_in_list("eval trap alias", c->name, strlen(c->name));
    bool bash = own ? c->bash : strcmp(c->name, "bash") == 0 || strcmp(c->name, "rbash") == 0;
    _cleanup_free_ char *copy = xstrdup(text); /* the list may move */
    shell_nested(b, copy, strlen(copy), c->depth + 1, bash);
}

static void shell_reads_word(struct shell_build *b, size_t index, size_t word)
{
    struct shell_command *c = &b->out->commands[index];
    if (word >= c->n_words) {
        shell_mark(c, "what it runs is not there", SHELL_NOT_NAMED);
    } else if (c->words[word].unknown || c->words[word].doubt) {
        shell_mark(c, "runs a text that is not known", SHELL_NOT_NAMED);
    } else {
        c->transparent = true;
        shell_reads_text(b, index, c->words[word].text);
    }
}

/* What `echo` writes or a here-document is, as far as it can be told; NULL when not. */
static char *text_of_source(const struct shell_build *b, const struct shell_command *c)
{
    const struct shell_command *from = c->source ? &b->out->commands[c->source - 1] : NULL;
    if (!from || !from->n_words)
        return NULL;
    const char *name = from->words[0].text;
    if (strcmp(name, "cat") == 0 && from->n_words == 1 && from->here)
        return xstrdup(from->here);
    if (strcmp(name, "echo") != 0 && strcmp(name, "printf") != 0)
        return NULL;
    size_t first = from->n_words > 1 && from->words[1].text[0] == '-' ? 2 : 1;
    return shell_join(from, first);
}

/* A shell without a script: what its input holds is run. */
static void shell_reads_input(struct shell_build *b, size_t index)
{
    struct shell_command *c = &b->out->commands[index];
    if (c->here) {
        bool holes = c->here_holes;
        if (!holes)
            c->transparent = true;
        else
            shell_mark(c, "runs a here-document with expansions", SHELL_NOT_NAMED);
        shell_reads_text(b, index, b->out->commands[index].here);
        return;
    }
    _cleanup_free_ char *text = text_of_source(b, c);
    shell_mark(c, "runs what it reads", SHELL_NOT_NAMED);
    if (text)
        shell_reads_text(b, index, text);
}

static bool is_input(const char *word)
{
    return strcmp(word, "-") == 0 || strcmp(word, "/dev/stdin") == 0 ||
           strncmp(word, "/dev/fd/", 8) == 0 || strncmp(word, "/proc/self/fd/", 14) == 0;
}

static void look_through_shell(struct shell_build *b, size_t index)
{
    struct shell_command *c = &b->out->commands[index];
    bool string = false, input = false;
    size_t i = 1;
    for (; i < c->n_words; i++) {
        const char *t = c->words[i].text;
        if (c->words[i].unknown) {
            shell_mark(c, "its options or script are not known", SHELL_NOT_NAMED);
            return;
        }
        if ((t[0] != '-' && t[0] != '+') || !t[1])
            break;
        if (strcmp(t, "--") == 0) {
            i++;
            break;
        }
        if (strcmp(t, "--version") == 0 || strcmp(t, "--help") == 0)
            return;
        if (strncmp(t, "--rcfile", 8) == 0 || strncmp(t, "--init", 6) == 0)
            shell_mark(c, "reads a file of commands", i);
        if (t[1] == '-')
            continue;
        string |= strchr(t, 'c') != NULL;
        input |= strchr(t, 's') != NULL;
        i += strchr(t, 'o') || strchr(t, 'O'); /* has a value */
    }
    if (string)
        shell_reads_word(b, index, i);
    else if (input || i >= c->n_words || is_input(c->words[i].text))
        shell_reads_input(b, index);
    else if (c->words[i].unknown)
        shell_mark(c, "its script is not known", SHELL_NOT_NAMED);
}

/* --- builtins that run text */

static void look_through_eval(struct shell_build *b, size_t index)
{
    struct shell_command *c = &b->out->commands[index];
    _cleanup_free_ char *text = shell_join(c, 1);
    if (!text || c->more) {
        shell_mark(c, "runs a text that is not known", SHELL_NOT_NAMED);
        return;
    }
    c->transparent = true;
    shell_reads_text(b, index, text);
}

static void look_through_trap(struct shell_build *b, size_t index)
{
    size_t word = 1;
    const struct shell_command *c = &b->out->commands[index];
    if (c->n_words > 1 && strcmp(c->words[1].text, "--") == 0)
        word++;
    if (c->n_words <= word || c->words[word].text[0] == '-')
        return;
    shell_reads_word(b, index, word);
}

static void look_through_alias(struct shell_build *b, size_t index)
{
    for (size_t i = 1; i < b->out->commands[index].n_words; i++) {
        const struct shell_word *w = &b->out->commands[index].words[i];
        const char *equals = strchr(w->text, '=');
        if (w->unknown || !equals)
            continue;
        _cleanup_free_ char *name = xstrndup(w->text, (size_t)(equals - w->text));
        shell_define(b, name);
        _cleanup_free_ char *value = xstrdup(equals + 1);
        shell_reads_text(b, index, value);
    }
    shell_mark(&b->out->commands[index], "gives names another meaning", SHELL_NOT_NAMED);
}

/* Directories that a line may change to are kept as far as they are plain. */
static void look_through_cd(struct shell_build *b, size_t index)
{
    const struct shell_command *c = &b->out->commands[index];
    struct shell *s = b->out;
    const char *to = c->n_words == 2 ? c->words[1].text : "-";
    if (strcmp(c->name, "cd") != 0 || c->more || (c->n_words == 2 && c->words[1].unknown) ||
        strchr("-~", *to) || strstr(to, "..") || s->n_directories == SHELL_DIRECTORIES_MAX) {
        b->moves = true;
        return;
    }
    s->directories = xrealloc(s->directories, (s->n_directories + 2) * sizeof(char *));
    s->directories[s->n_directories++] = xstrdup(to);
    s->directories[s->n_directories] = NULL;
}

/* The words behind the program as one line, as ssh, watch and su have them. */
static void look_through_joined(struct shell_build *b, size_t index, size_t first)
{
    struct shell_command *c = &b->out->commands[index];
    _cleanup_free_ char *text = shell_join(c, first);
    if (!text)
        shell_mark(c, "runs a text that is not known", SHELL_NOT_NAMED);
    else if (*text)
        shell_reads_text(b, index, text);
}

static void look_through_watch(struct shell_build *b, size_t index)
{
    static const struct runner run = {"watch", 0, "n", "interval", 0, ""};
    struct shell_command *c = &b->out->commands[index];
    size_t i = 1;
    if (!skip_options(c, &run, &i))
        shell_mark(c, "an option hides what it runs", SHELL_NOT_NAMED);
    else
        look_through_joined(b, index, i);
}

static void look_through_ssh(struct shell_build *b, size_t index)
{
    static const struct runner run = {"ssh", 0, "BbcDEeFIiJLlmOopQRSWw", "", 0, "F o"};
    struct shell_command *c = &b->out->commands[index];
    size_t i = 1;
    if (!skip_options(c, &run, &i))
        shell_mark(c, "an option hides what it runs", SHELL_NOT_NAMED);
    else
        look_through_joined(b, index, i + 1);
    shell_mark(&b->out->commands[index], "runs on another host", 0);
}

/* su, script, runuser, flock: the text behind -c. */
static void look_through_dash_c(struct shell_build *b, size_t index)
{
    shell_mark(&b->out->commands[index], "runs a shell", 0);
    for (size_t i = 1; i < b->out->commands[index].n_words; i++) {
        const struct shell_command *c = &b->out->commands[index];
        const char *t = c->words[i].text;
        bool flag = t[0] == '-' && t[1] != '-' && t[strlen(t) - 1] == 'c';
        if ((flag || strcmp(t, "--command") == 0) && i + 1 < c->n_words && !c->words[i + 1].unknown)
            shell_reads_text(b, index, c->words[i + 1].text);
        else if (strncmp(t, "--command=", 10) == 0 && !c->words[i].unknown)
            shell_reads_text(b, index, t + 10);
    }
}

/* --- find and xargs */

/* Words in which `what` stands for something found at run time become holes. */
static void punch_holes(struct shell_command *c, const char *what)
{
    for (size_t i = 0; i < c->n_words; i++) {
        if (!strstr(c->words[i].text, what))
            continue;
        free(c->words[i].text);
        c->words[i].text = xstrdup((const char[]){SHELL_ANY, 0});
        c->words[i].unknown = true;
        c->words[i].assign = 0;
    }
}

static void cut_words(struct shell_build *b, struct shell_command *c, size_t n)
{
    while (c->n_words > n) {
        shell_word_done(&c->words[--c->n_words]);
        b->n_words--;
    }
}

static bool is_exec(const char *t)
{
    static const char names[] = "-exec -execdir -ok -okdir";
    return shell_in_list(names, t, strlen(t));
}

static void look_through_find(struct shell_build *b, size_t index)
{
    for (size_t i = 1; i < b->out->commands[index].n_words; i++) {
        const struct shell_command *c = &b->out->commands[index];
        if (c->words[i].unknown && c->words[i].splits && c->words[i].text[0] == SHELL_ANY) {
            shell_mark(&b->out->commands[index], "its expression is not known", SHELL_NOT_NAMED);
            continue;
        }
        if (!is_exec(c->words[i].text))
            continue;
        size_t end = i + 1;
        while (end < c->n_words && strcmp(c->words[end].text, ";") != 0 &&
               !(strcmp(c->words[end].text, "+") == 0 && strcmp(c->words[end - 1].text, "{}") == 0))
            end++;
        struct shell_command *inner = shell_add_inner(b, index, i + 1);
        if (!inner) {
            shell_mark(&b->out->commands[index], "what it runs is not known", SHELL_NOT_NAMED);
            return;
        }
        cut_words(b, inner, end - i - 1);
        punch_holes(inner, "{}");
        inner->moved = true;
        if (!inner->n_words)
            shell_mark(inner, "what it runs is not known", SHELL_NOT_NAMED);
        i = end;
    }
}

/* What -I or -i of xargs has replaced; NULL when arguments go to the end. */
static const char *replacement(const struct shell_command *c, size_t end)
{
    for (size_t i = 1; i < end; i++) {
        const char *t = c->words[i].text;
        if (strncmp(t, "-I", 2) == 0)
            return t[2] ? t + 2 : i + 1 < c->n_words ? c->words[i + 1].text : "";
        if (strncmp(t, "-i", 2) == 0)
            return t[2] ? t + 2 : "{}";
        if (strncmp(t, "--replace", 9) == 0)
            return t[9] == '=' ? t + 10 : "{}";
    }
    return NULL;
}

/* Words of an `echo` before the pipe are arguments that are known. */
static void add_source_words(struct shell_build *b, size_t index, struct shell_command *inner)
{
    _cleanup_free_ char *text = text_of_source(b, &b->out->commands[index]);
    for (const char *p = text; p && *p;) {
        p += strspn(p, " \t\n");
        size_t n = strcspn(p, " \t\n");
        struct shell_word w = {.text = xstrndup(p, n), .quoted = true};
        if (n)
            shell_add_word(b, inner, &w);
        else
            shell_word_done(&w);
        p += n;
    }
}

static void look_through_xargs(struct shell_build *b, size_t index)
{
    static const struct runner run = {
        "xargs", 0, "aEILnPsd", "arg-file delimiter max-args max-chars max-procs", 0, ""};
    size_t i = 1;
    if (!skip_options(&b->out->commands[index], &run, &i)) {
        shell_mark(&b->out->commands[index], "an option hides what it runs", SHELL_NOT_NAMED);
        return;
    }
    struct shell_command *inner = shell_add_inner(b, index, i);
    struct shell_command *c = &b->out->commands[index];
    c->transparent = true;
    if (!inner)
        return;
    const char *what = replacement(c, i);
    free(inner->here); /* the command's own input is empty */
    inner->here = NULL;
    inner->piped = true;
    if (what && *what)
        punch_holes(inner, what);
    else
        inner->more = true;
    if (!what)
        add_source_words(b, index, inner);
    inner->source = 0;
}

static void look_through_parallel(struct shell_build *b, size_t index)
{
    shell_mark(&b->out->commands[index], "runs what it puts together", SHELL_NOT_NAMED);
    struct shell_command *c = &b->out->commands[index];
    size_t i = 1;
    while (i < c->n_words && c->words[i].text[0] == '-')
        i++;
    struct shell_command *inner = shell_add_inner(b, index, i);
    if (inner)
        inner->more = true;
}

/* --- the table */

static const struct {
    const char *names;
    void (*look)(struct shell_build *b, size_t index);
} looks[] = {
    {"sh bash dash zsh ksh ash mksh fish rbash rksh yash posh csh tcsh", look_through_shell},
    {"eval", look_through_eval},
    {"trap", look_through_trap},
    {"alias", look_through_alias},
    {"cd pushd popd chdir", look_through_cd},
    {"watch", look_through_watch},
    {"ssh", look_through_ssh},
    {"su script runuser", look_through_dash_c},
    {"find", look_through_find},
    {"xargs", look_through_xargs},
    {"parallel sem", look_through_parallel},
};

static bool look_through_name(struct shell_build *b, size_t index, const char *name)
{
    for (size_t i = 0; i < ELEMENTS(looks); i++)
        if (shell_in_list(looks[i].names, name, strlen(name))) {
            looks[i].look(b, index);
            return true;
        }
    for (size_t i = 0; i < ELEMENTS(runners); i++)
        if (strcmp(runners[i].name, name) == 0) {
            look_through_runner(b, index, &runners[i]);
            return true;
        }
    return false;
}

void shell_look_through(struct shell_build *b, size_t index)
{
    char plain[64];
    shell_plain_name(b->out->commands[index].name, plain, sizeof(plain));
    if (!look_through_name(b, index, b->out->commands[index].name))
        look_through_name(b, index, plain);
}
