/* Recording and evaluation as a user sees them: what is pending is never observed, but by
 * statistics and memory. Most tests run in both modes. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/compiler.h"
#include "ir/support/memory.h"
#include "ir/support/options.h"
#include "runtime/allocator.h"
#include "tests/support/tensors.h"

enum { MIB = 1 << 20 };

static kael_stats now(void) {
  kael_stats stats = {.size = sizeof stats};
  OK(kael_stats_get(&stats));
  return stats;
}

/* 0, 1, ..., n - 1 as float32. */
static kael_tensor *range(int n) {
  const int64_t shape[1] = {n};
  return kl_test_range(KAEL_F32, 1, shape);
}

/* --- Writes through views --------------------------------------------------------------------- */

START_TEST(a_write_through_a_view_of_a_pending_tensor_reaches_its_base) {
  kael_tensor *base = MADE(kael_add_scalar(range(6), kael_f(10)));
  kael_tensor *view = MADE(kael_T(kael_view(base, SHAPE(2, 3))));
  OK(kael_mul_scalar_(kael_select(view, 0, 1), kael_f(-1))); /* elements 1 and 4 */
  OK(kael_fill_(kael_narrow(base, 0, 5, 1), kael_f(0)));
  CHECK_VALUES(base, 10, -11, 12, 13, -14, 0);
  CHECK_VALUES(view, 10, 13, -11, -14, 12, 0);
}
END_TEST

START_TEST(a_write_through_the_base_is_seen_by_views_made_before) {
  kael_tensor *base = MADE(kael_add_scalar(range(6), kael_f(1)));
  kael_tensor *view = MADE(kael_slice(base, 0, 1, KAEL_END, 2));
  OK(kael_mul_scalar_(base, kael_f(2)));
  CHECK_VALUES(view, 4, 8, 12);
  OK(kael_add_scalar_(view, kael_f(1)));
  CHECK_VALUES(base, 2, 5, 6, 9, 10, 13);
}
END_TEST

START_TEST(a_write_through_a_view_with_gaps_keeps_what_is_between) {
  kael_tensor *x = MADE(kael_view(range(24), SHAPE(4, 6)));
  kael_tensor *gapped = MADE(kael_slice(kael_slice(x, 0, 1, KAEL_END, 2), 1, 0, KAEL_END, 3));
  OK(kael_fill_(gapped, kael_f(-1))); /* rows 1 and 3, columns 0 and 3 */
  OK(kael_add_scalar_(kael_diagonal(x, 0, 0, 1), kael_f(100)));
  CHECK_VALUES(x, 100, 1, 2, 3, 4, 5,   /**/
               -1, 107, 8, -1, 10, 11,  /**/
               12, 13, 114, 15, 16, 17, /**/
               -1, 19, 20, 99, 22, 23);
}
END_TEST

START_TEST(writes_through_overlapping_views_are_made_in_order) {
  kael_tensor *x = range(8);
  kael_tensor *front = MADE(kael_narrow(x, 0, 0, 5)), *back = MADE(kael_narrow(x, 0, 3, 5));
  kael_tensor *odd = MADE(kael_slice(x, 0, 1, KAEL_END, 2));
  OK(kael_add_scalar_(front, kael_f(10)));
  OK(kael_mul_scalar_(back, kael_f(2)));
  OK(kael_neg_(odd));
  OK(kael_add_(front, back)); /* partial aliasing: as if back had been cloned first */
  CHECK_VALUES(x, 10 - 26, -11 + 28, 12 - 10, -26 + 12, 28 - 14, -10, 12, -14);
}
END_TEST

START_TEST(copying_a_tensor_over_itself_shifted_copies_the_old_elements) {
  kael_tensor *x = range(6);
  OK(kael_copy_(kael_narrow(x, 0, 1, 5), kael_narrow(x, 0, 0, 5)));
  CHECK_VALUES(x, 0, 0, 1, 2, 3, 4);
  OK(kael_copy_(kael_narrow(x, 0, 0, 5), kael_narrow(x, 0, 1, 5)));
  CHECK_VALUES(x, 0, 1, 2, 3, 4, 4);
}
END_TEST

