/* SPDX-License-Identifier: Apache-2.0 */
/* mas-engine, the broker between the warden and a container engine: see warden/engine/engine.h for
 * what it is for. One file per step; main.c is the story. */
#pragma once

#include <jansson.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/rest.h"
#include "builder/child.h"
#include "builder/disks.h"
#include "proto/engine.h"

struct strbuf;
struct syscall_table;

#define CONTAINER_NAME_SIZE 128
#define LABEL_INSTANCE      "mas-sandbox.instance"
#define LABEL_ID            "mas-sandbox.id"
#define LABEL_STATE         "mas-sandbox.state" /* the directory that the records are in */

struct engine;

/* How an engine differs from the others: a row per engine, in a file of its own (podman.c,
 * docker.c). No other file asks which engine it is. */
struct engine_dialect {
    const char *component; /* how it names itself among the components of its version */
    int libpod_least;     /* the major version of podman's own API that is needed; 0: it has none */
    const char *image_at; /* where an image's files are mounted in the container */
    bool image_is_root;   /* then the root is the image's and is writable */
    /* Whether its containers can run on this runtime, by its answer to /info. */
    bool (*can_run)(const json_t *info, const char *runtime);
    /* Sets the ids and users where they are not the warden's block; NULL: they always are. */
    int (*find_users)(struct engine *e);
    /* What must be there before a container can be asked for; NULL: nothing. */
    int (*prepare)(struct engine *e);
    /* The request for a container. NULL where a path of the order is no text. */
    json_t *(*body)(const struct engine *e);
    /* Sends it; the status or -errno. */
    int (*create)(struct engine *e, const json_t *body, json_t **ret);
    /* Ends what the engine forgets of a container that did not start; NULL: it forgets nothing. */
    void (*end_remains)(const char *container);
};
extern const struct engine_dialect dialect_podman, dialect_docker;

/* The runtimes that an engine can be asked to use, by enum oci_backend; [OCI_NONE] is empty. */
struct engine_runtime {
    const char *name;    /* that both engines give it */
    bool own_kernel;     /* a process is the container's kernel: it has no filter of ours, and
                            counts its processes by their rlimit */
    const char *process; /* what the name of that process's program begins with; NULL: anything */
    const char *advice;  /* what may be wrong where the runner does not dial, or NULL */
};
extern const struct engine_runtime engine_runtimes[OCI_PODMAN];

/* What is known of the engine and the container. */
struct engine {
    struct engine_order order;
    struct rest rest;
    char api[16];     /* "/v1.41" */
    char libpod[24];  /* "/v4.0.0/libpod"; podman only */
    char version[64]; /* of the engine */
    char name[CONTAINER_NAME_SIZE];
    char root[CONTAINER_NAME_SIZE]; /* where its root is mounted while it is made */
    /* Ids of runner and tool on the host, and of the tool inside. */
    uint32_t runner_id, tool_id, tool_inside;
    enum mechanism users;           /* what keeps these ids from the host's */
    char base[CONTAINER_NAME_SIZE]; /* the image that a container of docker's starts from */
    dev_t disk_dev;
    bool own_root; /* a root with places for mounts, in place of the template */
    bool image;    /* that root is an image, under the disk's budget */
    dev_t root_dev;
    struct disks disks; /* that its files are on; none: not known of all */
    struct engine_mark mark;
    int pidfd;
    int records_fd; /* where the records of all sandboxes are */
};

/* --- api.c: 0 or -errno with e->rest.why */

