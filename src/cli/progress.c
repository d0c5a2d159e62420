#include "cli/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define BAR_WIDTH  30
#define REDRAW_MS  80
#define CLEAR_LINE "\r\033[K"
#define MEGABYTES  1e6

void progress_init(struct progress *p, bool quiet)
{
    const char *term = getenv("TERM");
    *p = (struct progress){.quiet = quiet};
    p->terminal = isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
}

static void draw(struct progress *p, uint64_t done, uint64_t total, const char *note)
{
    char bar[BAR_WIDTH + 1];
    size_t full = total ? (size_t)((double)done / (double)total * BAR_WIDTH) : 0;
    for (size_t i = 0; i < BAR_WIDTH; i++)
        bar[i] = i < full ? '#' : '.';
    bar[BAR_WIDTH] = 0;
    if (total)
        fprintf(stderr, CLEAR_LINE "%-8s [%s] %3d%%  %.1f/%.1f MB  %s", p->step, bar,
                (int)((double)done * 100 / (double)total), (double)done / MEGABYTES,
                (double)total / MEGABYTES, note);
    else
        fprintf(stderr, CLEAR_LINE "%-8s %.1f MB  %s", p->step, (double)done / MEGABYTES, note);
    p->drawn = true;
}

void progress_show(struct progress *p, const char *step, uint64_t done, uint64_t total,
                   const char *note)
{
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
    draw(p, done < total || !total ? done : total, total, note);
}

void progress_end(struct progress *p)
{
    if (p->drawn)
        fputs(CLEAR_LINE, stderr);
    p->drawn = false;
}