/* --- Readers before writers ------------------------------------------------------------------- */

/* Three readers, each recorded before a write; `order` is the order in which all are looked at. */
static void read_in_order(const int *order) {
  kael_tensor *x = range(4), *seen[4];
  seen[0] = MADE(kael_mul_scalar(x, kael_f(2)));
  OK(kael_add_scalar_(x, kael_f(10)));
  seen[1] = MADE(kael_clone(kael_slice(x, 0, 0, KAEL_END, 2)));
  OK(kael_fill_(kael_narrow(x, 0, 1, 2), kael_f(-1)));
  seen[2] = MADE(kael_sum(x));
  OK(kael_zero_(x));
  seen[3] = x;
  for (int i = 0; i < 4; i++) {
    switch (order[i]) {
      case 0:
        CHECK_VALUES(seen[0], 0, 2, 4, 6);
        break;
      case 1:
        CHECK_VALUES(seen[1], 10, 12);
        break;
      case 2:
        CHECK_VALUES(seen[2], 10 - 1 - 1 + 13);
        break;
      default:
        CHECK_VALUES(x, 0, 0, 0, 0);
    }
  }
}

START_TEST(a_reader_recorded_before_a_write_sees_the_old_value_in_any_order_of_reads) {
  int n_orders = 0;
  for (int code = 0; code < 256; code++) {
    int order[4] = {code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6};
    if (((1 << order[0]) | (1 << order[1]) | (1 << order[2]) | (1 << order[3])) != 15) continue;
    OK(kael_scope_begin());
    read_in_order(order);
    OK(kael_scope_end());
    n_orders++;
  }
  ck_assert_int_eq(n_orders, 24);
}
END_TEST

START_TEST(a_reader_outside_the_run_keeps_the_old_bytes) {
  kael_tensor *x = range(4);
  kael_tensor *reader = MADE(kael_exp(kael_mul_scalar(x, kael_f(0))));
  kael_tensor *other = MADE(kael_neg(x));
  OK(kael_add_scalar_(x, kael_f(1)));
  int64_t before = now().pending_values;
  OK(kael_eval(&x, 1)); /* needs neither reader */
  ck_assert_int_eq(before - now().pending_values, 1);
  OK(kael_add_scalar_(x, kael_f(1)));
  CHECK_VALUES(x, 2, 3, 4, 5);
  CHECK_VALUES(other, -0.0, -1, -2, -3);
  CHECK_VALUES(reader, 1, 1, 1, 1);
}
END_TEST

START_TEST(a_write_alone_works_in_the_old_buffer) {
  kael_tensor *x = range(1000);
  const void *bytes = kael_data_ptr(x);
  OK(kael_fill_(kael_slice(x, 0, 0, KAEL_END, 2), kael_f(5)));
  OK(kael_add_scalar_(x, kael_f(1)));
  kael_stats before = now();
  ck_assert_ptr_eq(kael_data_ptr(x), bytes);
  ck_assert_uint_eq(now().memory_in_use, before.memory_in_use);
}
END_TEST

/* --- Exports and external memory -------------------------------------------------------------- */

START_TEST(an_export_pins_the_address_and_runs_pending_readers_first) {
  kael_tensor *x = MADE(kael_mul_scalar(range(4), kael_f(1)));
  kael_tensor *reader = MADE(kael_add_scalar(x, kael_f(1)));
  kael_tensor *part = MADE(kael_narrow(x, 0, 2, 2));
  kael_tensor *part_reader = MADE(kael_neg(part));
  OK(kael_add_scalar_(x, kael_f(0.5)));
  float *pointer = kael_mutable_data_ptr(x);
  ck_assert_ptr_nonnull(pointer);
  ck_assert(pointer[0] == 0.5f && pointer[3] == 3.5f);
  pointer[2] = 100;
  CHECK_VALUES(reader, 1, 2, 3, 4);
  CHECK_VALUES(part_reader, -2, -3);
  CHECK_VALUES(x, 0.5, 1.5, 100, 3.5);

  OK(kael_mul_scalar_(part, kael_f(2))); /* shared: runs at the call, in place */
  ck_assert(pointer[2] == 200 && pointer[3] == 7);
  OK(kael_exp_(x));
  OK(kael_zero_(x));
  ck_assert(pointer[0] == 0 && pointer[3] == 0);
  ck_assert_ptr_eq(kael_mutable_data_ptr(x), pointer);
  ck_assert_ptr_eq(kael_data_ptr(part), pointer + 2);
  kael_tensor *copy = MADE(kael_add_scalar(x, kael_f(1))); /* reads at the call */
  pointer[0] = 9;
  CHECK_VALUES(copy, 1, 1, 1, 1);
  CHECK_VALUES(x, 9, 0, 0, 0);
}
END_TEST

