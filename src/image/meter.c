/* SPDX-License-Identifier: Apache-2.0 */
#include "image/meter.h"

#include <errno.h>

#include "base/clock.h"
#include "base/error.h"

#define TELL_MS 250

void meter_init(struct meter *m, const struct image_options *o, const struct image_info *info)
{
    *m = (struct meter){.options = o, .info = info, .progress.step = "unpack"};
}

static int meter_report(struct meter *m, struct error *err)
{
    m->told_ms = clock_mono_ms();
    m->progress.files = m->info->files;
    if (m->options->on_progress && m->options->on_progress(m->options->arg, &m->progress))
        return error_set(err, ERROR_UNAVAILABLE, ECANCELED, "the work on the image was ended");
    return 0;
}

int meter_step(struct meter *m, const char *step, uint64_t total, struct error *err)
{
    m->progress.step = step;
    m->progress.done_bytes = 0;
    m->progress.total_bytes = total;
    return meter_report(m, err);
}

int meter_add(struct meter *m, uint64_t bytes, struct error *err)
{
    m->progress.done_bytes += bytes;
    return clock_mono_ms() - m->told_ms < TELL_MS ? 0 : meter_report(m, err);
}

int meter_claim(struct meter *m, uint64_t bytes, struct error *err)
{
    const struct image_options *o = m->options;
    if (o->on_claim && bytes > m->claimed) {
        m->claimed = bytes > METER_CLAIM_BYTES ? bytes : METER_CLAIM_BYTES;
        if (o->on_claim(o->arg, m->claimed))
            return error_set(err, ERROR_NO_SPACE, 0, "there is no room for the image");
    }
    m->claimed -= o->on_claim ? bytes : 0;
    return 0;
}
