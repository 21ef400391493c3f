/* ir/support: arena, vec, status, text, scan, and the allocation that a test makes fail. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "ir/support/arena.h"
#include "ir/support/memory.h"
#include "ir/support/scan.h"
#include "ir/support/status.h"
#include "ir/support/text.h"
#include "ir/support/vec.h"
#include "tests/support/runner.h"

START_TEST(arena_records_are_zeroed_aligned_and_apart) {
  kl_arena arena = {0};
  char *previous = NULL;
  for (size_t n = 1; n < 3000; n += 7) {
    char *record = kl_arena_alloc(&arena, n);
    ck_assert_ptr_nonnull(record);
    ck_assert_uint_eq((uintptr_t)record % 8, 0);
    for (size_t i = 0; i < n; i++) ck_assert_int_eq(record[i], 0);
    memset(record, 0x5a, n);
    if (previous) ck_assert_int_eq(*previous, 0x5a);
    previous = record;
  }
  kl_arena_finish(&arena);
  ck_assert_ptr_null(arena.blocks);
}
END_TEST

START_TEST(arena_takes_records_larger_than_a_block) {
  kl_arena arena = {0};
  char *large = kl_arena_alloc(&arena, 5 << 20);
  ck_assert_ptr_nonnull(large);
  large[(5 << 20) - 1] = 1;
  ck_assert_ptr_nonnull(kl_arena_alloc(&arena, 8));
  kl_arena_finish(&arena);
}
END_TEST

START_TEST(arena_reset_keeps_memory_for_the_next_round) {
  kl_arena arena = {0};
  for (int i = 0; i < 1000; i++) ck_assert_ptr_nonnull(kl_arena_alloc(&arena, 64));
  kl_arena_reset(&arena);
  ck_assert_ptr_nonnull(arena.blocks);
  kl_memory_fail_nth(1);
  char *record = kl_arena_alloc(&arena, 64);
  kl_memory_fail_nth(0);
  ck_assert_ptr_nonnull(record);
  for (int i = 0; i < 64; i++) ck_assert_int_eq(record[i], 0);
  kl_arena_finish(&arena);
}
END_TEST

START_TEST(arena_without_memory_gives_null) {
  kl_arena arena = {0};
  kl_memory_fail_nth(1);
  ck_assert_ptr_null(kl_arena_alloc(&arena, 8));
  kl_memory_fail_nth(0);
  ck_assert_ptr_nonnull(kl_arena_alloc(&arena, 8));
  kl_arena_finish(&arena);
}
END_TEST

START_TEST(vec_keeps_what_was_pushed) {
  KL_VEC(int) numbers = {0};
  for (int i = 0; i < 1000; i++) ck_assert(kl_vec_push(&numbers, i * i));
  ck_assert_uint_eq(numbers.count, 1000);
  for (int i = 0; i < 1000; i++) ck_assert_int_eq(numbers.data[i], i * i);
  kl_vec_finish(&numbers);
  ck_assert(!numbers.data && !numbers.count && !numbers.capacity);
}
END_TEST

START_TEST(vec_is_unchanged_when_it_cannot_grow) {
  KL_VEC(int) numbers = {0};
  while (numbers.count < 8) ck_assert(kl_vec_push(&numbers, 7));
  kl_memory_fail_nth(1);
  bool pushed = kl_vec_push(&numbers, 9);
  kl_memory_fail_nth(0);
  ck_assert(!pushed);
  ck_assert_uint_eq(numbers.count, 8);
  ck_assert_int_eq(numbers.data[7], 7);
  ck_assert(!kl_vec_reserve(&numbers, UINT32_MAX));
  kl_vec_finish(&numbers);
}
END_TEST

START_TEST(only_the_chosen_allocation_fails) {
  kl_memory_fail_nth(3);
  for (int i = 1; i <= 5; i++) {
    void *memory = kl_malloc(8);
    ck_assert_msg((memory == NULL) == (i == 3), "allocation %d", i);
    kl_free(memory);
  }
  kl_memory_fail_nth(0);
  void *memory = kl_malloc(0);
  ck_assert_ptr_nonnull(memory);
  kl_free(memory);
}
END_TEST

START_TEST(status_keeps_code_and_message_until_cleared) {
  ck_assert_int_eq(kl_fail(KL_ERR_INDEX, "dim %d of %s", 3, "x"), KL_ERR_INDEX);
  ck_assert_int_eq(kl_error_code(), KL_ERR_INDEX);
  ck_assert_str_eq(kl_error_message(), "dim 3 of x");
  kl_error_prefix("select: ");
  ck_assert_str_eq(kl_error_message(), "select: dim 3 of x");
  ck_assert_int_eq(kl_error_code(), KL_ERR_INDEX);
  kl_error_clear();
  ck_assert_int_eq(kl_error_code(), KL_OK);
  ck_assert_str_eq(kl_error_message(), "");
}
END_TEST

START_TEST(status_message_may_quote_itself_and_is_cut) {
  (void)kl_fail(KL_ERR_VALUE, "inner");
  (void)kl_fail(KL_ERR_VALUE, "outer: %s", kl_error_message());
  ck_assert_str_eq(kl_error_message(), "outer: inner");
  (void)kl_fail(KL_ERR_VALUE, "%*s", 3 * KL_ERROR_CAPACITY, "x");
  ck_assert_uint_eq(strlen(kl_error_message()), KL_ERROR_CAPACITY - 1);
}
END_TEST

START_TEST(every_status_has_a_name) {
  for (int code = KL_OK; code <= KL_ERR_INTERNAL; code++)
    ck_assert_str_ne(kl_status_name((kl_status)code), "unknown error");
}
END_TEST

START_TEST(text_grows_over_every_length) {
  kl_text text = {0};
  ck_assert_str_eq(kl_text_string(&text), "");
  size_t length = 0;
  for (int i = 0; i < 600; i++) {
    kl_text_add(&text, "%*d", i, 7);
    length += i > 0 ? (size_t)i : 1;
    ck_assert_uint_eq(text.nbytes, length);
    ck_assert_int_eq(text.data[length - 1], '7');
    ck_assert_int_eq(text.data[length], '\0');
  }
  ck_assert_int_eq(kl_text_status(&text), KL_OK);
  kl_text_finish(&text);
}
END_TEST

START_TEST(text_remembers_that_memory_ran_out) {
  kl_text text = {0};
  kl_text_add(&text, "abc");
  kl_memory_fail_nth(1);
  kl_text_add(&text, "%1000d", 1);
  kl_memory_fail_nth(0);
  kl_text_add(&text, "def");
  kl_text_bytes(&text, "g", 1);
  ck_assert_int_eq(kl_text_status(&text), KL_ERR_OUT_OF_MEMORY);
  ck_assert_str_eq(kl_text_string(&text), "abc");
  kl_text_finish(&text);
}
END_TEST

START_TEST(varints_of_different_numbers_differ) {
  static const uint64_t numbers[] = {0, 1, 127, 128, 300, 16383, 16384, UINT32_MAX, UINT64_MAX};
  static const size_t lengths[] = {1, 1, 1, 2, 2, 2, 3, 5, 10};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    kl_text text = {0};
    kl_text_varint(&text, numbers[i]);
    ck_assert_uint_eq(text.nbytes, lengths[i]);
    uint64_t value = 0;
    for (size_t b = 0; b < text.nbytes; b++)
      value |= (uint64_t)((unsigned char)text.data[b] & 0x7f) << (7 * b);
    ck_assert(value == numbers[i]);
    kl_text_finish(&text);
  }
}
END_TEST

START_TEST(scan_splits_names_numbers_and_characters) {
  static const char *const tokens[] = {"ab_1", "12", "x3", "{", ".", "-", "7", "/"};
  static const char source[] = "ab_1 12x3{ // } all of this is a comment\n\t.-7 / // the end";
  kl_scan scan;
  kl_scan_init(&scan, source, sizeof source - 1);
  for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
    ck_assert_msg(kl_scan_accept(&scan, tokens[i]), "token %zu", i);
  ck_assert_int_eq(kl_scan_expect_end(&scan), KL_OK);
  ck_assert_uint_eq(scan.line, 2);
}
END_TEST

START_TEST(scan_reads_numbers_up_to_their_limits) {
  static const char source[] =
      "18446744073709551615 18446744073709551616 -9223372036854775808 "
      "9223372036854775808 255 256 7";
  kl_scan scan;
  uint64_t value;
  int64_t number;
  kl_scan_init(&scan, source, sizeof source - 1);
  ck_assert_int_eq(kl_scan_uint(&scan, "n", UINT64_MAX, &value), KL_OK);
  ck_assert(value == UINT64_MAX);
  ck_assert_int_eq(kl_scan_uint(&scan, "n", UINT64_MAX, &value), KL_ERR_VALUE);
  kl_scan_next(&scan);
  ck_assert_int_eq(kl_scan_int(&scan, "n", &number), KL_OK);
  ck_assert(number == INT64_MIN);
  ck_assert_int_eq(kl_scan_int(&scan, "n", &number), KL_ERR_VALUE);
  kl_scan_next(&scan);
  ck_assert_int_eq(kl_scan_uint(&scan, "n", 255, &value), KL_OK);
  ck_assert_int_eq(kl_scan_uint(&scan, "n", 255, &value), KL_ERR_VALUE);
  kl_scan_next(&scan);
  ck_assert_int_eq(kl_scan_uint(&scan, "n", 3, &value), KL_ERR_VALUE);
}
END_TEST

START_TEST(scan_does_not_read_past_the_given_bytes) {
  static const char source[] = "abc123";
  kl_scan scan;
  uint32_t number;
  kl_scan_init(&scan, source, 3);
  ck_assert(kl_scan_accept(&scan, "abc"));
  ck_assert_int_eq(kl_scan_expect_end(&scan), KL_OK);
  kl_scan_init(&scan, source + 2, 3);
  ck_assert_int_eq(kl_scan_numbered(&scan, 'c', "a c", 99, &number), KL_OK);
  ck_assert_uint_eq(number, 12);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("support");
  TCase *cases = tcase_create("support");
  tcase_add_test(cases, arena_records_are_zeroed_aligned_and_apart);
  tcase_add_test(cases, arena_takes_records_larger_than_a_block);
  tcase_add_test(cases, arena_reset_keeps_memory_for_the_next_round);
  tcase_add_test(cases, arena_without_memory_gives_null);
  tcase_add_test(cases, vec_keeps_what_was_pushed);
  tcase_add_test(cases, vec_is_unchanged_when_it_cannot_grow);
  tcase_add_test(cases, only_the_chosen_allocation_fails);
  tcase_add_test(cases, status_keeps_code_and_message_until_cleared);
  tcase_add_test(cases, status_message_may_quote_itself_and_is_cut);
  tcase_add_test(cases, every_status_has_a_name);
  tcase_add_test(cases, text_grows_over_every_length);
  tcase_add_test(cases, text_remembers_that_memory_ran_out);
  tcase_add_test(cases, varints_of_different_numbers_differ);
  tcase_add_test(cases, scan_splits_names_numbers_and_characters);
  tcase_add_test(cases, scan_reads_numbers_up_to_their_limits);
  tcase_add_test(cases, scan_does_not_read_past_the_given_bytes);
  suite_add_tcase(suite, cases);
  return kl_test_run(suite);
}
