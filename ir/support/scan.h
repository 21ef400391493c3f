/* The tokenizer that the graph and kernel parsers share.
 *
 * Tokens are names (letters, digits, '_'), numbers (digits) and single other characters; blanks
 * and comments from "//" to the end of the line are skipped. One token is looked at at a time.
 * Errors are KL_ERR_VALUE with the line and column of that token and what was expected there. */
#ifndef KL_IR_SUPPORT_SCAN_H
#define KL_IR_SUPPORT_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ir/dtype.h"
#include "ir/support/status.h"

typedef enum kl_token_kind {
  KL_TOKEN_END,
  KL_TOKEN_NAME,
  KL_TOKEN_NUMBER,
  KL_TOKEN_CHAR
} kl_token_kind;

typedef struct kl_scan {
  const char *text; /* the token now looked at, `nbytes` long */
  size_t nbytes;
  kl_token_kind kind;
  uint32_t line, column; /* of the token, from 1 */
  const char *next, *end;
  const char *line_start;
} kl_scan;

void kl_scan_init(kl_scan *scan, const char *text, size_t nbytes); /* `text` stays borrowed */
void kl_scan_next(kl_scan *scan);

bool kl_scan_is(const kl_scan *scan, const char *token);
bool kl_scan_accept(kl_scan *scan, const char *token); /* steps over it when it is there */
kl_status kl_scan_expect(kl_scan *scan, const char *token) KL_MUST_CHECK;
kl_status kl_scan_expect_end(kl_scan *scan) KL_MUST_CHECK;

/* A number of at most `max`; `what` names it in errors. */
kl_status kl_scan_uint(kl_scan *scan, const char *what, uint64_t max,
                       uint64_t *out_value) KL_MUST_CHECK;
/* The same with an optional '-' in front, any 64-bit value. */
kl_status kl_scan_int(kl_scan *scan, const char *what, int64_t *out_value) KL_MUST_CHECK;
/* A name of one letter and a number, such as v12. */
kl_status kl_scan_numbered(kl_scan *scan, char letter, const char *what, uint32_t max,
                           uint32_t *out_number) KL_MUST_CHECK;
bool kl_scan_is_numbered(const kl_scan *scan, char letter);
/* `key` '=' number. */
kl_status kl_scan_setting(kl_scan *scan, const char *key, uint64_t max,
                          uint64_t *out_value) KL_MUST_CHECK;
kl_status kl_scan_dtype(kl_scan *scan, kl_dtype *out_dtype) KL_MUST_CHECK;

/* "line:column: expected `what`, found ..." */
kl_status kl_scan_fail(const kl_scan *scan, const char *what);

#endif
