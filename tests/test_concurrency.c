/* Several threads at once: own graphs, shared operands, one storage under races, handles that die
 * elsewhere, backward passes, first uses, forks, and owners of external memory that call back.
 *
 * Races on one storage are the user's error; what these tests ask of them is that nothing breaks.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/tensors.h"

typedef kael_tensor *T;

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#else
#define UNDER_TSAN 0
#endif

enum { N_THREADS = 6, MAX_THREADS = 16, N_ROUNDS = UNDER_TSAN ? 40 : 150, N_ELEMS = 700 };

/* What the threads of a test share. Check's assertions belong to the main thread: the others note
 * the first thing that went wrong. */
typedef struct shared {
  T a, b;
  T made[MAX_THREADS];
  kael_jit_mode mode;
  pthread_barrier_t start;
  atomic_int n_wrong;
  char wrong[256];
} shared;

typedef struct worker {
  shared *common;
  int number;
  pthread_t thread;
} worker;

static void note_wrong(shared *common, const char *what) {
  if (atomic_fetch_add(&common->n_wrong, 1) == 0)
    snprintf(common->wrong, sizeof common->wrong, "%s (%s)", what, kael_last_error().message);
}

#define EXPECT(common, condition)                                                                  \
  do {                                                                                             \
    if (!(condition)) note_wrong(common, #condition);                                              \
  } while (0)

static void run_threads(shared *common, int n, void *(*body)(void *)) {
  worker workers[MAX_THREADS];
  pthread_barrier_init(&common->start, NULL, (unsigned)n);
  for (int i = 0; i < n; i++) {
    workers[i] = (worker){.common = common, .number = i};
    ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, body, &workers[i]), 0);
  }
  for (int i = 0; i < n; i++) pthread_join(workers[i].thread, NULL);
  pthread_barrier_destroy(&common->start);
  ck_assert_msg(atomic_load(&common->n_wrong) == 0, "%s", common->wrong);
}

static void enter(worker *self) {
  if (self->common->mode != KAEL_JIT_DEFAULT)
    EXPECT(self->common, kael_set_jit(self->common->mode) == KAEL_OK);
  pthread_barrier_wait(&self->common->start);
}

static T vector_of(double number) { return kael_full(1, (int64_t[]){N_ELEMS}, kael_f(number), KAEL_F32); }

/* --- Own graphs over shared operands ------------------------------------------------------------
 */

static void *evaluate_own_graphs(void *opaque) {
  worker *self = opaque;
  shared *common = self->common;
  enter(self);
  for (int i = 0; i < N_ROUNDS; i++) {
    double found = 0, number = self->number + 1;
    EXPECT(common, kael_scope_begin() == KAEL_OK);
    T sum = kael_add(kael_mul_scalar(common->a, kael_f(number)), common->b);
    for (int k = 0; k < (self->number + i) % 5; k++) sum = kael_add(sum, common->b);
    EXPECT(common, kael_add_scalar_(sum, kael_i(1)) == KAEL_OK);
    T chosen = kael_amax(sum, 0, NULL, false);
    EXPECT(common, kael_item(i % 2 ? chosen : kael_mean(sum), &found) == KAEL_OK);
    EXPECT(common, found == 2 * number + 1 + (self->number + i) % 5 + 1);
    EXPECT(common, kael_scope_end() == KAEL_OK);
  }
  return NULL;
}

static void check_own_graphs(kael_jit_mode mode) {
  kl_test_begin(1);
  shared common = {.mode = mode, .a = MADE(vector_of(2)), .b = MADE(vector_of(1))};
  run_threads(&common, N_THREADS, evaluate_own_graphs); /* their operands are pending at first */
  kl_test_end();
}

START_TEST(threads_evaluate_their_own_graphs_over_shared_operands) {
  check_own_graphs(_i ? KAEL_JIT_LAZY : KAEL_JIT_EAGER);
}
END_TEST

START_TEST(threads_compile_their_own_graphs) {
  if (kael_set_jit(KAEL_JIT_SYNC) != KAEL_OK) {
    kael_clear_error();
    KL_TEST_SKIP("this build is without LLVM");
  }
  check_own_graphs(KAEL_JIT_SYNC);
}
END_TEST