static kael_tensor *external(float *data, int n, unsigned flags) {
  kael_storage *storage = kael_storage_external(data, sizeof(float) * (size_t)n, NULL, NULL, flags);
  ck_assert_ptr_nonnull(storage);
  kael_tensor *tensor =
      MADE(kael_tensor_from_parts(storage, SHAPE(n), (int64_t[]){1}, 0, KAEL_F32));
  kael_storage_release(storage);
  return tensor;
}

START_TEST(readonly_memory_is_read_late_and_never_written) {
  float data[] = {1, 2, 3};
  kael_tensor *x = external(data, 3, KAEL_STORAGE_READONLY);
  kael_tensor *y = MADE(kael_add_scalar(x, kael_f(1)));
  CHECK_STATUS(kael_add_scalar_(x, kael_f(1)), KAEL_ERR_RUNTIME, "call clone() first");
  CHECK_STATUS(kael_zero_(kael_narrow(x, 0, 1, 1)), KAEL_ERR_RUNTIME, "read-only");
  ck_assert_uint_eq(kael_version(x), 0);
  CHECK_NULL(kael_mutable_data_ptr(x), KAEL_ERR_RUNTIME, "read-only");
  CHECK_VALUES(y, 2, 3, 4);
  ck_assert(data[0] == 1 && data[1] == 2 && data[2] == 3);
}
END_TEST

START_TEST(owned_external_memory_has_the_result_when_it_is_asked_for) {
  float data[] = {1, 2, 3};
  kael_tensor *x = external(data, 3, KAEL_STORAGE_OWNED);
  kael_tensor *before = MADE(kael_neg(x));
  OK(kael_mul_scalar_(x, kael_f(3)));
  OK(kael_add_scalar_(kael_narrow(x, 0, 0, 2), kael_f(1)));
  ck_assert_ptr_eq(kael_data_ptr(x), data);
  ck_assert(data[0] == 4 && data[1] == 7 && data[2] == 9);
  CHECK_VALUES(before, -1, -2, -3);
}
END_TEST

START_TEST(shared_memory_is_read_and_written_at_the_call) {
  float data[] = {1, 2, 3};
  kael_tensor *x = external(data, 3, KAEL_STORAGE_SHARED);
  kael_tensor *first = MADE(kael_add_scalar(x, kael_f(1)));
  data[0] = 10;
  kael_tensor *second = MADE(kael_add_scalar(x, kael_f(1)));
  OK(kael_neg_(x));
  ck_assert(data[0] == -10 && data[1] == -2 && data[2] == -3);
  data[0] = 0;
  CHECK_VALUES(first, 2, 3, 4);
  CHECK_VALUES(second, 11, 3, 4);
  CHECK_VALUES(x, 0, -2, -3);
}
END_TEST

START_TEST(external_memories_that_overlap_see_each_others_writes) {
  float data[] = {1, 2, 3, 4, 5, 6};
  kael_tensor *low = external(data, 4, KAEL_STORAGE_OWNED);
  kael_tensor *high = external(data + 2, 4, KAEL_STORAGE_OWNED);
  kael_tensor *reader = MADE(kael_mul_scalar(high, kael_f(10)));
  OK(kael_add_scalar_(low, kael_f(100)));
  OK(kael_add_(high, low));
  CHECK_VALUES(reader, 30, 40, 50, 60);
  CHECK_VALUES(high, 103 + 101, 104 + 102, 5 + 103, 6 + 104);
  CHECK_VALUES(low, 101, 102, 103 + 101, 104 + 102);
}
END_TEST

