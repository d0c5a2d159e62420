/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/progress.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "cli/output.h"

#define BAR_WIDTH   30
#define BAR_LEAST   4
#define STEP_WIDTH  8
#define USUAL_WIDTH 80
#define LINE_MAX_   256
#define REDRAW_MS   80
#define CLEAR_LINE  "\r\033[K"
#define MEGABYTES   1e6

/* Ctrl-C in the middle of a bar: sbx completes the line, and ends by the signal. */
static void on_interrupt(int sig)
{
    static const char last[] = CLEAR_LINE "interrupted\n";
    if (write(STDERR_FILENO, last, sizeof(last) - 1) < 0)
        _exit(128 + sig);
    raise(sig); /* blocked until we return; by then it is the default's */
}

static void catch_interrupts(bool on)
{
    struct sigaction now;
    struct sigaction action = {.sa_handler = on ? on_interrupt : SIG_DFL,
                               .sa_flags = (int)SA_RESETHAND};
    /* One that is ignored stays so, as in a background job. */
    if (sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler != SIG_IGN)
        sigaction(SIGINT, &action, NULL);
}

void progress_init(struct progress *p, bool quiet)
{
    const char *term = getenv("TERM");
    *p = (struct progress){.quiet = quiet};
    p->terminal = !quiet && isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
    if (p->terminal)
        catch_interrupts(true);
}

/* It may change at any time; a terminal that does not say has the usual size. */
static size_t terminal_columns(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
        return USUAL_WIDTH;
    return size.ws_col < LINE_MAX_ ? size.ws_col : LINE_MAX_;
}

/* What is left of the line beside everything else, down to none. */
static void fill_bar(char bar[BAR_WIDTH + 4], size_t room, double part)
{
    size_t width = room < BAR_WIDTH ? room : BAR_WIDTH;
    *bar = 0;
    if (width < BAR_LEAST)
        return;
    size_t full = (size_t)(part * (double)width), n = 0;
    bar[n++] = '[';
    for (size_t i = 0; i < width; i++)
        bar[n++] = i < full ? '#' : '.';
    memcpy(bar + n, "] ", 3);
}

/* A line that is longer than the terminal would not be drawn over, but scroll. */
static void progress_draw(struct progress *p, uint64_t done, uint64_t total, const char *note)
{
    char bar[BAR_WIDTH + 4] = "", numbers[LINE_MAX_];
    size_t room = terminal_columns() - 1;
    double part = total ? (double)done / (double)total : 0;
    if (total)
        snprintf(numbers, sizeof(numbers), "%3d%%  %.1f/%.1f MB  %s", (int)(part * 100),
                 (double)done / MEGABYTES, (double)total / MEGABYTES, note);
    else
        snprintf(numbers, sizeof(numbers), "%.1f MB  %s", (double)done / MEGABYTES, note);
    size_t used = STEP_WIDTH + 4 + strlen(numbers);
    if (total)
        fill_bar(bar, room > used ? room - used : 0, part);
    char line[sizeof(numbers) + sizeof(bar) + sizeof(p->step)];
    snprintf(line, sizeof(line), "%-*s %s%s", STEP_WIDTH, p->step, bar, numbers);
    fprintf(stderr, CLEAR_LINE "%.*s", (int)room, line);
    p->drawn = true;
}

void progress_show(struct progress *p, const char *step, uint64_t done, uint64_t total,
                   const char *text)
{
    _cleanup_free_ char *note = printable(text);
    int64_t now = clock_mono_ms();
    bool other = strcmp(p->step, step) != 0;
    if (p->quiet)
        return;
    snprintf(p->step, sizeof(p->step), "%s", step);
    if (!p->terminal && other)
        fprintf(stderr, "%s%s%s\n", step, *note ? " " : "", note);
    if (!p->terminal || (!other && now - p->drawn_ms < REDRAW_MS))
        return;
    p->drawn_ms = now;
    progress_draw(p, done < total || !total ? done : total, total, note);
}

void progress_end(struct progress *p)
{
    if (p->drawn)
        fputs(CLEAR_LINE, stderr);
    if (p->terminal)
        catch_interrupts(false);
    p->drawn = p->terminal = false;
}
