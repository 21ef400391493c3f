/* A growing buffer of text (or bytes), for printers and keys.
 *
 * A failed allocation is remembered and further additions do nothing, so that a printer reads as
 * a list of additions with one kl_text_status at its end. A zeroed kl_text is ready for use. */
#ifndef KL_IR_SUPPORT_TEXT_H
#define KL_IR_SUPPORT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ir/support/status.h"

typedef struct kl_text {
  char *data; /* NUL-terminated after the first addition */
  size_t nbytes, capacity;
  bool failed;
} kl_text;

void kl_text_add(kl_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void kl_text_bytes(kl_text *text, const void *bytes, size_t nbytes);
/* Seven bits a byte, the lowest first: small numbers take one byte. */
void kl_text_varint(kl_text *text, uint64_t value);

kl_status kl_text_status(const kl_text *text) KL_MUST_CHECK; /* OK unless an addition failed */
const char *kl_text_string(const kl_text *text); /* "" while nothing was added; borrowed */
void kl_text_finish(kl_text *text);

#endif
