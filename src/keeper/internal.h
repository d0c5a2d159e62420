/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the keeper share. */
#pragma once

#include <jansson.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/list.h"
#include "base/strbuf.h"
#include "image/store.h"
#include "keeper/keeper.h"

#define KEEPER_QUEUE_MAX   64 /* jobs that wait */
#define KEEPER_WAITERS_MAX 64 /* calls that wait for one job */
#define KEEPER_LINE_MAX    (512 * 1024)
#define KEEPER_ENV_MAX     (32 * 1024) /* bytes of an image's environment */
#define KEEPER_GC_GRACE_MS 3000        /* what was asked for so recently is about to be used */
#define KEEPER_USER_ID     65534       /* of the programs that are started, where ids are mapped */

struct keeper {
    const struct keeper_options *o;
    int sock, signal_fd, dir_fd;
    struct image_store *store;
    struct list jobs; /* oldest first */
    size_t n_jobs, n_running;
    uint64_t used_bytes; /* promised to jobs that have not committed yet */
    int64_t idle_since_ms;
    int64_t outlet_since_ms; /* when it was started, and */
    int64_t outlet_again_ms; /* when it is again; 0: it is there, or is not needed */
    int64_t outlet_pause_ms;
    pid_t outlet;        /* the process that is the way out; 0 if there is none */
    uint16_t proxy_port; /* of loopback, where it is asked; 0 likewise */
};

struct worker;

/* What a worker can be asked to do. */
struct job_kind {
    int (*run)(struct worker *w, const json_t *request, struct error *err);
    bool adds;   /* to the store: it ends when there is no room left */
    bool shared; /* calls for the same image wait for one job */
};

extern const struct job_kind job_pull, job_import, job_remove;

struct job {
    struct list node;
    struct keeper *keeper;
    const struct job_kind *kind;
    json_t *request;
    int64_t waiters[KEEPER_WAITERS_MAX];
    size_t n_waiters;
    pid_t pid;   /* 0 while it waits for its turn */
    int out, in; /* the worker's lines, and ours to it */
    int upload;  /* of an import */
    bool exited, answered;
    struct strbuf lines;
    uint64_t promised;    /* of images_max_bytes */
    unsigned claims_slot; /* while it runs */
    char work[64];        /* the worker's directory, to be removed when it did not do that itself */
};

/* keeper.c */
void keeper_send(struct keeper *k, json_t *record); /* takes it */
void keeper_send_error(struct keeper *k, int64_t id, const struct error *err);

/* keeper-answer.c: what is answered at once, or err is set. */
void keeper_answer_list(struct keeper *k, const json_t *request, int64_t id, struct error *err);
void keeper_answer_find(struct keeper *k, const json_t *request, int64_t id, struct error *err);
void keeper_answer_touch(struct keeper *k, const json_t *request, int64_t id, struct error *err);
json_t *keeper_view(struct image_store *store, const struct image_info *info);
/* The same with "reference", what text means in full. */
json_t *keeper_view_of(struct image_store *store, const struct keeper_options *o, const char *text,
                       const struct image_info *info);
/* The image that text names: by name, digest or reference. */
int keeper_find(struct image_store *store, const struct keeper_options *o, const char *text,
                struct image_info *ret, struct error *err);

/* Whether it is a digest: of the store, or nowhere. */
bool keeper_is_local(const char *text);
/* Whether the name "default" means an older image than the one that came with this daemon. */
bool keeper_default_is_old(const struct keeper_options *o, const struct image_info *info);

/* job.c */
void job_start(struct keeper *k, json_t *request, int64_t id, const struct job_kind *kind,
               int *upload);
struct job *job_find(struct keeper *k, int64_t id);
/* Records about a job: id waits no longer, and the last one ends it; the upload is whole; this may
 * be removed to make room. */
