/* The caching allocator and the buffers over it: reuse, figures, the cap, failures, threads. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ir/support/memory.h"
#include "runtime/allocator.h"
#include "runtime/buffer.h"
#include "tests/support/runner.h"

static const size_t mib = (size_t)1 << 20;

static void *must_allocate(size_t nbytes, size_t *out_capacity) {
  void *ptr = NULL;
  ck_assert_int_eq(kl_allocator_allocate(nbytes, &ptr, out_capacity), KL_OK);
  return ptr;
}

START_TEST(blocks_are_aligned_writable_and_waste_little) {
  for (size_t nbytes = 0; nbytes < 40 * mib; nbytes = nbytes * 5 / 4 + 1) {
    size_t capacity;
    char *ptr = must_allocate(nbytes, &capacity);
    ck_assert_uint_eq((uintptr_t)ptr % 64, 0);
    ck_assert_uint_ge(capacity, nbytes);
    ck_assert_uint_le(capacity, nbytes + nbytes / 8 + 64);
    memset(ptr, 0xa5, nbytes);
    kl_allocator_free(ptr, capacity);
  }
}
END_TEST

START_TEST(a_freed_block_serves_the_next_request_of_its_class) {
  static const size_t sizes[] = {1, 100, 5000, 200000, 3000000, 70000000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    size_t capacity, again;
    void *first = must_allocate(sizes[i], &capacity);
    kl_allocator_free(first, capacity);
    uint64_t n_hits = kl_allocator_stats_get().n_cache_hits;
    ck_assert_ptr_eq(must_allocate(sizes[i], &again), first);
    ck_assert_uint_eq(again, capacity);
    ck_assert_uint_eq(kl_allocator_stats_get().n_cache_hits, n_hits + 1);
    kl_allocator_free(first, capacity);
  }
}
END_TEST

START_TEST(figures_follow_use_cache_and_peak) {
  kl_allocator_trim();
  kl_allocator_stats start = kl_allocator_stats_get();
  ck_assert_uint_eq(start.cached_nbytes, 0);
  kl_allocator_reset_peak();
  size_t c1, c2;
  void *a = must_allocate(3 * mib, &c1), *b = must_allocate(1000, &c2);
  kl_allocator_stats both = kl_allocator_stats_get();
  ck_assert_uint_eq(both.in_use_nbytes, start.in_use_nbytes + c1 + c2);
  ck_assert_uint_eq(both.n_live, start.n_live + 2);
  kl_allocator_free(a, c1);
  kl_allocator_free(b, c2);
  kl_allocator_stats end = kl_allocator_stats_get();
  ck_assert_uint_eq(end.in_use_nbytes, start.in_use_nbytes);
  ck_assert_uint_eq(end.cached_nbytes, c1 + c2);
  ck_assert_uint_eq(end.peak_nbytes, start.in_use_nbytes + c1 + c2);
  kl_allocator_trim();
  ck_assert_uint_eq(kl_allocator_stats_get().cached_nbytes, 0);
}
END_TEST

START_TEST(beyond_the_cap_a_request_fails_and_names_the_figures) {
  kl_allocator_trim();
  kl_allocator_set_limit(kl_allocator_stats_get().in_use_nbytes + 4 * mib);
  size_t capacity, other;
  void *kept = must_allocate(3 * mib, &capacity), *refused = NULL;
  ck_assert_int_eq(kl_allocator_allocate(2 * mib, &refused, &other), KL_ERR_OUT_OF_MEMORY);
  ck_assert_ptr_null(refused);
  const char *message = kl_error_message();
  ck_assert_msg(strstr(message, "asked for 2097152 bytes") && strstr(message, "3145728 in use") &&
                    strstr(message, "0 cached") && strstr(message, "cap is 4194304"),
                "%s", message);
  kl_allocator_free(kept, capacity);
  kl_allocator_set_limit(0);
}
END_TEST

START_TEST(the_cache_is_emptied_before_a_request_fails) {
  kl_allocator_trim();
  kl_allocator_set_limit(kl_allocator_stats_get().in_use_nbytes + 4 * mib);
  size_t capacity;
  void *cached = must_allocate(3 * mib, &capacity);
  kl_allocator_free(cached, capacity);
  ck_assert_uint_eq(kl_allocator_stats_get().cached_nbytes, capacity);
  void *ptr = must_allocate(2 * mib, &capacity);
  ck_assert_uint_eq(kl_allocator_stats_get().cached_nbytes, 0);
  kl_allocator_free(ptr, capacity);
  kl_allocator_set_limit(0);
}
END_TEST

START_TEST(the_cache_stays_within_its_bound_and_keeps_what_came_last) {
  kl_allocator_trim();
  kl_allocator_set_cache_limit(3 * mib);
  void *blocks[4];
  size_t capacities[4];
  for (size_t i = 0; i < 4; i++) blocks[i] = must_allocate((i + 1) * mib, &capacities[i]);
  for (size_t i = 0; i < 4; i++) {
    kl_allocator_free(blocks[i], capacities[i]);
    ck_assert_uint_le(kl_allocator_stats_get().cached_nbytes, 3 * mib);
  }
  size_t capacity;
  void *small = must_allocate(100, &capacity);
  kl_allocator_free(small, capacity);
  uint64_t n_hits = kl_allocator_stats_get().n_cache_hits;
  ck_assert_ptr_eq(must_allocate(100, &capacity), small);
  ck_assert_uint_eq(kl_allocator_stats_get().n_cache_hits, n_hits + 1);
  kl_allocator_free(small, capacity);
  kl_allocator_set_cache_limit(0);
  ck_assert_uint_eq(kl_allocator_stats_get().cached_nbytes, 0);
}
END_TEST

START_TEST(an_impossible_size_is_a_status) {
  void *ptr;
  size_t capacity;
  ck_assert_int_eq(kl_allocator_allocate(SIZE_MAX, &ptr, &capacity), KL_ERR_OUT_OF_MEMORY);
  ck_assert_int_eq(kl_allocator_allocate((size_t)1 << 46, &ptr, &capacity), KL_ERR_OUT_OF_MEMORY);
}
END_TEST

START_TEST(every_failing_allocation_of_a_buffer_is_a_status_and_leaks_nothing) {
  static const size_t sizes[] = {100, 5 * 1024 * 1024};
  for (int i = 0; i < 2; i++) {
    uint64_t n_live = kl_allocator_stats_get().n_live;
    for (long nth = 1;; nth++) {
      kl_buffer *buffer = NULL;
      kl_memory_fail_nth(nth);
      kl_status status = kl_buffer_create(sizes[i], &buffer);
      kl_memory_fail_nth(0);
      if (status == KL_OK) {
        ck_assert_int_eq(nth, i + 2); /* a large buffer allocates twice */
        kl_buffer_release(buffer);
        break;
      }
      ck_assert_int_eq(status, KL_ERR_OUT_OF_MEMORY);
      ck_assert_ptr_null(buffer);
      ck_assert_uint_eq(kl_allocator_stats_get().n_live, n_live);
    }
    ck_assert_uint_eq(kl_allocator_stats_get().n_live, n_live);
  }
}
END_TEST

