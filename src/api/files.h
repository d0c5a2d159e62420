/* SPDX-License-Identifier: Apache-2.0 */
/* What the operations on a sandbox's files share (files.c, download.c). */
#pragma once

#include "tool/file-op.h"
#include "tool/run.h"

struct api_request;

struct run_request file_request(struct api_request *req, struct sandbox *sb,
                                const struct file_op *op);
/* The path a query names, or NULL after answering 400. */
const char *file_query_path(struct api_request *req);
