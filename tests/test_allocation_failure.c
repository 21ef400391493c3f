/* The Nth allocation fails, for all N, in programs through the public API: always a status or NULL
 * with an error, never a crash, a leak or a wrong value; and what failed can be done again. */
#include <stdio.h>
#include <string.h>

#include "frontend/compiler.h"
#include "ir/support/memory.h"
#include "tests/support/tensors.h"

typedef kael_tensor *T;

enum { MAX_ALLOCATIONS = 20000, N_RESULTS = 4 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOW 1
#else
#define SLOW 0
#endif

/* What a program starts from, and what it leaves: numbers, the same at every success. */
typedef struct inputs {
  T x, weight, index;
} inputs;

typedef struct results {
  double numbers[N_RESULTS];
  int count;
} results;

/* Every program runs in a scope of its own. False: a call failed. It reads all its results. */
typedef bool program_fn(const inputs *in, results *out);

static bool give(results *out, T tensor) {
  return kael_item(tensor, &out->numbers[out->count]) == KAEL_OK && ++out->count > 0;
}

static bool views_and_writes(const inputs *in, results *out) {
  T y = kael_add_scalar(in->x, kael_i(1));
  if (kael_mul_scalar_(kael_slice(y, 1, 0, KAEL_END, 2), kael_f(2)) != KAEL_OK) return false;
  if (kael_copy_(kael_select(y, 0, 1), kael_select(in->x, 0, 0)) != KAEL_OK) return false;
  if (kael_add_(y, kael_expand(kael_select(y, 1, 0), 2, (int64_t[]){3, 3})) != KAEL_OK) return false;
  T parts[3];
  if (kael_unbind(kael_T(y), 0, parts) != KAEL_OK) return false;
  return give(out, kael_sum(kael_mul(parts[0], parts[2]))) && give(out, kael_sum(y));
}

static bool reductions_and_indices(const inputs *in, results *out) {
  T rows = kael_softmax(kael_index_select(in->x, 0, in->index), 1);
  T m = kael_matmul(rows, in->weight);
  T c = kael_cat((T[]){m, kael_gather(m, 1, kael_expand(kael_unsqueeze(in->index, 1), 2, (int64_t[]){3, 3}))}, 2, 0);
  if (kael_scatter_add_(c, 0, kael_expand(kael_unsqueeze(in->index, 1), 2, (int64_t[]){3, 3}), m) != KAEL_OK)
    return false;
  return give(out, kael_mean(c)) && give(out, kael_amax(c, 0, NULL, false)) &&
         give(out, kael_cross_entropy(m, in->index, KAEL_REDUCTION_MEAN));
}

static bool a_training_step(const inputs *in, results *out) {
  T w = kael_clone(in->weight), b = kael_zeros(1, (int64_t[]){3}, KAEL_F32);
  if (kael_requires_grad_(w, true) != KAEL_OK || kael_requires_grad_(b, true) != KAEL_OK) return false;
  for (int step = 0; step < 2; step++) {
    T hidden = kael_relu(kael_linear(in->x, w, b));
    T loss = kael_cross_entropy(hidden, in->index, KAEL_REDUCTION_MEAN);
    if (kael_set_grad(w, KAEL_NONE) != KAEL_OK || kael_set_grad(b, KAEL_NONE) != KAEL_OK) return false;
    if (kael_backward(loss, KAEL_NONE, false, false) != KAEL_OK) return false;
    bool former = kael_set_grad_enabled(false);
    bool stepped = kael_sub_(w, kael_mul_scalar(kael_grad(w), kael_f(0.5))) == KAEL_OK &&
                   kael_sub_(b, kael_mul_scalar(kael_grad(b), kael_f(0.5))) == KAEL_OK;
    kael_set_grad_enabled(former);
    if (!stepped) return false;
    if (step == 1 && !give(out, loss)) return false;
  }
  return give(out, kael_sum(w)) && give(out, kael_sum(b));
}

static bool second_derivatives(const inputs *in, results *out) {
  T w = kael_clone(in->weight), first = NULL, second = NULL;
  if (kael_requires_grad_(w, true) != KAEL_OK) return false;
  T y = kael_sum(kael_exp(kael_mul(w, kael_tanh(w))));
  kael_grad_options create = {sizeof create, true, true, false};
  if (kael_autograd_grad(&y, NULL, 1, &w, 1, &create, &first) != KAEL_OK) return false;
  T total = kael_sum(first);
  if (kael_autograd_grad(&total, NULL, 1, &w, 1, NULL, &second) != KAEL_OK) return false;
  return give(out, total) && give(out, kael_sum(second));
}

static bool memory_of_the_caller(const inputs *in, results *out) {
  float memory[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  bool done = false;
  kael_storage *storage = kael_storage_external(memory, sizeof memory, NULL, NULL, KAEL_STORAGE_SHARED);
  if (!storage) return false;
  T t = kael_tensor_from_parts(storage, 2, (int64_t[]){3, 3}, (int64_t[]){3, 1}, 0, KAEL_F32);
  kael_storage_release(storage);
  if (kael_add_(kael_T(t), in->x) == KAEL_OK && kael_mutable_data_ptr(t) == (void *)memory) {
    memory[0] = 100;
    char *text = kael_to_string(t), *explained = kael_explain(t);
    done = text && explained && give(out, kael_sum(t));
    kael_string_free(text);
    kael_string_free(explained);
  }
  return done;
}

static bool wide_run(const inputs *in, results *out) {
  T values[40];
  for (int i = 0; i < 40; i++) values[i] = kael_add_scalar(i ? values[i - 1] : in->x, kael_i(i));
  if (kael_eval(values, 40) != KAEL_OK) return false;
  return give(out, kael_sum(values[39])) && give(out, kael_sum(values[7]));
}

/* Runs the program once, its Nth allocation failing (0: none); says whether it succeeded. */
static bool run(program_fn *program, const inputs *in, long nth, results *out) {
  *out = (results){.count = 0};
  kael_clear_error();
  if (kael_scope_begin() != KAEL_OK) return false;
  kl_memory_fail_nth(nth);
  bool done = program(in, out);
  kl_memory_fail_nth(0);
  if (!done)
    ck_assert_msg(kael_last_error().code == KAEL_ERR_OUT_OF_MEMORY, "allocation %ld: %s", nth,
                  kael_last_error().message);
  kael_clear_error();
  OK(kael_scope_end());
  return done;
}

static void expect_same(const results *found, const results *expected, long nth) {
  ck_assert_int_eq(found->count, expected->count);
  for (int i = 0; i < expected->count; i++)
    ck_assert_msg(found->numbers[i] == expected->numbers[i], "allocation %ld: result %d is %g, not %g",
                  nth, i, found->numbers[i], expected->numbers[i]);
}

/* `cold`: the caches of programs and kernels are emptied before each run. */
static void fail_everywhere(program_fn *program, const inputs *in, bool cold, long step) {
  results expected, found;
  ck_assert_msg(run(program, in, 0, &expected), "%s", kael_last_error().message);
  int n_failures = 0, n_quiet = 0;
  for (long nth = 1; n_quiet < (step > 1 ? 5 : 30); nth += step) {
    ck_assert_int_lt(nth, MAX_ALLOCATIONS);
    if (cold) kl_compiler_clear();
    bool done = run(program, in, nth, &found);
    if (done) expect_same(&found, &expected, nth); /* some failures have a way around them */
    n_quiet = done ? n_quiet + 1 : 0;
    n_failures += !done;
    if (done) continue;
    ck_assert_msg(run(program, in, 0, &found), "after allocation %ld: %s", nth,
                  kael_last_error().message);
    expect_same(&found, &expected, nth);
  }
  ck_assert_int_gt(n_failures, step > 1 ? 1 : 10);
}

static program_fn *const programs[] = {views_and_writes,  reductions_and_indices,
                                       a_training_step,   second_derivatives,
                                       memory_of_the_caller, wide_run};
enum { N_PROGRAMS = sizeof programs / sizeof *programs };

static inputs make_inputs(void) {
  inputs in = {.x = kl_test_range(KAEL_F32, SHAPE(3, 3)),
               .weight = MADE(kael_mul_scalar(kl_test_range(KAEL_F32, SHAPE(3, 3)), kael_f(0.25))),
               .index = kl_test_vector(KAEL_I64, VALUES(2, 0, 1))};
  OK(kael_eval((T[]){in.weight, in.index}, 2));
  return in;
}

static int64_t pending_now(void) {
  kael_stats stats = {.size = sizeof stats};
  OK(kael_stats_get(&stats));
  return stats.pending_values;
}

static void fail_a_program(int which, kael_jit_mode mode, bool cold, long step) {
  kl_test_begin(1);
  OK(kael_set_jit(mode));
  inputs in = make_inputs();
  int64_t pending = pending_now();
  fail_everywhere(programs[which], &in, cold, step);
  ck_assert_int_eq(pending_now(), pending);
  CHECK_VALUES(in.x, 0, 1, 2, 3, 4, 5, 6, 7, 8);
  kl_test_end();
}

START_TEST(any_allocation_of_a_lazy_program_may_fail) {
  fail_a_program(_i, KAEL_JIT_LAZY, false, 1);
}
END_TEST

START_TEST(any_allocation_of_an_eager_program_may_fail) {
  fail_a_program(_i, KAEL_JIT_EAGER, false, 1);
}
END_TEST

/* Passes and the compilation of the block executor are part of each run. */
START_TEST(any_allocation_of_passes_and_compilation_may_fail) {
  fail_a_program(_i, KAEL_JIT_LAZY, true, SLOW ? 3 : 1);
}
END_TEST

/* LLVM takes milliseconds a kernel: every Nth allocation, spread over all of them. */
START_TEST(allocations_of_compiled_code_may_fail) {
  if (kael_set_jit(KAEL_JIT_SYNC) != KAEL_OK) {
    kael_clear_error();
    KL_TEST_SKIP("this build is without LLVM");
  }
  fail_a_program(_i, KAEL_JIT_SYNC, true, SLOW ? 97 : 29);
}
END_TEST

/* --- In place: either done or not ----------------------------------------------------------------
 */

/* A write that failed has not been done, and is done once when it is repeated. */
static void write_until_done(T base, T written, const double *before, const double *after, int n) {
  int n_failures = 0;
  for (long nth = 1;; nth++) {
    uint64_t version = kael_version(base);
    kl_memory_fail_nth(nth);
    kael_status status = kael_add_scalar_(written, kael_i(10));
    kl_memory_fail_nth(0);
    if (status == KAEL_OK) break;
    n_failures++;
    ck_assert_int_eq(status, KAEL_ERR_OUT_OF_MEMORY);
    ck_assert_uint_eq(kael_version(base), version);
    kl_test_values(base, "after a failure", n, before);
    kael_clear_error();
  }
  ck_assert_int_gt(n_failures, 0);
  kl_test_values(base, "after the write", n, after);
}

START_TEST(a_write_that_failed_has_not_been_done) {
  kl_test_begin(_i);
  T whole = kl_test_range(KAEL_F32, SHAPE(4));
  write_until_done(whole, whole, (double[]){0, 1, 2, 3}, (double[]){10, 11, 12, 13}, 4);
  T part = MADE(kael_slice(whole, 0, 1, KAEL_END, 2));
  write_until_done(whole, part, (double[]){10, 11, 12, 13}, (double[]){10, 21, 12, 23}, 4);
  float *bytes = kael_mutable_data_ptr(whole);
  write_until_done(whole, part, (double[]){10, 21, 12, 23}, (double[]){10, 31, 12, 33}, 4);
  ck_assert_float_eq(bytes[3], 33);
  bytes[0] = 7;
  CHECK_VALUES(whole, 7, 31, 12, 33);
  kl_test_end();
}
END_TEST

/* --- A failed run ------------------------------------------------------------------------------- */

START_TEST(a_failed_run_leaves_every_value_pending) {
  kl_test_begin(1);
  T x = kl_test_range(KAEL_F32, SHAPE(4));
  T a = MADE(kael_add_scalar(x, kael_i(1))), b = MADE(kael_matmul(a, a)), c = MADE(kael_sum(a));
  OK(kael_add_scalar_(x, kael_i(5))); /* in the same run, over the bytes that a reads */
  int64_t pending = pending_now();
  int n_failures = 0;
  for (long nth = 1;; nth++) {
    kl_compiler_clear();
    kl_memory_fail_nth(nth);
    kael_status status = kael_eval((T[]){b, c, x}, 3);
    kl_memory_fail_nth(0);
    if (status == KAEL_OK) break;
    n_failures++;
    ck_assert_int_eq(status, KAEL_ERR_OUT_OF_MEMORY);
    ck_assert_int_eq(pending_now(), pending);
  }
  kael_clear_error();
  ck_assert_int_gt(n_failures, 20);
  CHECK_VALUES(a, 1, 2, 3, 4);
  CHECK_VALUES(b, 30);
  CHECK_VALUES(c, 10);
  CHECK_VALUES(x, 5, 6, 7, 8);
  kl_test_end();
}
END_TEST

/* The flush of a recording, and a product without room to pack, go on after a failure: what was
 * stored before is still there. */
START_TEST(a_failure_with_a_way_around_it_leaves_the_stored_error_alone) {
  kl_test_begin(1);
  T x = kl_test_range(KAEL_F32, SHAPE(64, 64));
  int n_ways_around = 0;
  for (long nth = 1; nth < 400; nth++) {
    ck_assert_ptr_null(kael_view(x, SHAPE(5)));
    char message[256];
    snprintf(message, sizeof message, "%s", kael_last_error().message);
    OK(kael_scope_begin());
    T y = kael_matmul(x, x);
    kl_memory_fail_nth(nth);
    kael_status status = kael_eval(&y, 1);
    kl_memory_fail_nth(0);
    OK(kael_scope_end());
    if (status != KAEL_OK) continue;
    n_ways_around++;
    ck_assert_str_eq(kael_last_error().message, message);
    if (n_ways_around > 20) break;
  }
  ck_assert_int_gt(n_ways_around, 20);
  kael_clear_error();
  kl_test_end();
}
END_TEST

int main(void) {
  Suite *suite = suite_create("allocation failure");
  TCase *tests = tcase_create("allocation failure");
  tcase_add_loop_test(tests, any_allocation_of_a_lazy_program_may_fail, 0, N_PROGRAMS);
  tcase_add_loop_test(tests, any_allocation_of_an_eager_program_may_fail, 0, N_PROGRAMS);
  tcase_add_loop_test(tests, any_allocation_of_passes_and_compilation_may_fail, 0, N_PROGRAMS);
  tcase_add_loop_test(tests, allocations_of_compiled_code_may_fail, 0, N_PROGRAMS);
  tcase_add_loop_test(tests, a_write_that_failed_has_not_been_done, 0, 2);
  tcase_add_test(tests, a_failed_run_leaves_every_value_pending);
  tcase_add_test(tests, a_failure_with_a_way_around_it_leaves_the_stored_error_alone);
  suite_add_tcase(suite, tests);
  return kl_test_run(suite);
}
