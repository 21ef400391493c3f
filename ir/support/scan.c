/* The tokenizer of ir/support/scan.h. It never reads past the given bytes, which need no NUL. */
#include "ir/support/scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

static void skip_blanks(kl_scan *scan) {
  for (; scan->next < scan->end; scan->next++) {
    char c = *scan->next;
    if (c == '\n') {
      scan->line++;
      scan->line_start = scan->next + 1;
    } else if (c == '/' && scan->end - scan->next > 1 && scan->next[1] == '/') {
      const char *stop = memchr(scan->next, '\n', (size_t)(scan->end - scan->next));
      scan->next = (stop ? stop : scan->end) - 1;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      return;
    }
  }
}

void kl_scan_next(kl_scan *scan) {
  skip_blanks(scan);
  const char *start = scan->next, *stop = start;
  if (start == scan->end) {
    scan->kind = KL_TOKEN_END;
  } else if (is_digit(*start)) {
    scan->kind = KL_TOKEN_NUMBER;
    while (stop < scan->end && is_digit(*stop)) stop++;
  } else if (is_name(*start)) {
    scan->kind = KL_TOKEN_NAME;
    while (stop < scan->end && is_name(*stop)) stop++;
  } else {
    scan->kind = KL_TOKEN_CHAR;
    stop++;
  }
  scan->text = start;
  scan->nbytes = (size_t)(stop - start);
  scan->column = (uint32_t)(start - scan->line_start) + 1;
  scan->next = stop;
}

void kl_scan_init(kl_scan *scan, const char *text, size_t nbytes) {
  *scan = (kl_scan){.next = text, .end = text + nbytes, .line = 1, .line_start = text};
  kl_scan_next(scan);
}

kl_status kl_scan_fail(const kl_scan *scan, const char *what) {
  if (scan->kind == KL_TOKEN_END)
    return kl_fail(KL_ERR_VALUE, "%" PRIu32 ":%" PRIu32 ": expected %s, found the end of the text",
                   scan->line, scan->column, what);
  char found[32];
  size_t n = scan->nbytes < sizeof found - 1 ? scan->nbytes : sizeof found - 1;
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)scan->text[i];
    found[i] = c >= 0x20 && c < 0x7f ? (char)c : '?';
  }
  found[n] = '\0';
  return kl_fail(KL_ERR_VALUE, "%" PRIu32 ":%" PRIu32 ": expected %s, found '%s'", scan->line,
                 scan->column, what, found);
}

bool kl_scan_is(const kl_scan *scan, const char *token) {
  return scan->kind != KL_TOKEN_END && strlen(token) == scan->nbytes &&
         memcmp(token, scan->text, scan->nbytes) == 0;
}

bool kl_scan_accept(kl_scan *scan, const char *token) {
  if (!kl_scan_is(scan, token)) return false;
  kl_scan_next(scan);
  return true;
}

kl_status kl_scan_expect(kl_scan *scan, const char *token) {
  if (kl_scan_accept(scan, token)) return KL_OK;
  char what[64];
  snprintf(what, sizeof what, "'%s'", token);
  return kl_scan_fail(scan, what);
}

kl_status kl_scan_expect_end(kl_scan *scan) {
  return scan->kind == KL_TOKEN_END ? KL_OK : kl_scan_fail(scan, "the end of the text");
}

/* Digits to a number; false for anything else, and past `max`. */
static bool read_digits(const char *digits, size_t n, uint64_t max, uint64_t *out_value) {
  uint64_t value = 0;
  if (n == 0) return false;
  for (size_t i = 0; i < n; i++) {
    if (!is_digit(digits[i])) return false;
    unsigned digit = (unsigned)(digits[i] - '0');
    if (digit > max || value > (max - digit) / 10) return false;
    value = value * 10 + digit;
  }
  *out_value = value;
  return true;
}

static kl_status fail_number(const kl_scan *scan, const char *what, uint64_t max) {
  char text[96];
  snprintf(text, sizeof text, "%s (a number up to %" PRIu64 ")", what, max);
  return kl_scan_fail(scan, text);
}

kl_status kl_scan_uint(kl_scan *scan, const char *what, uint64_t max, uint64_t *out_value) {
  if (scan->kind != KL_TOKEN_NUMBER || !read_digits(scan->text, scan->nbytes, max, out_value))
    return fail_number(scan, what, max);
  kl_scan_next(scan);
  return KL_OK;
}

kl_status kl_scan_int(kl_scan *scan, const char *what, int64_t *out_value) {
  bool negative = kl_scan_accept(scan, "-");
  uint64_t magnitude;
  KL_TRY(kl_scan_uint(scan, what, (uint64_t)INT64_MAX + negative, &magnitude));
  *out_value = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
  return KL_OK;
}

bool kl_scan_is_numbered(const kl_scan *scan, char letter) {
  return scan->kind == KL_TOKEN_NAME && scan->nbytes > 1 && scan->text[0] == letter &&
         is_digit(scan->text[1]);
}

kl_status kl_scan_numbered(kl_scan *scan, char letter, const char *what, uint32_t max,
                           uint32_t *out_number) {
  uint64_t number;
  if (!kl_scan_is_numbered(scan, letter) ||
      !read_digits(scan->text + 1, scan->nbytes - 1, max, &number)) {
    char text[96];
    snprintf(text, sizeof text, "%s (%c0 to %c%" PRIu32 ")", what, letter, letter, max);
    return kl_scan_fail(scan, text);
  }
  kl_scan_next(scan);
  *out_number = (uint32_t)number;
  return KL_OK;
}

kl_status kl_scan_setting(kl_scan *scan, const char *key, uint64_t max, uint64_t *out_value) {
  KL_TRY(kl_scan_expect(scan, key));
  KL_TRY(kl_scan_expect(scan, "="));
  return kl_scan_uint(scan, key, max, out_value);
}

kl_status kl_scan_dtype(kl_scan *scan, kl_dtype *out_dtype) {
  if (scan->kind != KL_TOKEN_NAME || !kl_dtype_from_name(scan->text, scan->nbytes, out_dtype))
    return kl_scan_fail(scan, "a dtype");
  kl_scan_next(scan);
  return KL_OK;
}
