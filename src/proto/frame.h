/* SPDX-License-Identifier: Apache-2.0 */
/* The runner protocol: frames over one byte stream per sandbox, whatever carries it.
 *
 * Each side first sends FRAME_PREFACE. Its first byte is not '{', which is how the guest's port
 * tells this protocol from one-JSON-line requests. Then frames: a 12-byte header and a payload of
 * at most FRAME_PAYLOAD_MAX bytes, integers little-endian. A frame with FRAME_MORE is continued by
 * the next frame of the same type and stream (only MSG_SPAWN may be; at most PROTO_SPAWN_MAX bytes
 * together).
 *
 * Stream ids: odd ones are chosen by the control plane (execs, connections to a port inside), even
 * ones by the runner (openings from the inside). An id is never reused in a sandbox's life.
 *
 * Flow control and loss: every byte of a stream has an offset. A sender keeps bytes until they are
 * acknowledged and has at most the window unacknowledged. The control plane acknowledges output
 * only once it is in the journal. A connection belongs to one control-plane generation, which may
 * make several, one after the other. A new one starts with HELLO: where that is not older than the
 * one before, the runner drops the old connection, answers HELLO_OK and one STATE per exec it still
 * remembers; ACKs from the control plane then say from which offset to send again.
 *
 * Neither side trusts the other: anything malformed is -EPROTO and ends the connection. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct strbuf;

#define FRAME_PREFACE      "\001MASRUN1"
#define FRAME_PREFACE_SIZE 8
#define FRAME_HEADER_SIZE  12
#define FRAME_PAYLOAD_MAX  65536
#define PROTO_VERSION      1
#define PROTO_SPAWN_MAX    (4 * 1024 * 1024)
#define PROTO_WINDOW       (512 * 1024) /* unacknowledged bytes per stream and direction */
#define PROTO_TAG_MAX      16384        /* bytes of an exec's tag, its NUL included */
#define PROTO_EXECS_MAX    1024         /* execs a runner remembers at once */

enum frame_flags { FRAME_MORE = 1 };

enum msg_type {
    /* control plane → runner */
    MSG_HELLO = 1,
    MSG_SPAWN,
    MSG_STDIN,
    MSG_STDIN_CLOSE,
    MSG_SIGNAL,
    MSG_RESIZE,
    MSG_ACK,
    MSG_FORGET,
    MSG_OPEN_RESULT,
    MSG_CONNECT,
    /* either way, on a stream opened from the inside or by CONNECT */
    MSG_DATA = 32,
    MSG_DATA_ACK,
    MSG_CLOSE,
    MSG_DATA_END, /* of CONNECT's streams: the sender has no more, the other way stays open */
    /* runner → control plane */
    MSG_HELLO_OK = 64,
    MSG_STATE,
    MSG_STARTED,
    MSG_SPAWN_FAILED,
    MSG_OUTPUT,
    MSG_EXIT,
    MSG_STDIN_ACK,
    MSG_OPEN,
    MSG_GOODBYE, /* the runner ends the connection; the payload is a text that says why */
    /* A command has ended but its output is held back by the window: a peer that does not
     * acknowledge to make it wait has no reason left. */
    MSG_DRAINING,
    MSG_CONNECTED,
};

struct frame {
    uint8_t type;
    uint8_t flags;
    uint32_t stream;
    const uint8_t *payload;
    uint32_t length;
};

/* Takes one frame from the start of data. Returns its whole size, 0 when more bytes are needed, or
 * -EPROTO. frame->payload points into data. */
int frame_parse(const uint8_t *data, size_t len, struct frame *ret);
/* The header alone, for a payload that follows from elsewhere. */
void frame_header(uint8_t out[FRAME_HEADER_SIZE], uint8_t type, uint32_t stream, size_t len);
/* Appends header and payload; a payload over FRAME_PAYLOAD_MAX is split with FRAME_MORE. */
int frame_append(struct strbuf *out, uint8_t type, uint32_t stream, const void *payload,
                 size_t len);
