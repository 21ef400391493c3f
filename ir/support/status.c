/* The thread's last error: a code and a fixed buffer, so that reporting never allocates. */
#include "ir/support/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local struct {
  kl_status code;
  char message[KL_ERROR_CAPACITY];
} last_error;

kl_status kl_fail(kl_status code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  /* The arguments may point into the message itself, so it is formatted aside first. */
  char message[KL_ERROR_CAPACITY];
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  memcpy(last_error.message, message, strlen(message) + 1);
  last_error.code = code;
  return code;
}

kl_status kl_fail_memory(const char *what, unsigned long long nbytes) {
  return kl_fail(KL_ERR_OUT_OF_MEMORY, "%s: out of memory: %llu bytes could not be allocated", what,
                 nbytes);
}

void kl_error_prefix(const char *prefix) {
  char message[KL_ERROR_CAPACITY];
  snprintf(message, sizeof message, "%s%s", prefix, last_error.message);
  memcpy(last_error.message, message, strlen(message) + 1);
}

kl_status kl_error_code(void) { return last_error.code; }

const char *kl_error_message(void) { return last_error.message; }

const char *kl_status_name(kl_status code) {
  switch (code) {
    case KL_OK: return "ok";
    case KL_ERR_RUNTIME: return "runtime error";
    case KL_ERR_INDEX: return "index error";
    case KL_ERR_TYPE: return "type error";
    case KL_ERR_VALUE: return "value error";
    case KL_ERR_NOT_IMPLEMENTED: return "not implemented";
    case KL_ERR_OUT_OF_MEMORY: return "out of memory";
    case KL_ERR_COMPILER: return "compiler error";
    case KL_ERR_IO: return "input/output error";
    case KL_ERR_DEVICE: return "device error";
    case KL_ERR_INTERNAL: return "internal error";
  }
  return "unknown error";
}

void kl_error_save(kl_error *out_error) {
  out_error->code = last_error.code;
  memcpy(out_error->message, last_error.message, strlen(last_error.message) + 1);
}

void kl_error_restore(const kl_error *error) {
  last_error.code = error->code;
  memcpy(last_error.message, error->message, strlen(error->message) + 1);
}

void kl_error_clear(void) {
  last_error.code = KL_OK;
  last_error.message[0] = '\0';
}
