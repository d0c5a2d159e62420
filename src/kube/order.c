/* SPDX-License-Identifier: Apache-2.0 */
/* Orders (proto/kube.h), looked at for what they can be; the ceiling is about what they may be. */
#include "proto/kube.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"

#define OP(op)     (1u << KUBE_##op)
#define EVERY_OP   (~0u)
#define NAMES_ONE  (~(OP(PROBE) | OP(LIST) | OP(HOLD)))
#define OF(member) offsetof(struct kube_order, member), sizeof(((struct kube_order *)0)->member)

static_assert(_KUBE_OP_MAX <= 32, "a bit for every operation");
/* Orders are compared and summed up as bytes, so that no byte may be without a value. */
static_assert(offsetof(struct kube_order, ranges) ==
                  offsetof(struct kube_order, spec) + KUBE_SPEC_SIZE,
              "nothing between its members");
static_assert(sizeof(struct kube_order) ==
                  offsetof(struct kube_order, ranges) + sizeof(struct net_range) * NET_RANGES_MAX,
              "nothing behind them");

/* Which operations use a member. In an order of any other one it is zero, and so is what no row
 * names: a member that the checks of an operation do not look at cannot reach the cluster by it. */
static const struct {
    size_t offset, size;
    uint32_t ops;
} uses[] = {
    {OF(version), EVERY_OP},
    {OF(op), EVERY_OP},
    {OF(tag), EVERY_OP},
    {OF(epoch), EVERY_OP},
    {OF(id), NAMES_ONE},
    {OF(home), OP(CREATE) | OP(TAKE) | OP(PROVE) | OP(HOLD)},
    {OF(nonce), OP(CREATE) | OP(PROVE)},
    {OF(generation), OP(CREATE) | OP(MARK) | OP(CLAIM) | OP(DELETE)},
    {OF(uid), OP(DELETE)},
    {OF(owner), OP(CREATE) | OP(MARK) | OP(CLAIM)},
    {OF(spec), OP(CREATE) | OP(MARK) | OP(CLAIM)},
    {OF(last_exec_s), OP(CREATE) | OP(MARK)},
    {OF(state), OP(MARK)},
    {OF(flags), OP(CREATE)},
    {OF(cpu_millicores), OP(CREATE)},
    {OF(cpu_request_millicores), OP(CREATE)},
    {OF(memory_bytes), OP(CREATE)},
    {OF(memory_request_bytes), OP(CREATE)},
    {OF(tmp_bytes), OP(CREATE)},
    {OF(home_bytes), OP(CREATE)},
    {OF(slot), OP(CREATE)},
    {OF(processes), OP(CREATE)},
    {OF(workspace), OP(CREATE)},
    {OF(cache), OP(CREATE)},
    {OF(image), OP(CREATE)},
    {OF(runtime_class), OP(CREATE)},
    {OF(spec_hash), OP(CREATE)},
    {OF(stream_token), OP(CREATE)},
    {OF(n_ranges), OP(CREATE)},
    {OF(ranges), OP(CREATE)},
};

static bool has_only_what_it_uses(const struct kube_order *o)
{
    static struct kube_order rest; /* too large for a stack, and used up at once */
    static const struct kube_order none;
    rest = *o;
    for (size_t i = 0; i < ELEMENTS(uses); i++)
        if (uses[i].ops & 1u << o->op)
            memset((char *)&rest + uses[i].offset, 0, uses[i].size);
    return memcmp(&rest, &none, sizeof(rest)) == 0;
}

static bool is_lower_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool kube_label_is_valid(const char *text, unsigned max)
{
    size_t n = strnlen(text, max + 1);
    if (n == 0 || n > max || !is_lower_or_digit(text[0]) || !is_lower_or_digit(text[n - 1]))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!is_lower_or_digit(text[i]) && text[i] != '-')
            return false;
    return true;
}

/* A name of several labels: classes have such. */
static bool is_name(const char *text, size_t size)
{
    size_t n = strnlen(text, size);
    for (size_t i = 0; i < n; i++)
        if (!is_lower_or_digit(text[i]) && text[i] != '-' && text[i] != '.')
            return false;
    return n < size && (n == 0 || (is_lower_or_digit(text[0]) && is_lower_or_digit(text[n - 1])));
}

