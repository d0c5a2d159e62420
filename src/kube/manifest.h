/* SPDX-License-Identifier: Apache-2.0 */
/* The objects of one sandbox, as JSON for the API server, made of an order that was checked against
 * the ceiling. They are made in the order of enum kube_object: the account before the pod, because
 * a new namespace's own one comes late, and the policy before it, so that no packet leaves first.
 * In a namespace that all sandboxes share (kube/layout.h) there are a policy and a pod: the account
 * is there already, and claims are a part of the pod, whose volumes end with it.
 *
 * The pod has three containers, or four. `install` copies the static runner into an emptyDir and
 * ends, so that any image works. `link`, a sidecar with a user id of its own that never runs a
 * tool, is the only way in. Where it is ordered, `stream`, a second one, brings the output of
 * commands to the control plane, from a directory that `sandbox` does not have. `sandbox` has the
 * caller's image, and the runner as its first process. All of it is within the restricted profile
 * of Pod Security. */
#pragma once

#include <jansson.h>

struct kube_ceiling;
struct kube_order;
struct strbuf;

#define KUBE_POD_NAME       "sandbox"
#define KUBE_LINK_CONTAINER "link"

/* What the link takes of a node besides the sandbox. */
#define KUBE_LINK_MILLICORES         100
#define KUBE_LINK_REQUEST_MILLICORES 10
#define KUBE_LINK_MEMORY_MIB         32

/* What a pod says of its sandbox, besides labels. */
#define KUBE_ANNOTATION_GENERATION "mas-sandbox/generation"
#define KUBE_ANNOTATION_HOME       "mas-sandbox/home" /* of the namespace, too */
#define KUBE_ANNOTATION_OWNER      "mas-sandbox/owner"
#define KUBE_ANNOTATION_SPEC       "mas-sandbox/spec"
/* "true" only while no caller has it. */
#define KUBE_ANNOTATION_EVICT "cluster-autoscaler.kubernetes.io/safe-to-evict"
/* Labels of both. */
#define KUBE_LABEL_STATE     "sbx.state"
#define KUBE_LABEL_ALLOCATED "sbx.allocated"
/* Of a pod in a namespace that is shared: which of the policies there is its own. */
#define KUBE_LABEL_NET "mas-sandbox/net"
/* Of its namespace, or of a pod that has none of its own, in seconds since 1970. */
#define KUBE_ANNOTATION_LAST_EXEC "sbx.last_exec_at"

enum kube_object {
    KUBE_OBJECT_NAMESPACE,
    KUBE_OBJECT_ACCOUNT,
    KUBE_OBJECT_POLICY,
    KUBE_OBJECT_WORKSPACE, /* a claim; NULL where the order asks for none */
    KUBE_OBJECT_CACHE,
    KUBE_OBJECT_POD,
    _KUBE_OBJECT_MAX,
};

/* A new reference, or NULL where the sandbox has no such object. */
json_t *kube_manifest(enum kube_object object, const struct kube_ceiling *c,
                      const struct kube_order *o);
/* Where it is posted to, without a query. */
void kube_manifest_collection(enum kube_object object, const struct kube_ceiling *c,
                              const struct kube_order *o, struct strbuf *ret);
/* Its name in there. */
const char *kube_manifest_name(enum kube_object object, const struct kube_ceiling *c,
                               const struct kube_order *o, char *buffer, unsigned size);
/* Whether an object that is there already is this sandbox's: of our instance and of this id. */
bool kube_manifest_is_ours(const json_t *object, const struct kube_ceiling *c,
                           const struct kube_order *o);
bool kube_manifest_is_ours_by_id(const json_t *object, const struct kube_ceiling *c,
                                 const char *id);
/* Whether a namespace or a pod is of the home that the ceiling names; one without any is not. */
bool kube_manifest_is_of_home(const json_t *object, const struct kube_ceiling *c);
/* Whether it was made of this very order, perhaps by an earlier broker, and not of another create
 * with the same id: what that one's callers did in it would be found there. */
bool kube_manifest_is_of_order(const json_t *object, const struct kube_order *o);
/* Whether this is the policy of all sandboxes that have the order's rules, in a namespace that they
 * share: it has no order of its own, and is there or is made when the first of them comes. */
bool kube_manifest_is_common(enum kube_object object, const struct kube_ceiling *c,
                             const struct kube_order *o);
/* Whether such a policy that is there already is of our instance and says the same. */
bool kube_manifest_is_same_policy(const json_t *object, const struct kube_ceiling *c,
                                  const struct kube_order *o);
/* Whether a policy is such a one, of our instance and of the ceiling's home; and, of its name, what
 * its pods have for KUBE_LABEL_NET. */
bool kube_manifest_is_common_policy(const json_t *policy, const struct kube_ceiling *c);
const char *kube_manifest_policy_sum(const char *name);
/* The selector of all objects of our instance. */
#define KUBE_SELECTOR_SIZE 200
void kube_manifest_selector(const struct kube_ceiling *c, char out[KUBE_SELECTOR_SIZE]);