void job_leave(struct job *j, const json_t *request, int64_t id);
void job_end_upload(struct job *j, const json_t *request, int64_t id);
void job_evict(struct job *j, const json_t *request, int64_t id);
/* Its pipe is readable. Whether anything came: false at its end, and when it is empty. */
bool job_read(struct job *j);
void job_reaped(struct keeper *k, pid_t pid, int status);
void job_free(struct job *j);
/* The file system is down to the daemon's reserve: ends all that run. */
void job_end_for_room(struct keeper *k);

enum unpack_kind {
    UNPACK_AUTO, /* a tar that has to be looked at */
    UNPACK_ROOTFS_TAR,
    UNPACK_DOCKER_ARCHIVE,
    UNPACK_OCI_ARCHIVE,
    UNPACK_LAYOUT,
    UNPACK_SKOPEO_DIR,
    UNPACK_DIR,
    UNPACK_PARTS, /* of a docker-archive */
    _UNPACK_KIND_MAX,
};

/* worker.c: in a child of its own; returns the exit status. */
struct worker {
    const struct keeper_options *o;
    struct image_store *store;
    int out, in;
    int upload;
    struct claimant room;
    int64_t deadline_ms;
    int64_t progress_ms; /* when progress was last sent */
    const char *progress_step;
    struct image_work *work;
    const char *asked;   /* what a pull names; NULL for others */
    uint16_t proxy_port; /* of loopback; 0 if there is no way out */
};
int worker_begin(struct worker *w, struct error *err); /* makes w->work */
int worker_main(struct worker *w, const struct job_kind *kind, const json_t *request);
void worker_tell(struct worker *w, json_t *line); /* takes it */
void worker_progress(struct worker *w, const struct image_progress *p);
/* So many bytes are to be written next, and no other process may be given them: ERROR_NO_SPACE
 * where that cannot be. What was claimed before is written by now. */
int worker_claim(struct worker *w, uint64_t bytes, struct error *err);
/* So many of them are still to be written. */
void worker_claim_left(struct worker *w, uint64_t bytes);
/* Fails because the deadline is over. */
int worker_too_late(const struct worker *w, struct error *err);
/* One line of the keeper's, or NULL when it is gone. */
json_t *worker_ask(struct worker *w);

/* worker-commit.c: makes what is in w->work visible, with a name; tells the keeper of it; or
 * unpacks a source first and then does both. */
int worker_commit(struct worker *w, struct image_info *info, const char *source, const char *name,
                  struct error *err);
int worker_finish(struct worker *w, const char *digest, bool fetched, struct error *err);
int worker_unpack(struct worker *w, enum unpack_kind kind, int source, const char *ref,
                  const char *from, const char *name, struct error *err);

/* worker-pull.c, worker-import.c, worker-remove.c: the jobs. */
int worker_pull(struct worker *w, const json_t *request, struct error *err);
int worker_import(struct worker *w, const json_t *request, struct error *err);
int worker_remove(struct worker *w, const json_t *request, struct error *err);
int worker_discard(struct worker *w, const json_t *request, struct error *err);

/* fetch.c: from a registry. *ret_dir is what `skopeo copy ... dir:` wrote, or -1 where the store
 * has the image already. */
struct reference;
int fetch_image(struct worker *w, const struct reference *ref, char ret_digest[IMAGE_DIGEST_SIZE],
                int *ret_dir, struct error *err);

/* disk.c: makes a disk of the tree in the worker's work directory, which counts as the image's. */
int disk_make(struct worker *w, struct image_info *info, struct error *err);

/* unpack.c */
int unpack_kind_parse(const char *name); /* or -1 */
/* Unpacks what source is, into the worker's work directory, by children that can do nothing else.
 * *ret is what the worker itself found out. source is open for reading only: the children have it.
 */
int unpack_image(struct worker *w, enum unpack_kind kind, int source, const char *ref,
                 struct image_info *ret, struct error *err);
/* One kind of image_from_*(); with work -1 it only reads. */
int unpack_source(enum unpack_kind kind, int source, const char *ref, int work,
                  const struct image_options *o, struct image_info *ret, struct error *err);
/* detect.c: in such a child. */
int detect_archive(int fd, enum unpack_kind *ret, struct error *err);