START_TEST(a_buffer_lives_until_its_last_release) {
  static const size_t sizes[] = {0, 1, 4096, 65536, 65537, 4194304};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    uint64_t n_live = kl_allocator_stats_get().n_live;
    kl_buffer *buffer;
    ck_assert_int_eq(kl_buffer_create(sizes[i], &buffer), KL_OK);
    ck_assert_uint_eq(buffer->nbytes, sizes[i]);
    ck_assert_uint_eq((uintptr_t)buffer->ptr % 64, 0);
    memset(buffer->ptr, 1, sizes[i]);
    ck_assert(kl_buffer_is_unique(buffer));
    ck_assert_ptr_eq(kl_buffer_retain(buffer), buffer);
    ck_assert(!kl_buffer_is_unique(buffer));
    kl_buffer_release(buffer);
    ck_assert_uint_gt(kl_allocator_stats_get().n_live, n_live);
    kl_buffer_release(buffer);
    ck_assert_uint_eq(kl_allocator_stats_get().n_live, n_live);
  }
  kl_buffer_release(NULL);
  ck_assert_ptr_null(kl_buffer_retain(NULL));
}
END_TEST

static void count_deletion(void *ptr, void *user) {
  int *counted = user;
  ck_assert_ptr_eq(ptr, counted + 1);
  counted[0]++;
}

