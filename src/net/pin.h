/* SPDX-License-Identifier: Apache-2.0 */
/* TLS 1.3 between two processes that know each other by the fingerprints of their keys.
 *
 * Each side has a key of its own and shows it in a certificate that it signed itself. Nothing of
 * the certificate is believed: no name, no time, no issuer. It is accepted exactly where the
 * SHA-256 of its public key (the SubjectPublicKeyInfo) is the one that was expected, and the
 * handshake proves that the other side has the private key. So there is no authority whose key
 * could be lost, and no secret has to be brought to either side. Sessions are never resumed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <openssl/ssl.h>

#define PIN_SIZE      32
#define PIN_TEXT_SIZE 72 /* "sha256:", 64 digits, NUL */
/* The first line that mas-link-tls prints has these words before its fingerprint. */
#define PIN_LINE "mas-link 1 "
/* The one byte that the link sends when it has accepted a connection and the door is open: in TLS
 * 1.3 a client has finished its own part before it hears that its certificate was refused. */
#define PIN_OPEN '+'

/* P-256, from the kernel's random numbers. NULL on failure. */
EVP_PKEY *pin_key_new(void);
bool pin_of_key(EVP_PKEY *key, uint8_t ret[PIN_SIZE]);
/* "sha256:" and 64 lower-case digits, and nothing else. */
bool pin_parse(const char *text, uint8_t ret[PIN_SIZE]);
void pin_format(const uint8_t pin[PIN_SIZE], char ret[PIN_TEXT_SIZE]);

/* For all connections of one key. NULL on failure. */
SSL_CTX *pin_context_new(EVP_PKEY *key, bool server);
/* One connection over a connected socket, which is borrowed, to the peer with that key. expected is
 * borrowed, too, as long as the connection lives. NULL on failure. */
SSL *pin_connection_new(SSL_CTX *ctx, int fd, const uint8_t expected[PIN_SIZE]);
