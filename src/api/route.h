/* SPDX-License-Identifier: Apache-2.0 */
/* From a request's method and path to a row of the table of routes. */
#pragma once

#include <stddef.h>

#include "api/request.h"

#define ROUTE_METHODS_SIZE 64

/* Sets req->route, or leaves it NULL; params are borrowed parts of the path, still escaped where
 * http_request_path() says so. ret_methods is a set of 1 << enum http_method: what else the path
 * has. */
void route_find(struct api_request *req, const char *params[API_PARAMS_MAX],
                size_t lengths[API_PARAMS_MAX], unsigned *ret_methods);
/* Stands for a route where there is none; its style is that of the contract the path looks like. */
const struct route *route_find_none(const char *path);
unsigned route_all_methods(void); /* of every path together, and OPTIONS: for "OPTIONS *" */
/* "GET, HEAD, POST" of such a set. */
const char *route_format_methods(unsigned methods, char out[ROUTE_METHODS_SIZE]);
