/* Shared by engine-*.c. */
#pragma once

#include "warden/engine/engine.h"

enum engine_record_state {
    ENGINE_RECORD_CREATING, /* the engine may know it, or soon */
    ENGINE_RECORD_RUNNING,
    _ENGINE_RECORD_STATE_MAX,
};

struct engine_record {
    uint32_t magic, size;
    uint32_t state;
    uint32_t runner_id, tool_id, nobody_id;
    int64_t id_block;
    struct engine_mark mark;
    uint8_t mechanism[16];
    struct plan plan;
    struct limits limits;
};

/* engine-record.c */
int engine_instance_load(struct engines *e);
int engine_record_save(const struct cell *s, enum engine_record_state state);
int engine_record_load(const struct engines *e, const char *id, struct engine_record *ret);
void engine_record_remove(const struct engines *e, const char *id);
void engine_record_each(const struct engines *e, void (*fn)(const char *id, void *data),
                        void *data);

/* engine-spawn.c: a broker and the warden's end of its channel; the pid, or -errno. */
pid_t engine_spawn(const struct warden *w, int *ret_channel_fd);
/* The parts of an order that are the same for all sandboxes of an engine. */
void engine_order_init(const struct warden *w, enum engine_task task, enum oci_backend b,
                       struct engine_order *o);
void engine_order_from_record(const struct warden *w, enum engine_task task,
                              const struct engine_record *r, struct engine_order *o);

/* engine-probe.c */
void engine_probe_start(struct warden *w, enum oci_backend b);
void engine_probe_stop(struct engine_probe *p);
/* engine-remove.c */
void engine_removals_stop(struct warden *w);
