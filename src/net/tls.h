/* SPDX-License-Identifier: Apache-2.0 */
/* TLS as a pair of byte pipes; the only file of the server that sees OpenSSL's SSL objects is
 * tls.c. (pin.h is no part of the server, and gives them to its callers.) */
#pragma once

#include <stddef.h>
#include <sys/types.h>

struct error;
struct tls_context;
struct tls;

struct tls_context *tls_context_new(const char *cert_pem, const char *key_pem, struct error *err);
void tls_context_free(struct tls_context *ctx);

struct tls *tls_new(struct tls_context *ctx);
void tls_free(struct tls *t);
/* Bytes from the network. */
int tls_feed(struct tls *t, const char *data, size_t len);
/* Decrypted bytes: their number, 0 when more input is needed, -EAGAIN when a record without data
 * was used up and there is more, -ESHUTDOWN after the peer's close, or -EPROTO, which is also for a
 * peer that sends more than TLS_EMPTY_MAX records without data in a row. Any call may leave bytes
 * to send. */
#define TLS_EMPTY_MAX 64
ssize_t tls_read(struct tls *t, char *buf, size_t size);
int tls_write(struct tls *t, const char *data, size_t len);
void tls_shutdown(struct tls *t);
/* Encrypted bytes to send: *ret_data is valid until tls_sent(). */
size_t tls_to_send(struct tls *t, const char **ret_data);
void tls_sent(struct tls *t);