/* --- One storage, written and read ---------------------------------------------------------------
 */

static void write_shared(shared *common, int i) {
  T part = kael_slice(common->a, 0, i % 3, KAEL_END, 2);
  EXPECT(common, kael_add_scalar_(i % 2 ? part : common->a, kael_i(1)) == KAEL_OK);
  if (i % 7 == 0) EXPECT(common, kael_fill_(common->a, kael_f(i)) == KAEL_OK);
  if (i % 11 == 0) EXPECT(common, kael_copy_(part, kael_slice(common->b, 0, i % 3, KAEL_END, 2)) == KAEL_OK);
}

static void read_shared(shared *common, int i) {
  float bytes[N_ELEMS];
  double number;
  EXPECT(common, kael_copy_to_host(common->a, bytes, sizeof bytes) == KAEL_OK);
  EXPECT(common, kael_item(kael_sum(kael_mul(common->a, common->b)), &number) == KAEL_OK);
  EXPECT(common, kael_item(kael_select(common->a, 0, i % N_ELEMS), &number) == KAEL_OK);
  char *text = i % 5 ? kael_explain(common->a) : kael_to_string(common->a);
  EXPECT(common, text != NULL);
  kael_string_free(text);
}

static void *write_or_read(void *opaque) {
  worker *self = opaque;
  enter(self);
  for (int i = 0; i < N_ROUNDS; i++) {
    EXPECT(self->common, kael_scope_begin() == KAEL_OK);
    if (self->number < 2)
      write_shared(self->common, i);
    else
      read_shared(self->common, i);
    EXPECT(self->common, kael_scope_end() == KAEL_OK);
  }
  return NULL;
}

START_TEST(a_storage_written_by_some_threads_and_read_by_others_stays_whole) {
  kl_test_begin(1);
  shared common = {.mode = _i ? KAEL_JIT_LAZY : KAEL_JIT_EAGER,
                   .a = MADE(vector_of(2)),
                   .b = MADE(vector_of(1))};
  run_threads(&common, N_THREADS, write_or_read);
  OK(kael_fill_(common.a, kael_f(3)));
  double found;
  OK(kael_item(MADE(kael_sum(common.a)), &found));
  ck_assert_double_eq(found, 3.0 * N_ELEMS);
  kl_test_end();
}
END_TEST

static void *export_or_write(void *opaque) {
  worker *self = opaque;
  shared *common = self->common;
  enter(self);
  EXPECT(common, kael_scope_begin() == KAEL_OK);
  if (self->number % 2) {
    for (int i = 0; i < N_ROUNDS; i++)
      EXPECT(common, kael_add_scalar_(common->a, kael_i(1)) == KAEL_OK);
  } else {
    void *first = kael_mutable_data_ptr(common->a);
    EXPECT(common, first != NULL);
    for (int i = 0; i < N_ROUNDS; i++) EXPECT(common, kael_mutable_data_ptr(common->a) == first);
  }
  EXPECT(common, kael_scope_end() == KAEL_OK);
  return NULL;
}

START_TEST(an_export_while_others_write_gives_one_address) {
  kl_test_begin(1);
  shared common = {.mode = _i ? KAEL_JIT_LAZY : KAEL_JIT_EAGER, .a = MADE(vector_of(0))};
  run_threads(&common, N_THREADS, export_or_write);
  OK(kael_fill_(common.a, kael_f(5)));
  ck_assert_float_eq(((const float *)kael_mutable_data_ptr(common.a))[N_ELEMS - 1], 5);
  kl_test_end();
}
END_TEST

/* --- Handles that die on another thread ----------------------------------------------------------
 */

static void *make_and_release(void *opaque) {
  worker *self = opaque;
  shared *common = self->common;
  enter(self);
  for (int i = 0; i < N_ROUNDS; i++) {
    T made = kael_add(common->a, common->b);
    T longer = kael_exp(made);
    T view = kael_narrow(longer, 0, 1, 3);
    EXPECT(common, kael_release(longer) == KAEL_OK);
    EXPECT(common, kael_release(common->made[self->number]) == KAEL_OK);
    common->made[self->number] = made;
    if (i % 3 == 0) EXPECT(common, kael_eval(&view, 1) == KAEL_OK);
    pthread_barrier_wait(&common->start);
    int next = (self->number + 1) % N_THREADS;
    EXPECT(common, kael_release(common->made[next]) == KAEL_OK);
    common->made[next] = view;
    pthread_barrier_wait(&common->start);
  }
  return NULL;
}