/* --- A million operations --------------------------------------------------------------------- */

/* Memory is compared with what it was after the first automatic flushes, whose graphs, as large as
 * they get, the passes had to take in. */
#ifdef __SANITIZE_ADDRESS__ /* a fifth of it: each operation takes ten times as long */
enum { MILLION = 200000, WARM_UP = 20000 };
#else
enum { MILLION = 1000000, WARM_UP = 20000 };
#endif

static size_t resident_nbytes(void) {
  long pages = 0, ignored;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file) return 0;
  if (fscanf(file, "%ld %ld", &ignored, &pages) != 2) pages = 0;
  fclose(file);
  return (size_t)pages * 4096;
}

typedef struct flat_memory {
  size_t resident, in_use;
  int64_t most_pending;
} flat_memory;

static flat_memory watch_memory(void) {
  return (flat_memory){resident_nbytes(), now().memory_in_use, now().pending_values};
}

static void sample(flat_memory *watch) {
  int64_t pending = now().pending_values;
  if (pending > watch->most_pending) watch->most_pending = pending;
}

static void check_flat(const flat_memory *watch) {
  ck_assert_int_le(watch->most_pending, kl_options_get()->flush_nodes + 1000);
  ck_assert_uint_le(now().memory_in_use, watch->in_use + MIB);
#ifndef __SANITIZE_ADDRESS__ /* which holds freed memory back */
  size_t resident = resident_nbytes();
  ck_assert_uint_gt(resident, 0);
  ck_assert_msg(resident < watch->resident + 10 * (size_t)MIB, "%zu MiB more than before",
                (resident - watch->resident) / MIB);
#endif
}

/* n times x = x * 0.999 + 1, in float32. */
static float iterated(float x, int n) {
  for (int i = 0; i < n; i++) x = x * 0.999f + 1.0f;
  return x;
}

/* A new reference to x * 0.999 + 1, which belongs to no scope. */
static kael_tensor *step(kael_tensor *x) {
  OK(kael_scope_begin());
  kael_tensor *next = kael_add_scalar(kael_mul_scalar(x, kael_f(0.999)), kael_f(1));
  kael_retain(MADE(next));
  OK(kael_scope_end());
  return next;
}

static void check_iterated(kael_tensor *x, int n) {
  CHECK_VALUES(x, iterated(0, n), iterated(1, n), iterated(2, n), iterated(3, n));
}

START_TEST(a_million_operations_that_nobody_reads_run_in_flat_memory) {
  kael_tensor *x = kael_retain(range(4));
  flat_memory watch = {0};
  for (int i = 0; i < MILLION / 2; i++) {
    kael_tensor *next = step(x);
    OK(kael_release(x));
    x = next;
    if (i == WARM_UP) watch = watch_memory();
    if (i % 1000 == 0) sample(&watch);
  }
  check_iterated(x, MILLION / 2);
  OK(kael_release(x));
  check_flat(&watch);
}
END_TEST

START_TEST(a_million_operations_in_place_run_in_flat_memory) {
  kael_tensor *x = range(4);
  flat_memory watch = {0};
  for (int i = 0; i < MILLION / 2; i++) {
    OK(kael_mul_scalar_(x, kael_f(0.999)));
    OK(kael_add_scalar_(x, kael_f(1)));
    if (i == WARM_UP) watch = watch_memory();
    if (i % 1000 == 0) sample(&watch);
  }
  check_iterated(x, MILLION / 2);
  ck_assert_uint_eq(kael_version(x), MILLION);
  check_flat(&watch);
}
END_TEST

START_TEST(a_million_operations_among_many_live_tensors_run_in_flat_memory) {
  enum { LIVE = 1000 };
  kael_tensor *live[LIVE];
  for (int i = 0; i < LIVE; i++) live[i] = kael_retain(range(4));
  flat_memory watch = {0};
  for (int i = 0; i < MILLION / 2; i++) { /* each is made of the one before it */
    kael_tensor *next = step(live[(i + LIVE - 1) % LIVE]);
    OK(kael_release(live[i % LIVE]));
    live[i % LIVE] = next;
    if (i == WARM_UP) watch = watch_memory();
    if (i % 1000 == 0) sample(&watch);
  }
  check_iterated(live[0], MILLION / 2 - LIVE + 1);
  check_iterated(live[LIVE - 1], MILLION / 2);
  for (int i = 0; i < LIVE; i++) OK(kael_release(live[i]));
  check_flat(&watch);
}
END_TEST

