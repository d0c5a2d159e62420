/* SPDX-License-Identifier: Apache-2.0 */
#include "warden/kind.h"

const struct cell_ops *const cell_kinds[_CELL_KIND_MAX] = {
    [CELL_LOCAL] = &cell_local,   [CELL_PLAIN] = &cell_plain,   [CELL_OCI] = &cell_oci,
    [CELL_FENCED] = &cell_fenced, [CELL_ENGINE] = &cell_engine, [CELL_VM] = &cell_vm,
};

enum cell_kind cell_kind_of(const struct plan *p)
{
    int rest = 0;
    for (int i = 0; i < _CELL_KIND_MAX; i++) {
        if (!cell_kinds[i]->takes)
            rest = i;
        else if (cell_kinds[i]->takes(p))
            return (enum cell_kind)i;
    }
    return (enum cell_kind)rest;
}
