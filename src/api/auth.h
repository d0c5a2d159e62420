/* Who may ask: the token, and that a web page in somebody's browser cannot. */
#pragma once

struct api_options;
struct error;
struct http_request;

/* Host must name this machine (an IP literal, localhost, or an allowed name), so that a page which
 * rebinds its own name to us is refused; Origin, where sent, must be ours or allowed. */
int auth_check_source(const struct api_options *o, struct http_request *http, struct error *err);
/* Bearer or X-Sandbox-Token, compared in constant time. */
int auth_check_token(const struct api_options *o, struct http_request *http, struct error *err);