START_TEST(large_results_that_nobody_reads_do_not_pile_up) {
  enum { N = 4 * MIB / 4, LIVE = 4 };
  kael_tensor *x = kael_retain(MADE(kael_ones(SHAPE(N), KAEL_F32)));
  OK(kael_eval(&x, 1));
  kael_stats_reset_peak();
  size_t before = now().memory_in_use;
  for (int i = 0; i < 500; i++) {
    kael_tensor *next = step(x);
    OK(kael_release(x));
    x = next;
  }
  float first;
  const float *bytes = kael_data_ptr(x);
  ck_assert_ptr_nonnull(bytes);
  first = bytes[N - 1];
  ck_assert_float_eq(first, iterated(1, 500));
  OK(kael_release(x));
  /* x, its successor, and what the flush lets wait. */
  ck_assert_uint_le(now().memory_peak,
                    before + 2 * 4 * MIB + (size_t)kl_options_get()->flush_bytes);
}
END_TEST

/* --- Long chains ------------------------------------------------------------------------------ */

/* Runs `work` on a thread with little stack: what recurses with the length of a chain dies there.
 */
static void with_little_stack(void *(*work)(void *)) {
  pthread_attr_t attributes;
  pthread_t thread;
  void *result = NULL;
  ck_assert_int_eq(pthread_attr_init(&attributes), 0);
  ck_assert_int_eq(pthread_attr_setstacksize(&attributes, 256 * 1024), 0);
  ck_assert_int_eq(pthread_create(&thread, &attributes, work, NULL), 0);
  ck_assert_int_eq(pthread_join(thread, &result), 0);
  ck_assert_msg(result == NULL, "%s", (char *)result);
  pthread_attr_destroy(&attributes);
}

/* NULL, or the end of a chain of n operations on x, none of them evaluated. */
static kael_tensor *pending_chain(kael_tensor *x, int n) {
  kael_tensor *last = kael_retain(x);
  for (int i = 0; last && i < n; i++) {
    kael_tensor *next =
        i % 2 ? kael_add_scalar(last, kael_f(1)) : kael_mul_scalar(last, kael_f(0.999));
    kael_release(last);
    last = next;
  }
  return last;
}

static void *drop_pending_chain(void *unused) {
  (void)unused;
  kael_tensor *x = kael_ones(1, (int64_t[]){2}, KAEL_F32);
  int64_t before = now().pending_values;
  kael_tensor *last = pending_chain(x, MILLION);
  if (!last) return "the chain was not recorded";
  if (now().pending_values - before != MILLION) return "the chain is not pending";
  kael_release(last);
  if (now().pending_values != before) return "some of the chain was not freed";
  kael_release(x);
  return NULL;
}

START_TEST(a_pending_chain_of_a_million_is_freed_without_recursion) {
  if (kl_options_get()->flush_nodes <= MILLION)
    KL_TEST_SKIP("the options were read before this test could set them (CK_FORK=no)");
  with_little_stack(drop_pending_chain);
}
END_TEST

/* One graph of all: the passes take some 2 KiB for each operation. */
static void *evaluate_pending_chain(void *unused) {
  enum { LENGTH = 200000 };
  (void)unused;
  kael_tensor *x = kael_zeros(1, (int64_t[]){4}, KAEL_F32);
  kael_tensor *last = pending_chain(x, LENGTH);
  if (!last) return "the chain was not recorded";
  if (kael_eval(&last, 1)) return "the chain was not evaluated";
  const float *bytes = kael_data_ptr(last);
  if (!bytes || bytes[0] != iterated(0, LENGTH / 2)) return "the value is wrong";
  kael_release(last);
  kael_release(x);
  return NULL;
}