/* In which version we speak; who is there, by name and version. */
int api_connect(struct engine *e);
int api_ask_version(struct engine *e);
/* GET of api or libpod path, formatted; the status or -errno. */
int api_get(struct engine *e, json_t **ret, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int api_post(struct engine *e, const json_t *body, json_t **ret, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The container: -ENOENT when the engine has none, or one of this name that is not ours. Sets its
 * id where that was not known. */
int api_inspect(struct engine *e, json_t **ret);
int api_create(struct engine *e, const json_t *body);
int api_start(struct engine *e);
int api_pause(struct engine *e, bool on);
/* Also when there is none. Never by name, which may be another's by now. */
int api_remove(struct engine *e, const char *id);
bool api_is_id(const char *text);

/* --- dialect.c */
const struct engine_dialect *engine_dialect(const struct engine *e);
const struct engine_runtime *engine_runtime(const struct engine *e); /* NULL means its own choice */
bool engine_own_kernel(const struct engine *e);
/* The engine that names itself in an answer to /version, or NULL; with its component. */
const struct engine_dialect *engine_dialect_find(const json_t *version, const json_t **ret);
const char *engine_dialect_name(const struct engine_dialect *d);
/* Sets runner_id, tool_id, tool_inside and users. */
int engine_find_users(struct engine *e);

/* --- body.c: what both are asked for alike */
/* The runner's command line; NULL-terminated strings that live as long as e. */
#define BODY_ARGS_MAX 24
size_t body_args(const struct engine *e, const char **argv, char *buffer, size_t size);
json_t *body_masked(void);
/* A list with what make() returns for each limit that a request to the engine names. */
json_t *body_rlimits(const struct engine *e, json_t *(*make)(const char *name, uint64_t value));
json_t *body_labels(const struct engine *e);

/* --- image.c: a base for docker's containers; sets base */
int image_ensure(struct engine *e);

/* --- place.c: what is bound into the container, mounted where the engine sees it */
int place_enter(const struct engine *e);
int place_root(struct engine *e, int view_fd);
/* After place_root(): an image as the root. Fails by child_must(). */
void place_image(struct engine *e, const struct child_trees *trees);
int place_disk(struct engine *e, int disk_fd);
int place_mounts(struct engine *e, const int *mount_fds);
int place_files(struct engine *e);
/* After place_root(): the host's certificate authorities and one more, where there is one. */
int place_authorities(const struct engine *e, int authority_fd);
void place_clear(const struct engine *e);

/* --- verify.c: what the kernel really holds. Fails by child_must(). */
void verify(struct engine *e, uint8_t *mechanism);

/* --- mountinfo.c: whether the mount on top at target is of this device (0 means any) and begins
 * its options like this (NULL means any) */
bool mountinfo_has(const char *text, const char *target, dev_t dev, const char *option);

/* --- io.c: sets disks, of all sandboxes or of this one. The second fails by
 * child_must() where the limit was asked for and is none of theirs. */
void io_find_common(struct engine *e);
void io_find(struct engine *e, int view_fd, const struct child_trees *t);
/* The limit for each of them, as podman takes it and as docker does. */
json_t *io_by_number(const struct engine *e);
json_t *io_by_path(const struct engine *e);
/* Whether the container's group has it for each; the same of one and its text. */
bool io_holds(const struct engine *e);
bool io_max_holds(const char *text, dev_t disk, uint64_t bytes_per_s);

/* --- group.c: control groups of the container, as they are */
struct group_numbers {
    enum mechanism by;
    uint64_t memory_limit, swap_limit, pids_limit; /* UINT64_MAX if there is none */
    uint64_t cpu_millicores;                       /* UINT64_MAX if there is none */
    uint64_t memory, memory_peak, cpu_us, pids, oom_kills;
};
void group_read(pid_t pid, struct group_numbers *ret);
/* A file of its version 2 group; 0 or -errno. */
int group_read_file(pid_t pid, const char *file, struct strbuf *ret);
/* Version 1 counts what sockets hold only when told to, which engines' runtimes do not. */
int group_limit_sockets(pid_t pid, uint64_t bytes);
/* Lets a frozen container go on, so that it can die. */
void group_thaw(pid_t pid);

/* --- process.c */
uint64_t process_started(pid_t pid); /* 0 if there is none */
pid_t process_parent(pid_t pid);     /* the same */
/* Opens the process of a mark if it is still that one; -ESRCH otherwise. */
int process_open(const struct engine_mark *m);
/* Finds the container's first process by the engine's word. */
int process_find(struct engine *e);

/* --- record.c: the sandbox's record; 0 or -errno. The first also finds the order's instance. */
int record_open(struct engine *e);
/* Before the engine hears of the sandbox; and with its directory. */
int record_create(struct engine *e);
int record_save(struct engine *e, enum engine_record_state state);
/* After the engine has forgotten it; and its directory. */
void record_remove(const struct engine *e);
/* Sends all to the warden. */
int record_list(const struct engine *e);

/* --- shim.c: ends what is left of a container of docker's that docker has forgotten */
void shim_end(const char *id);
bool shim_is_of(const char *command_line, size_t len, const char *id);

/* --- probe.c: who the engine is and what it can; containers without a record are removed */
void probe_ask(struct engine *e, struct engine_message *ret);

/* --- tasks */
/* How the container ended, as far as the engine will say. */
void task_ask_end(struct engine *e, uint64_t oom_kills, struct engine_message *ret);
void task_create(struct engine *e, int view_fd, const struct child_trees *trees);
void task_adopt(struct engine *e);
/* Of root's capabilities, what it takes to make a container: to mount in the engine's namespace and
 * enter the container's, to give files to the sandbox's ids, and to end what is left of one. The
 * overlay of an image does with them what the container's root does with its files. */
#define CAPABILITY_BIT(c) (1ull << (c))
#define BROKER_CAPABILITIES                                                                        \
    (CAPABILITY_BIT(CAP_CHOWN) | CAPABILITY_BIT(CAP_DAC_OVERRIDE) | CAPABILITY_BIT(CAP_FOWNER) |   \
     CAPABILITY_BIT(CAP_FSETID) | CAPABILITY_BIT(CAP_KILL) | CAPABILITY_BIT(CAP_SYS_CHROOT) |      \
     CAPABILITY_BIT(CAP_SYS_PTRACE) | CAPABILITY_BIT(CAP_SYS_ADMIN))
/* Leaves this process those capabilities at most and those system calls, for good. Ends it where
 * that fails. */
void task_confine(const struct syscall_table *t, uint64_t capabilities);
int task_remove(struct engine *e);
void task_probe(struct engine *e);