START_TEST(handles_are_released_on_other_threads) {
  kl_test_begin(1);
  shared common = {.mode = KAEL_JIT_LAZY, .a = MADE(vector_of(0)), .b = MADE(vector_of(1))};
  kael_stats before = {.size = sizeof before}, after = before;
  OK(kael_eval((T[]){common.a, common.b}, 2));
  OK(kael_stats_get(&before));
  run_threads(&common, N_THREADS, make_and_release);
  for (int i = 0; i < N_THREADS; i++) OK(kael_release(common.made[i]));
  OK(kael_stats_get(&after));
  ck_assert_int_eq(after.pending_values, before.pending_values);
  kl_test_end();
}
END_TEST

/* --- Backward passes ----------------------------------------------------------------------------
 */

static void *differentiate(void *opaque) {
  worker *self = opaque;
  shared *common = self->common;
  enter(self);
  for (int i = 0; i < N_ROUNDS / 4; i++) {
    double found = 0;
    EXPECT(common, kael_scope_begin() == KAEL_OK);
    T x = kael_full(1, (int64_t[]){8}, kael_f(3), KAEL_F32);
    EXPECT(common, kael_requires_grad_(x, true) == KAEL_OK);
    T loss = kael_sum(kael_mul(kael_mul(x, x), common->a));
    EXPECT(common, kael_backward(loss, KAEL_NONE, false, false) == KAEL_OK);
    EXPECT(common, kael_item(kael_sum(kael_grad(x)), &found) == KAEL_OK);
    EXPECT(common, found == 8 * 6);
    EXPECT(common, kael_scope_end() == KAEL_OK);
  }
  return NULL;
}

START_TEST(threads_run_backward_passes_that_share_a_leaf) {
  kl_test_begin(1);
  shared common = {.mode = _i ? KAEL_JIT_LAZY : KAEL_JIT_EAGER,
                   .a = MADE(kael_ones(SHAPE(8), KAEL_F32))};
  OK(kael_requires_grad_(common.a, true));
  run_threads(&common, N_THREADS, differentiate);
  double found;
  OK(kael_item(MADE(kael_sum(MADE(kael_grad(common.a)))), &found));
  ck_assert_double_eq(found, 8.0 * 9 * N_THREADS * (N_ROUNDS / 4));
  kl_test_end();
}
END_TEST

/* --- First use ----------------------------------------------------------------------------------
 */

static void *use_first(void *opaque) {
  worker *self = opaque;
  double found = 0;
  enter(self);
  T a = vector_of(self->number), b = kael_exp(kael_sub(a, a));
  EXPECT(self->common, kael_item(kael_narrow(b, 0, 5, 1), &found) == KAEL_OK && found == 1);
  return NULL;
}