START_TEST(a_long_pending_chain_is_evaluated_without_recursion) {
  if (kl_options_get()->flush_nodes <= MILLION)
    KL_TEST_SKIP("the options were read before this test could set them (CK_FORK=no)");
  with_little_stack(evaluate_pending_chain);
}
END_TEST

static void *drop_differentiable_chain(void *unused) {
  (void)unused;
  kael_tensor *x = kael_ones(1, (int64_t[]){2}, KAEL_F32);
  kael_requires_grad_(x, true);
  size_t before = now().memory_in_use;
  kael_tensor *last = pending_chain(x, MILLION);
  if (!last || !kael_requires_grad(last)) return "the chain was not recorded";
  kael_release(last);
  if (kael_eval(&x, 1)) return "x was not evaluated";
  if (now().memory_in_use > before + MIB) return "some of the chain was not freed";
  kael_release(x);
  return NULL;
}

START_TEST(a_differentiable_chain_of_a_million_is_freed_without_recursion) {
  with_little_stack(drop_differentiable_chain);
}
END_TEST

static void *backward_through_long_chain(void *unused) {
  (void)unused;
  kael_tensor *x = kael_ones(1, (int64_t[]){1}, KAEL_F32);
  kael_requires_grad_(x, true);
  kael_tensor *last = pending_chain(x, 100000);
  if (!last || kael_backward(last, KAEL_NONE, false, false)) return "backward failed";
  kael_tensor *grad = kael_grad(x);
  double found;
  if (kael_item(grad, &found)) return "the gradient was not evaluated";
  float expected = 1;
  for (int i = 0; i < 50000; i++) expected *= 0.999f;
  if ((float)found != expected) return "the gradient is wrong";
  kael_release(grad);
  kael_release(last);
  kael_release(x);
  return NULL;
}

START_TEST(backward_walks_a_long_chain_without_recursion) {
  with_little_stack(backward_through_long_chain);
}
END_TEST

/* --- Failures --------------------------------------------------------------------------------- */

/* A graph with a shape of its own, so that each test compiles it anew. */
static kael_tensor *graph_of(kael_tensor *x) {
  kael_tensor *y = kael_exp(kael_mul_scalar(x, kael_f(0)));
  OK(kael_add_(kael_narrow(y, 0, 1, 2), kael_sum(y)));
  return MADE(y);
}

START_TEST(a_run_that_fails_for_lack_of_memory_can_be_repeated) {
  kael_tensor *x = range(5), *y = graph_of(x);
  int64_t pending = now().pending_values;
  kael_status status = KAEL_ERR_OUT_OF_MEMORY;
  int n_failed = 0;
  for (long nth = 1; status != KAEL_OK; nth++) {
    kl_memory_fail_nth(nth);
    status = kael_eval(&y, 1);
    kl_memory_fail_nth(0);
    if (status == KAEL_OK) break;
    ck_assert_int_eq(status, KAEL_ERR_OUT_OF_MEMORY);
    ck_assert_int_eq(now().pending_values, pending);
    kael_clear_error();
    n_failed++;
    ck_assert_int_lt(n_failed, 100000);
  }
  ck_assert_int_gt(n_failed, 20);
  ck_assert_int_eq(now().pending_values, 0);
  CHECK_VALUES(y, 1, 6, 6, 1, 1);
}
END_TEST

START_TEST(a_run_beyond_the_memory_limit_can_be_repeated_with_more) {
  enum { N = 16 * MIB / 4 };
  kael_tensor *x = MADE(kael_ones(SHAPE(N), KAEL_F32));
  OK(kael_eval(&x, 1));
  kael_tensor *y = MADE(kael_add_scalar(x, kael_f(1)));
  kl_allocator_trim();
  kl_allocator_set_limit(now().memory_in_use + MIB);
  kael_stats before = now();
  ck_assert_int_eq(kael_eval(&y, 1), KAEL_ERR_OUT_OF_MEMORY);
  ck_assert_ptr_null(kael_data_ptr(y));
  ck_assert_int_eq(now().pending_values, before.pending_values);
  ck_assert_uint_eq(now().memory_in_use, before.memory_in_use);
  ck_assert_int_eq(now().kernels, before.kernels);
  kael_clear_error();
  kl_allocator_set_limit(0);
  const float *bytes = kael_data_ptr(y);
  ck_assert_ptr_nonnull(bytes);
  ck_assert(bytes[0] == 2 && bytes[N - 1] == 2);
}
END_TEST

