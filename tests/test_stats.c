/* kael_stats_get: each number counts what it says. */
#include "kael/stats.h"

#include <string.h>

#include "tests/support/tensors.h"

static kael_stats now(void) {
  kael_stats stats = {.size = sizeof stats};
  OK(kael_stats_get(&stats));
  ck_assert_uint_eq(stats.size, sizeof stats);
  return stats;
}

static void begin_lazy(void) { kl_test_begin(1); }

/* x and two values without a handle, which are part of the run and not of its results. */
static kael_tensor *chain(kael_tensor *x) {
  OK(kael_scope_begin());
  kael_tensor *y = MADE(kael_keep(kael_exp(kael_add(kael_mul_scalar(x, kael_f(0.125)), x))));
  OK(kael_scope_end());
  return y;
}

START_TEST(a_run_of_a_fused_chain_counts_one_kernel_and_its_bytes) {
  kael_tensor *x = kl_test_range(KAEL_F32, SHAPE(25));
  kael_stats before = now();
  kael_tensor *y = chain(x);
  ck_assert_int_eq(now().runs, before.runs);
  OK(kael_eval(&y, 1));
  kael_stats after = now();
  ck_assert_int_eq(after.runs - before.runs, 1);
  ck_assert_int_eq(after.kernels - before.kernels, 1);
  ck_assert_int_eq(after.bytes_read - before.bytes_read, 25 * 4);
  ck_assert_int_eq(after.bytes_written - before.bytes_written, 25 * 4);
}
END_TEST

START_TEST(in_eager_mode_each_operation_is_a_run) {
  kael_tensor *x = kl_test_range(KAEL_F32, SHAPE(25));
  OK(kael_set_jit(KAEL_JIT_EAGER));
  kael_stats before = now();
  chain(x);
  kael_stats after = now();
  ck_assert_int_eq(after.runs - before.runs, 3);
  ck_assert_int_eq(after.kernels - before.kernels, 3);
  ck_assert_int_eq(after.pending_values, before.pending_values);
}
END_TEST

/* A form of graph that no other test of this program has. */
static kael_tensor *unusual(kael_tensor *x) {
  return MADE(kael_tanh(kael_sub(kael_sigmoid(kael_abs(x)), kael_square(x))));
}

START_TEST(a_graph_met_again_is_a_cache_hit_and_builds_nothing) {
  kael_tensor *x = kl_test_range(KAEL_F32, SHAPE(31));
  kael_tensor *first = unusual(x), *second;
  kael_stats before = now();
  OK(kael_eval(&first, 1));
  kael_stats built = now();
  ck_assert_int_eq(built.programs_built - before.programs_built, 1);
  ck_assert_int_eq(built.kernels_tier0 - before.kernels_tier0, 1);
  ck_assert_int_eq(built.cache_hits, before.cache_hits);
  second = unusual(x);
  OK(kael_eval(&second, 1));
  kael_stats again = now();
  ck_assert_int_eq(again.programs_built, built.programs_built);
  ck_assert_int_eq(again.kernels_tier0, built.kernels_tier0);
  ck_assert_int_eq(again.cache_hits - built.cache_hits, 1);
}
END_TEST

START_TEST(kernels_compiled_by_llvm_are_counted_apart) {
  if (kael_set_jit(KAEL_JIT_SYNC) != KAEL_OK) {
    kael_clear_error();
    KL_TEST_SKIP("this build is without LLVM");
  }
  kael_tensor *x = kl_test_range(KAEL_F32, SHAPE(31));
  kael_tensor *y = unusual(x);
  kael_stats before = now();
  OK(kael_eval(&y, 1));
  kael_stats after = now();
  ck_assert_int_eq(after.kernels_llvm - before.kernels_llvm, 1);
  ck_assert_int_eq(after.kernels_tier0, before.kernels_tier0);
}
END_TEST

START_TEST(recorded_values_are_pending_until_they_run_or_die) {
  kael_tensor *x = kl_test_range(KAEL_F32, SHAPE(25));
  int64_t before = now().pending_values;
  kael_tensor *y = MADE(kael_neg(kael_neg(x)));
  ck_assert_int_eq(now().pending_values - before, 2);
  OK(kael_eval(&y, 1));
  ck_assert_int_eq(now().pending_values, before);
  OK(kael_scope_begin());
  MADE(kael_neg(x));
  ck_assert_int_eq(now().pending_values - before, 1);
  OK(kael_scope_end());
  ck_assert_int_eq(now().pending_values, before);
}
END_TEST

START_TEST(memory_in_use_follows_tensors_and_the_peak_starts_again_when_told) {
  enum { NBYTES = 1 << 20 };
  kael_stats_reset_peak();
  kael_stats before = now();
  ck_assert_uint_eq(before.memory_peak, before.memory_in_use);
  OK(kael_scope_begin());
  kael_tensor *x = MADE(kael_ones(SHAPE(NBYTES), KAEL_U8));
  OK(kael_eval(&x, 1));
  kael_stats held = now();
  ck_assert_uint_ge(held.memory_in_use, before.memory_in_use + NBYTES);
  OK(kael_scope_end());
  kael_stats after = now();
  ck_assert_uint_eq(after.memory_in_use, before.memory_in_use);
  ck_assert_uint_ge(after.memory_cached, NBYTES);
  ck_assert_uint_ge(after.memory_peak, held.memory_in_use);
  kael_stats_reset_peak();
  ck_assert_uint_eq(now().memory_peak, after.memory_in_use);
}
END_TEST

START_TEST(a_shorter_structure_is_filled_as_far_as_it_goes) {
  kael_stats stats;
  memset(&stats, 0x5A, sizeof stats);
  stats.size = offsetof(kael_stats, kernels);
  OK(kael_stats_get(&stats));
  ck_assert_int_eq(stats.runs, now().runs);
  unsigned char rest[sizeof stats], expected[sizeof stats];
  memcpy(rest, &stats, sizeof stats);
  memset(expected, 0x5A, sizeof expected);
  ck_assert_mem_eq(rest + stats.size, expected, sizeof stats - stats.size);
}
END_TEST

START_TEST(a_structure_without_its_size_is_an_error) {
  kael_stats stats = {0};
  ck_assert_int_eq(kael_stats_get(&stats), KAEL_ERR_VALUE);
  ck_assert_ptr_nonnull(strstr(kael_last_error().message, "sizeof(kael_stats)"));
  ck_assert_int_eq(kael_stats_get(NULL), KAEL_ERR_VALUE);
  kael_clear_error();
}
END_TEST

int main(void) {
  Suite *suite = suite_create("stats");
  TCase *tests = tcase_create("stats");
  tcase_add_checked_fixture(tests, begin_lazy, kl_test_end);
  tcase_add_test(tests, a_run_of_a_fused_chain_counts_one_kernel_and_its_bytes);
  tcase_add_test(tests, in_eager_mode_each_operation_is_a_run);
  tcase_add_test(tests, a_graph_met_again_is_a_cache_hit_and_builds_nothing);
  tcase_add_test(tests, kernels_compiled_by_llvm_are_counted_apart);
  tcase_add_test(tests, recorded_values_are_pending_until_they_run_or_die);
  tcase_add_test(tests, memory_in_use_follows_tensors_and_the_peak_starts_again_when_told);
  tcase_add_test(tests, a_shorter_structure_is_filled_as_far_as_it_goes);
  tcase_add_test(tests, a_structure_without_its_size_is_an_error);
  suite_add_tcase(suite, tests);
  return kl_test_run(suite);
}