/* What a label's value may be. */
static bool is_label_value(const char *text, size_t size)
{
    size_t n = strnlen(text, size);
    if (n >= size)
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        bool word = is_lower_or_digit(c) || (c >= 'A' && c <= 'Z');
        if (!word && (i == 0 || i == n - 1 || (c != '-' && c != '_' && c != '.')))
            return false;
    }
    return true;
}

/* A reference of an image: printable, no spaces, no option. */
static bool is_image(const char *text)
{
    size_t n = strnlen(text, KUBE_IMAGE_SIZE);
    if (n == 0 || n >= KUBE_IMAGE_SIZE || !is_lower_or_digit(text[0]))
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (!is_lower_or_digit(c) && !(c >= 'A' && c <= 'Z') && !strchr("._-/:@", c))
            return false;
    }
    return true;
}

static bool is_volume(const struct kube_volume_order *v)
{
    return v->volume < _KUBE_VOLUME_MAX && v->access < _KUBE_ACCESS_MODE_MAX &&
           v->bytes <= KUBE_QUANTITY_MAX && is_name(v->storage_class, sizeof(v->storage_class)) &&
           (v->volume == KUBE_VOLUME_CLAIM || !v->storage_class[0]);
}

/* It stands in a URL as it is. */
static bool has_valid_token(const struct kube_order *o)
{
    size_t n = strnlen(o->stream_token, KUBE_TOKEN_SIZE);
    for (size_t i = 0; i < n; i++)
        if (!is_lower_or_digit(o->stream_token[i]))
            return false;
    return n == (o->flags & KUBE_STREAM ? KUBE_TOKEN_SIZE - 1 : 0);
}

static bool has_valid_create(const struct kube_order *o)
{
    if (!is_image(o->image) || !is_volume(&o->workspace) || !is_volume(&o->cache) ||
        o->workspace.volume == KUBE_VOLUME_HOST || o->generation == 0 ||
        o->generation >= KUBE_GENERATIONS || !has_valid_token(o))
        return false;
    if (o->memory_bytes == 0 || o->memory_bytes > KUBE_QUANTITY_MAX || o->cpu_millicores == 0 ||
        o->memory_request_bytes > o->memory_bytes || o->cpu_request_millicores > o->cpu_millicores)
        return false;
    if (o->tmp_bytes == 0 || o->tmp_bytes > KUBE_QUANTITY_MAX || o->home_bytes == 0 ||
        o->home_bytes > KUBE_QUANTITY_MAX || o->workspace.bytes == 0 || o->cache.bytes == 0)
        return false;
    for (uint32_t i = 0; i < o->n_ranges; i++)
        if (!net_range_is_valid(&o->ranges[i]) || o->ranges[i].deny)
            return false;
    return true;
}

bool kube_order_is_valid(const struct kube_order *o)
{
    if (o->version != KUBE_VERSION || o->op == 0 || o->op >= _KUBE_OP_MAX ||
        o->flags & ~(uint32_t)(_KUBE_FLAGS_END - 1) || o->n_ranges > NET_RANGES_MAX ||
        o->state >= _KUBE_STATE_MAX || !has_only_what_it_uses(o))
        return false;
    if (!is_name(o->runtime_class, sizeof(o->runtime_class)) ||
        !is_label_value(o->owner, sizeof(o->owner)) || !is_label_value(o->home, sizeof(o->home)) ||
        !is_label_value(o->spec_hash, sizeof(o->spec_hash)) ||
        !is_label_value(o->uid, sizeof(o->uid)) ||
        strnlen(o->spec, sizeof(o->spec)) == sizeof(o->spec))
        return false;
    if (o->op == KUBE_HOLD)
        return !o->home[0] || kube_label_is_valid(o->home, KUBE_NAME_SIZE - 1);
    bool names_one = NAMES_ONE & 1u << o->op;
    unsigned suffix = o->op == KUBE_PROVE ? sizeof(KUBE_CALLER_SUFFIX) - 1 : 0;
    if (names_one && !kube_label_is_valid(o->id, KUBE_ID_SIZE - 1 - suffix))
        return false;
    if (o->op == KUBE_CLAIM && (!o->spec[0] || !o->generation))
        return false;
    return o->op != KUBE_CREATE || has_valid_create(o);
}