/* --- Memory and counts ------------------------------------------------------------------------ */

START_TEST(a_chain_in_place_needs_no_second_buffer) {
  enum { N = 64 * MIB / 4 };
  kael_tensor *x = MADE(kael_ones(SHAPE(N), KAEL_F32));
  OK(kael_eval(&x, 1));
  kael_stats_reset_peak();
  size_t before = now().memory_in_use;
  for (int i = 0; i < 10; i++) {
    OK(kael_add_scalar_(x, kael_f(1)));
    OK(kael_mul_scalar_(x, kael_f(0.5)));
  }
  const float *bytes = kael_data_ptr(x);
  ck_assert_ptr_nonnull(bytes);
  ck_assert(bytes[0] == 1 && bytes[N - 1] == 1);
  size_t others = before - N * 4;
  ck_assert_uint_le(now().memory_peak - others, (size_t)(1.1 * N * 4) + 64 * MIB);
  ck_assert_uint_le(now().memory_peak, before + MIB); /* in fact */
}
END_TEST

/* One iteration of a training loop without its matrix products. */
static void train(kael_tensor *weight, kael_tensor *x, kael_tensor *target) {
  OK(kael_scope_begin());
  kael_tensor *loss = kael_cross_entropy(kael_mul(x, weight), target, KAEL_REDUCTION_MEAN);
  OK(kael_backward(MADE(loss), KAEL_NONE, false, false));
  bool was_enabled = kael_set_grad_enabled(false);
  OK(kael_sub_(weight, kael_mul_scalar(kael_grad(weight), kael_f(0.1))));
  OK(kael_set_grad(weight, KAEL_NONE));
  kael_set_grad_enabled(was_enabled);
  double value;
  OK(kael_item(loss, &value));
  OK(kael_scope_end());
}

START_TEST(counts_stay_the_same_over_thousands_of_iterations) {
  kael_tensor *weight = range(6), *x = MADE(kael_rand(SHAPE(4, 6), KAEL_F32));
  kael_tensor *target = MADE(kael_from_data((int64_t[]){1, 0, 5, 2}, SHAPE(4), KAEL_I64));
  OK(kael_requires_grad_(weight, true));
  for (int i = 0; i < 10; i++) train(weight, x, target);
  kael_stats before = now();
  uint64_t n_live = kl_allocator_stats_get().n_live;
  for (int i = 0; i < 2000; i++) train(weight, x, target);
  kael_stats after = now();
  ck_assert_int_eq(after.pending_values, before.pending_values);
  ck_assert_uint_eq(after.memory_in_use, before.memory_in_use);
  ck_assert_uint_eq(after.memory_cached, before.memory_cached);
  ck_assert_uint_eq(kl_allocator_stats_get().n_live, n_live);
  ck_assert_int_eq(after.programs_built, before.programs_built);
  ck_assert_int_eq(kael_references(weight), 1);
  ck_assert_int_eq(kael_storage_references(kael_tensor_storage(weight)), 1);
}
END_TEST

START_TEST(what_nobody_can_read_any_more_is_not_run) {
  kael_tensor *x = range(64);
  kael_stats before = now();
  OK(kael_scope_begin());
  MADE(kael_sum(kael_exp(x)));
  OK(kael_scope_end());
  ck_assert_int_eq(now().pending_values, before.pending_values);
  kael_tensor *y = MADE(kael_neg(x));
  OK(kael_eval(&y, 1));
  kael_stats after = now();
  ck_assert_int_eq(after.runs - before.runs, 1);
  ck_assert_int_eq(after.kernels - before.kernels, 1);
  ck_assert_int_eq(after.bytes_written - before.bytes_written, 64 * 4);
}
END_TEST