/* In a child, so that nothing of the library was used before. Leaves its handles to the exit. */
static int race_to_first_use(kael_jit_mode mode) {
  pid_t child = fork();
  if (child == 0) {
    shared common = {.mode = mode};
    run_threads(&common, MAX_THREADS, use_first);
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

START_TEST(the_first_use_may_be_by_many_threads_at_once) {
  for (int i = 0; i < 4; i++)
    ck_assert_int_eq(race_to_first_use(_i ? KAEL_JIT_LAZY : KAEL_JIT_EAGER), 0);
}
END_TEST

START_TEST(the_first_compilation_may_be_by_many_threads_at_once) {
  if (kael_set_jit(KAEL_JIT_SYNC) != KAEL_OK) {
    kael_clear_error();
    KL_TEST_SKIP("this build is without LLVM");
  }
  ck_assert_int_eq(race_to_first_use(KAEL_JIT_SYNC), 0);
}
END_TEST

/* --- Fork ---------------------------------------------------------------------------------------
 */

static atomic_bool stop_working;

static void *work_until_stopped(void *opaque) {
  worker *self = opaque;
  enter(self);
  for (int i = 0; !atomic_load(&stop_working); i++) {
    kael_scope_begin();
    T big = kael_full(2, (int64_t[]){300, 300}, kael_f(i), KAEL_F32);
    T loss = kael_sum(kael_mul(big, big));
    EXPECT(self->common, kael_eval(&loss, 1) == KAEL_OK);
    char *text = kael_explain(loss);
    kael_string_free(text);
    kael_scope_end();
  }
  return NULL;
}

/* Uses all that has a lock; a child that meets one taken for ever is ended by the alarm. */
static void use_in_child(shared *common) {
  alarm(60);
  double found = 0;
  kael_scope_begin();
  T a = kael_mul_scalar(common->a, kael_f(3)), noise = kael_rand(1, (int64_t[]){4}, KAEL_F32);
  kael_requires_grad_(a, true);
  T loss = kael_sum(kael_square(a));
  bool works = kael_backward(loss, KAEL_NONE, false, false) == KAEL_OK &&
               kael_item(kael_sum(kael_grad(a)), &found) == KAEL_OK && found == 12.0 * N_ELEMS &&
               kael_eval(&noise, 1) == KAEL_OK;
  kael_string_free(kael_explain(loss));
  kael_scope_end();
  _exit(works ? 0 : 1);
}

static void *fork_often(void *opaque) {
  worker *self = opaque;
  enter(self);
  for (int i = 0; i < (UNDER_TSAN ? 5 : 20); i++) {
    pid_t child = fork();
    if (child == 0) use_in_child(self->common);
    int status = -1;
    waitpid(child, &status, 0);
    if (status != 0) note_wrong(self->common, "a child failed");
  }
  atomic_store(&stop_working, true);
  return NULL;
}

static void *fork_or_work(void *opaque) {
  return ((worker *)opaque)->number == 0 ? fork_often(opaque) : work_until_stopped(opaque);
}

START_TEST(a_child_forked_while_others_evaluate_can_use_the_library) {
#if defined(__SANITIZE_ADDRESS__)
  KL_TEST_SKIP("the sanitizer's own allocator may stay locked in the child");
#endif
  kl_test_begin(1);
  shared common = {.mode = _i ? KAEL_JIT_LAZY : KAEL_JIT_EAGER, .a = MADE(vector_of(2))};
  run_threads(&common, 3, fork_or_work);
  kl_test_end();
}
END_TEST

/* --- Calls from inside the library ---------------------------------------------------------------
 */

static atomic_int n_deleted;

static void evaluate_and_free(void *ptr, void *user) {
  double found = 0;
  (void)user;
  kael_scope_begin();
  T sum = kael_sum(vector_of(1));
  if (kael_item(sum, &found) == KAEL_OK && found == N_ELEMS) atomic_fetch_add(&n_deleted, 1);
  kael_scope_end();
  free(ptr);
}

static T external_vector(unsigned flags) {
  size_t nbytes = sizeof(float) * N_ELEMS;
  float *bytes = calloc(1, nbytes);
  kael_storage *storage = kael_storage_external(bytes, nbytes, evaluate_and_free, NULL, flags);
  ck_assert_ptr_nonnull(storage);
  T tensor = MADE(kael_tensor_from_parts(storage, SHAPE(N_ELEMS), (int64_t[]){1}, 0, KAEL_F32));
  kael_storage_release(storage);
  return tensor;
}

START_TEST(the_owner_of_external_memory_may_evaluate_when_it_is_given_back) {
  OK(kael_set_jit(_i ? KAEL_JIT_LAZY : KAEL_JIT_EAGER));
  unsigned flags[] = {KAEL_STORAGE_OWNED, KAEL_STORAGE_READONLY, KAEL_STORAGE_SHARED};
  int before = atomic_load(&n_deleted);
  for (int i = 0; i < 3; i++) {
    T memory = external_vector(flags[i]);
    T reader = MADE(kael_add_scalar(memory, kael_i(1)));
    if (flags[i] != KAEL_STORAGE_READONLY) OK(kael_add_scalar_(memory, kael_i(1)));
    OK(kael_release(memory)); /* in lazy mode the run below lets go of it */
    OK(kael_eval(&reader, 1));
    OK(kael_release(reader));
  }
  ck_assert_int_eq(atomic_load(&n_deleted) - before, 3);
}
END_TEST

static void evaluate_in_log(int level, const char *message, void *user) {
  (void)level, (void)message;
  T *tensor = user;
  if (kael_eval(tensor, 1) != KAEL_OK) kael_clear_error();
  kael_string_free(kael_explain(*tensor));
}

/* The options are read at the first use, hence a child. */
START_TEST(a_log_callback_that_evaluates_gets_an_error_and_no_deadlock) {
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    setenv("KAEL_DEBUG", "3", 1);
    kael_set_jit(KAEL_JIT_LAZY);
    T pending = vector_of(1);
    kael_set_log_callback(evaluate_in_log, &pending);
    double found = 0;
    T read = kael_sum(kael_exp(vector_of(0)));
    bool works = kael_item(read, &found) == KAEL_OK && found == N_ELEMS;
    _exit(works ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  ck_assert_int_eq(status, 0);
}
END_TEST

/* --- Exit ---------------------------------------------------------------------------------------
 */

static T left_pending;

static void *work_for_ever(void *opaque) {
  worker *self = opaque;
  kael_set_jit(self->common->mode);
  pthread_barrier_wait(&self->common->start);
  for (int i = 0;; i++) {
    T a = vector_of(i);
    for (int k = 0; k < i % 40; k++) kael_exp_(a);
    kael_eval(&a, 1);
    kael_release(a);
  }
  return NULL;
}

START_TEST(a_process_may_end_with_pending_work_and_busy_threads) {
  const kael_jit_mode modes[] = {KAEL_JIT_LAZY, KAEL_JIT_SYNC};
  if (kael_set_jit(modes[_i]) != KAEL_OK) {
    kael_clear_error();
    KL_TEST_SKIP("this build is without LLVM");
  }
  for (int i = 0; i < 3; i++) {
    pid_t child = fork();
    if (child == 0) {
      alarm(60);
      shared common = {.mode = modes[_i]};
      worker workers[2] = {{.common = &common}, {.common = &common}};
      pthread_barrier_init(&common.start, NULL, 3);
      for (int k = 0; k < 2; k++) pthread_create(&workers[k].thread, NULL, work_for_ever, &workers[k]);
      pthread_barrier_wait(&common.start);
      left_pending = vector_of(1);
      kael_exp_(left_pending);
      usleep((unsigned)(i * 20000)); /* to end at different moments; nothing depends on which */
      exit(left_pending ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    ck_assert_int_eq(status, 0);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("concurrency");
  TCase *both = tcase_create("eager and lazy");
  tcase_add_loop_test(both, the_first_use_may_be_by_many_threads_at_once, 0, 2);
  tcase_add_loop_test(both, threads_evaluate_their_own_graphs_over_shared_operands, 0, 2);
  tcase_add_loop_test(both, a_storage_written_by_some_threads_and_read_by_others_stays_whole, 0, 2);
  tcase_add_loop_test(both, an_export_while_others_write_gives_one_address, 0, 2);
  tcase_add_loop_test(both, threads_run_backward_passes_that_share_a_leaf, 0, 2);
  tcase_add_loop_test(both, a_child_forked_while_others_evaluate_can_use_the_library, 0, 2);
  tcase_add_loop_test(both, the_owner_of_external_memory_may_evaluate_when_it_is_given_back, 0, 2);
  tcase_add_loop_test(both, a_process_may_end_with_pending_work_and_busy_threads, 0, 2);
  suite_add_tcase(suite, both);
  TCase *others = tcase_create("others");
  tcase_add_test(others, the_first_compilation_may_be_by_many_threads_at_once);
  tcase_add_test(others, threads_compile_their_own_graphs);
  tcase_add_test(others, handles_are_released_on_other_threads);
  tcase_add_test(others, a_log_callback_that_evaluates_gets_an_error_and_no_deadlock);
  suite_add_tcase(suite, others);
  return kl_test_run(suite);
}
