/* SPDX-License-Identifier: Apache-2.0 */
/* What the control plane and the image keeper say to each other: one JSON object a record, over a
 * SOCK_SEQPACKET pair, both ways.
 *
 * A request has "id" and "op". Its answer is any number of {"id","progress":{}} and, for a list,
 * {"id","item":{}}, then exactly one of {"id","done":{}} and {"id","error":{"code","message"}}.
 *
 *   list                                    an item an image
 *   find     image                          of the store only
 *   pull     image, policy, name            of the store, a registry or an allowed host path
 *   import   name, format, bytes            with a descriptor to read the tar from; then `end`;
 *                                           bytes: how many come, or 0 where that is not known
 *   end      (id of the import) bytes       the whole tar has been written, and that many bytes
 *   remove   image                          a name, or an image with all its names
 *   touch    digest                         no answer: it is used now
 *   cancel   (id of a call)                 no answer: the caller does not wait any more
 *   evict    (id of a call) keep            answers {"id","full":{}}: what is in use
 *
 * A keeper that cannot store an image without removing others says {"id","full":{}} and waits for
 * `evict`. The warden sends KEEPER_GONE in the keeper's name when the keeper has died: all calls
 * that were open are lost. One that cannot work on this host says so itself before it ends:
 * {"gone":true,"code","message"}. */
#pragma once

#define KEEPER_RECORD_MAX (128 * 1024)
#define KEEPER_GONE       "{\"gone\":true}"
#define KEEPER_IMAGE_MAX  1024 /* bytes of a reference, name or path */
#define KEEPER_DIGEST_LEN 64
#define KEEPER_UPLOAD     "upload"  /* where an image came from that a caller sent */
#define KEEPER_DEFAULT    "default" /* the name of the image that comes with the daemon */