START_TEST(a_value_overwritten_before_anyone_reads_it_is_not_run) {
  kael_tensor *x = range(64), *many = MADE(kael_ones(SHAPE(1000), KAEL_F32));
  kael_stats before = now();
  OK(kael_scope_begin());
  OK(kael_add_(x, kael_sum(kael_exp(many))));
  OK(kael_scope_end());
  OK(kael_exp_(x));
  OK(kael_fill_(x, kael_f(3)));
  ck_assert_int_eq(now().pending_values - before.pending_values, 1);
  OK(kael_eval(&x, 1));
  kael_stats after = now();
  ck_assert_int_eq(after.kernels - before.kernels, 1);
  ck_assert_int_eq(after.bytes_read, before.bytes_read);
}
END_TEST

/* --- Fixtures --------------------------------------------------------------------------------- */

static void begin_eager(void) { kl_test_begin(0); }
static void begin_lazy(void) { kl_test_begin(1); }

/* The environment is read once, so this must come before the process first asks for an option. */
static void begin_without_flush(void) {
  setenv("KAEL_FLUSH_NODES", "2000000", 1);
  setenv("KAEL_FLUSH_BYTES", "4G", 1);
  kl_test_begin(1);
}

int main(void) {
  Suite *suite = suite_create("lazy");
  const TTest *const in_both_modes[] = {
      a_write_through_a_view_of_a_pending_tensor_reaches_its_base,
      a_write_through_the_base_is_seen_by_views_made_before,
      a_write_through_a_view_with_gaps_keeps_what_is_between,
      writes_through_overlapping_views_are_made_in_order,
      copying_a_tensor_over_itself_shifted_copies_the_old_elements,
      a_reader_recorded_before_a_write_sees_the_old_value_in_any_order_of_reads,
      an_export_pins_the_address_and_runs_pending_readers_first,
      readonly_memory_is_read_late_and_never_written,
      owned_external_memory_has_the_result_when_it_is_asked_for,
      shared_memory_is_read_and_written_at_the_call,
      external_memories_that_overlap_see_each_others_writes,
      a_million_operations_that_nobody_reads_run_in_flat_memory,
      a_million_operations_in_place_run_in_flat_memory,
      a_million_operations_among_many_live_tensors_run_in_flat_memory,
      large_results_that_nobody_reads_do_not_pile_up,
      a_differentiable_chain_of_a_million_is_freed_without_recursion,
      backward_walks_a_long_chain_without_recursion,
      a_chain_in_place_needs_no_second_buffer,
      counts_stay_the_same_over_thousands_of_iterations,
  };
  const TTest *const lazy_only[] = {
      a_reader_outside_the_run_keeps_the_old_bytes,
      a_write_alone_works_in_the_old_buffer,
      a_run_that_fails_for_lack_of_memory_can_be_repeated,
      a_run_beyond_the_memory_limit_can_be_repeated_with_more,
      what_nobody_can_read_any_more_is_not_run,
      a_value_overwritten_before_anyone_reads_it_is_not_run,
  };
  const TTest *const without_flush[] = {
      a_pending_chain_of_a_million_is_freed_without_recursion,
      a_long_pending_chain_is_evaluated_without_recursion,
  };
  TCase *eager = tcase_create("eager"), *lazy = tcase_create("lazy");
  TCase *unflushed = tcase_create("without automatic flush");
  tcase_add_checked_fixture(eager, begin_eager, kl_test_end);
  tcase_add_checked_fixture(lazy, begin_lazy, kl_test_end);
  tcase_add_checked_fixture(unflushed, begin_without_flush, kl_test_end);
  for (size_t i = 0; i < sizeof in_both_modes / sizeof *in_both_modes; i++) {
    tcase_add_test(eager, in_both_modes[i]);
    tcase_add_test(lazy, in_both_modes[i]);
  }
  for (size_t i = 0; i < sizeof lazy_only / sizeof *lazy_only; i++)
    tcase_add_test(lazy, lazy_only[i]);
  for (size_t i = 0; i < sizeof without_flush / sizeof *without_flush; i++)
    tcase_add_test(unflushed, without_flush[i]);
  suite_add_tcase(suite, eager);
  suite_add_tcase(suite, lazy);
  suite_add_tcase(suite, unflushed);
  return kl_test_run(suite);
}
