/* The growing buffer of ir/support/text.h: doubling growth, one byte kept for the final NUL. */
#include "ir/support/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ir/support/memory.h"

enum { FIRST_CAPACITY = 256 };

static bool reserve(kl_text *text, size_t more) {
  if (text->failed) return false;
  if (more < text->capacity - text->nbytes) return true;
  size_t wanted = text->capacity ? text->capacity * 2 : FIRST_CAPACITY;
  if (wanted < text->nbytes + more + 1) wanted = text->nbytes + more + 1;
  char *grown = kl_realloc(text->data, wanted);
  if (!grown) {
    text->failed = true;
    return false;
  }
  text->data = grown;
  text->capacity = wanted;
  return true;
}

void kl_text_bytes(kl_text *text, const void *bytes, size_t nbytes) {
  if (!reserve(text, nbytes)) return;
  if (nbytes) memcpy(text->data + text->nbytes, bytes, nbytes);
  text->nbytes += nbytes;
  text->data[text->nbytes] = '\0';
}

void kl_text_add(kl_text *text, const char *format, ...) {
  if (!reserve(text, 0)) return;
  size_t room = text->capacity - text->nbytes;
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int needed = vsnprintf(text->data + text->nbytes, room, format, args);
  va_end(args);
  /* The first attempt says how long the text is; only a text that did not fit is formatted twice.
   */
  if (needed >= 0 && (size_t)needed >= room) {
    text->data[text->nbytes] = '\0';
    if (reserve(text, (size_t)needed))
      vsnprintf(text->data + text->nbytes, (size_t)needed + 1, format, again);
  }
  va_end(again);
  if (needed > 0 && !text->failed) text->nbytes += (size_t)needed;
}

void kl_text_varint(kl_text *text, uint64_t value) {
  unsigned char bytes[10];
  size_t n = 0;
  for (; value >= 0x80; value >>= 7) bytes[n++] = (unsigned char)(value | 0x80);
  bytes[n++] = (unsigned char)value;
  kl_text_bytes(text, bytes, n);
}

kl_status kl_text_status(const kl_text *text) {
  return text->failed ? kl_fail_memory("text", 2 * (unsigned long long)text->capacity) : KL_OK;
}

const char *kl_text_string(const kl_text *text) { return text->nbytes ? text->data : ""; }

void kl_text_finish(kl_text *text) {
  kl_free(text->data);
  *text = (kl_text){0};
}
