/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/dns.h"

#include <string.h>
#include <strings.h>

#include "base/address.h"

#define HEAD_SIZE    12
#define LABEL_MAX    63
#define NAME_MAX_LEN 253
#define CLASS_IN     1
#define TYPE_CNAME   5
#define RECORDS_MAX  256 /* more than a datagram has room for */
#define JUMPS_MAX    16  /* within one name */

#define FLAG_ANSWER    0x8000
#define MASK_OPCODE    0x7800
#define FLAG_CUT       0x0200
#define FLAG_RECURSION 0x0100
#define MASK_CODE      0x000f
#define CODE_NO_NAME   3

struct message {
    const uint8_t *data;
    size_t size, at;
    bool bad; /* it ended too early, or a name in it cannot be read */
};

static void put16(uint8_t *at, unsigned value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static unsigned get16(struct message *m)
{
    if (m->bad || m->size - m->at < 2) {
        m->bad = true;
        return 0;
    }
    unsigned value = (unsigned)m->data[m->at] << 8 | m->data[m->at + 1];
    m->at += 2;
    return value;
}

size_t dns_question_format(const char *name, enum dns_type type, uint16_t id,
                           uint8_t ret[DNS_QUESTION_MAX])
{
    size_t at = HEAD_SIZE;
    if (!*name || strlen(name) > NAME_MAX_LEN)
        return 0;
    memset(ret, 0, HEAD_SIZE);
    put16(ret, id);
    put16(ret + 2, FLAG_RECURSION);
    put16(ret + 4, 1);
    for (const char *label = name; *label;) {
        size_t len = strcspn(label, ".");
        if (len == 0 || len > LABEL_MAX)
            return 0;
        ret[at++] = (uint8_t)len;
        memcpy(ret + at, label, len);
        at += len;
        label += len + (label[len] == '.');
    }
    ret[at++] = 0;
    put16(ret + at, type);
    put16(ret + at + 2, CLASS_IN);
    return at + 4;
}

/* Appends a label to a name of *len bytes. A byte that no host name has would make two names look
 * like one. */
static bool add_label(char name[NAME_MAX_LEN + 1], size_t *len, const uint8_t *label, size_t n)
{
    if (*len + (*len > 0) + n > NAME_MAX_LEN)
        return false;
    if (*len)
        name[(*len)++] = '.';
    for (size_t i = 0; i < n; i++) {
        if (label[i] <= ' ' || label[i] > '~' || label[i] == '.')
            return false;
        name[(*len)++] = (char)label[i];
    }
    return true;
}

/* The name at m->at, which moves behind it. A pointer leads back only, so that no name is without
 * an end. */
static void read_name(struct message *m, char ret[NAME_MAX_LEN + 1])
{
    size_t at = m->at, len = 0, end = 0, lowest = m->at;
    for (int jumps = 0; !m->bad;) {
        uint8_t n = at < m->size ? m->data[at] : UINT8_MAX;
        bool is_pointer = n >= 0xc0 && at + 1 < m->size;
        if (is_pointer) {
            size_t to = (size_t)(n & 0x3f) << 8 | m->data[at + 1];
            end = end ? end : at + 2;
            m->bad = to >= lowest || ++jumps > JUMPS_MAX;
            at = lowest = to;
        } else if (n == 0) {
            end = end ? end : at + 1;
            break;
        } else if (n > LABEL_MAX || m->size - at - 1 < n ||
                   !add_label(ret, &len, m->data + at + 1, n)) {
            m->bad = true;
        } else {
            at += (size_t)n + 1;
        }
    }
    ret[len] = 0;
    m->at = m->bad ? m->at : end;
}

struct record {
    char owner[NAME_MAX_LEN + 1];
    unsigned type, class;
    size_t data_at, data_size;
};

static void read_record(struct message *m, struct record *ret)
{
    read_name(m, ret->owner);
    ret->type = get16(m);
    ret->class = get16(m);
    get16(m); /* how long it may be kept, in two halves: nothing is kept here */
    get16(m);
    ret->data_size = get16(m);
    ret->data_at = m->at;
    m->bad = m->bad || m->size - m->at < ret->data_size;
    m->at += m->bad ? 0 : ret->data_size;
}

static void read_address(const struct message *m, const struct record *r, struct address *ret,
                         size_t max, size_t *n)
{
    size_t size = r->type == DNS_A ? 4 : 16;
    struct sockaddr_in sin = {.sin_family = AF_INET};
    struct sockaddr_in6 sin6 = {.sin6_family = AF_INET6};
    if (r->data_size != size || *n == max)
        return;
    memcpy(size == 4 ? (void *)&sin.sin_addr : (void *)&sin6.sin6_addr, m->data + r->data_at, size);
    if (address_from_sockaddr(size == 4 ? (struct sockaddr *)&sin : (struct sockaddr *)&sin6,
                              &ret[*n]) == 0)
        (*n)++;
}

/* Records come in the order in which one name leads to the next. */
static void read_answers(struct message *m, unsigned count, const char *name, enum dns_type type,
                         struct address *ret, size_t max, size_t *n)
{
    char wanted[NAME_MAX_LEN + 1];
    memcpy(wanted, name, strlen(name) + 1);
    for (unsigned i = 0; i < count && !m->bad; i++) {
        struct record r;
        read_record(m, &r);
        if (m->bad || r.class != CLASS_IN || strcasecmp(r.owner, wanted) != 0)
            continue;
        if (r.type == TYPE_CNAME) {
            struct message target = {
                .data = m->data, .size = r.data_at + r.data_size, .at = r.data_at};
            read_name(&target, wanted);
            m->bad = target.bad || target.at != target.size;
        } else if (r.type == type) {
            read_address(m, &r, ret, max, n);
        }
    }
}

static bool is_answer_to(struct message *m, const char *name, enum dns_type type, uint16_t id,
                         unsigned *ret_flags, unsigned *ret_count)
{
    char asked[NAME_MAX_LEN + 1];
    bool same_id = get16(m) == id;
    *ret_flags = get16(m);
    unsigned questions = get16(m);
    *ret_count = get16(m);
    get16(m); /* of authorities and of what else there is, no record is read */
    get16(m);
    if (m->bad || !same_id || !(*ret_flags & FLAG_ANSWER) || *ret_flags & MASK_OPCODE ||
        questions != 1)
        return false;
    read_name(m, asked);
    unsigned asked_type = get16(m), class = get16(m);
    return !m->bad && asked_type == type && class == CLASS_IN && strcasecmp(asked, name) == 0;
}

enum dns_answer dns_answer_parse(const uint8_t *data, size_t size, const char *name,
                                 enum dns_type type, uint16_t id, struct address *ret, size_t max,
                                 size_t *n)
{
    struct message m = {.data = data, .size = size};
    unsigned flags, count;
    size_t before = *n;
    if (strlen(name) > NAME_MAX_LEN || !is_answer_to(&m, name, type, id, &flags, &count))
        return DNS_STRANGE;
    if ((flags & MASK_CODE) == CODE_NO_NAME)
        return DNS_NO_NAME;
    if (flags & (MASK_CODE | FLAG_CUT) || count > RECORDS_MAX)
        return DNS_UNCLEAR;
    read_answers(&m, count, name, type, ret, max, n);
    if (!m.bad)
        return DNS_ADDRESSES;
    *n = before;
    return DNS_UNCLEAR;
}