START_TEST(the_deleter_of_external_bytes_runs_once_at_the_last_release) {
  int memory[2] = {0, 7};
  kl_buffer *buffer;
  ck_assert_int_eq(kl_buffer_create_external(&memory[1], sizeof(int), count_deletion, memory,
                                             KL_BUFFER_READONLY, &buffer),
                   KL_OK);
  ck_assert_uint_eq(buffer->flags, KL_BUFFER_EXTERNAL | KL_BUFFER_READONLY);
  kl_buffer_retain(buffer);
  kl_buffer_release(buffer);
  ck_assert_int_eq(memory[0], 0);
  kl_buffer_release(buffer);
  ck_assert_int_eq(memory[0], 1);
}
END_TEST

/* Fills its blocks with its own byte, so that a block given to two threads at once is seen. */
static void *churn(void *arg) {
  unsigned char mark = *(unsigned char *)arg;
  unsigned state = mark;
  intptr_t n_wrong = 0;
  kl_buffer *held[16] = {NULL};
  for (int i = 0; i < 20000; i++) {
    state = state * 1664525u + 1013904223u;
    kl_buffer **slot = &held[state >> 28];
    if (*slot) {
      unsigned char *bytes = (*slot)->ptr;
      n_wrong += bytes[0] != mark || bytes[(*slot)->nbytes - 1] != mark;
      kl_buffer_release(*slot);
    }
    if (kl_buffer_create(1 + (state >> 8) % 3000, slot) != KL_OK) return (void *)(intptr_t)-1;
    memset((*slot)->ptr, mark, (*slot)->nbytes);
  }
  for (int i = 0; i < 16; i++) kl_buffer_release(held[i]);
  return (void *)n_wrong;
}

START_TEST(threads_never_get_the_same_block) {
  pthread_t threads[4];
  unsigned char marks[4] = {1, 2, 3, 4};
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, churn, &marks[i]);
  for (int i = 0; i < 4; i++) {
    void *n_wrong;
    pthread_join(threads[i], &n_wrong);
    ck_assert_int_eq((intptr_t)n_wrong, 0);
  }
}
END_TEST

START_TEST(a_child_forked_while_others_allocate_can_allocate) {
  pthread_t thread;
  unsigned char mark = 9;
  pthread_create(&thread, NULL, churn, &mark);
  for (int i = 0; i < 20; i++) {
    pid_t child = fork();
    if (child == 0) {
      alarm(60);
      kl_buffer *buffer;
      _exit(kl_buffer_create(100, &buffer) == KL_OK ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    ck_assert_int_eq(status, 0);
  }
  pthread_join(thread, NULL);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("allocator");
  TCase *tc = tcase_create("allocator");
  tcase_set_timeout(tc, 120);
  tcase_add_test(tc, blocks_are_aligned_writable_and_waste_little);
  tcase_add_test(tc, a_freed_block_serves_the_next_request_of_its_class);
  tcase_add_test(tc, figures_follow_use_cache_and_peak);
  tcase_add_test(tc, beyond_the_cap_a_request_fails_and_names_the_figures);
  tcase_add_test(tc, the_cache_is_emptied_before_a_request_fails);
  tcase_add_test(tc, the_cache_stays_within_its_bound_and_keeps_what_came_last);
  tcase_add_test(tc, an_impossible_size_is_a_status);
  tcase_add_test(tc, every_failing_allocation_of_a_buffer_is_a_status_and_leaks_nothing);
  tcase_add_test(tc, a_buffer_lives_until_its_last_release);
  tcase_add_test(tc, the_deleter_of_external_bytes_runs_once_at_the_last_release);
  tcase_add_test(tc, threads_never_get_the_same_block);
  tcase_add_test(tc, a_child_forked_while_others_allocate_can_allocate);
  suite_add_tcase(suite, tc);
  return kl_test_run(suite);
}
