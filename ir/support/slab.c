/* Size classes in steps of 64 bytes; thread lists; batches on a global stack under a mutex. */
#include "ir/support/slab.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "ir/support/fork.h"
#include "ir/support/memory.h"

#if defined(__SANITIZE_ADDRESS__)
#define PLAIN_MALLOC 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PLAIN_MALLOC 1
#endif
#endif
#ifndef PLAIN_MALLOC
#define PLAIN_MALLOC 0
#endif

enum { STEP = 64, N_CLASSES = 16, BATCH = 64, SLAB_NBYTES = 64 * 1024 };

/* What a free block holds. `next_batch` and `count` are used in the first block of a batch. */
typedef struct block {
  struct block *next;
  struct block *next_batch;
  uint32_t count;
} block;

typedef struct thread_list {
  block *head;
  uint32_t count;
} thread_list;

static _Thread_local thread_list lists[N_CLASSES];
static _Thread_local bool has_destructor;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static block *batches[N_CLASSES];
static pthread_key_t exit_key;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

__attribute__((constructor)) static void keep_lock(void) {
  kl_fork_keep(KL_LOCK_SLAB, &mutex, NULL);
}

static size_t class_of(size_t nbytes) { return nbytes ? (nbytes - 1) / STEP : 0; }

static void push_batch(size_t class, block *first, uint32_t count) {
  first->count = count;
  pthread_mutex_lock(&mutex);
  first->next_batch = batches[class];
  batches[class] = first;
  pthread_mutex_unlock(&mutex);
}

static block *pop_batch(size_t class) {
  pthread_mutex_lock(&mutex);
  block *first = batches[class];
  if (first) batches[class] = first->next_batch;
  pthread_mutex_unlock(&mutex);
  return first;
}

static void give_lists_back(void *unused) {
  (void)unused;
  for (size_t class = 0; class < N_CLASSES; class ++) {
    if (lists[class].head) push_batch(class, lists[class].head, lists[class].count);
    lists[class] = (thread_list){0};
  }
  has_destructor = false;
}

static void make_exit_key(void) { (void)pthread_key_create(&exit_key, give_lists_back); }

static void ensure_destructor(void) {
  if (has_destructor) return;
  pthread_once(&exit_once, make_exit_key);
  has_destructor = pthread_setspecific(exit_key, &lists) == 0;
}

/* Fills an empty list with a batch, or with a newly cut slab. */
static bool refill(size_t class, thread_list *list) {
  ensure_destructor();
  block *first = pop_batch(class);
  if (first) {
    list->head = first;
    list->count = first->count;
    return true;
  }
  size_t nbytes = (class + 1) * STEP;
  char *slab = aligned_alloc(STEP, SLAB_NBYTES);
  if (!slab) return false;
  for (size_t at = 0; at + nbytes <= SLAB_NBYTES; at += nbytes) {
    block *free_block = (block *)(void *)(slab + at);
    free_block->next = list->head;
    list->head = free_block;
    list->count++;
  }
  return true;
}

/* Keeps BATCH blocks and hands the others on. */
static void hand_on(size_t class, thread_list *list) {
  block *last_kept = list->head;
  for (int i = 1; i < BATCH; i++) last_kept = last_kept->next;
  push_batch(class, last_kept->next, list->count - BATCH);
  last_kept->next = NULL;
  list->count = BATCH;
}

void *kl_slab_alloc(size_t nbytes) {
  size_t class = class_of(nbytes);
  if (PLAIN_MALLOC || class >= N_CLASSES) return kl_malloc(nbytes);
  if (kl_memory_should_fail()) return NULL;
  thread_list *list = &lists[class];
  if (__builtin_expect(!list->head, 0) && !refill(class, list)) return NULL;
  block *taken = list->head;
  list->head = taken->next;
  list->count--;
  return taken;
}

void kl_slab_free(void *ptr, size_t nbytes) {
  if (!ptr) return;
  size_t class = class_of(nbytes);
  if (PLAIN_MALLOC || class >= N_CLASSES) {
    kl_free(ptr);
    return;
  }
  thread_list *list = &lists[class];
  block *freed = ptr;
  freed->next = list->head;
  list->head = freed;
  /* A slab of the smallest class is cut into 1,024 blocks at once: those must find room. */
  if (__builtin_expect(++list->count >= SLAB_NBYTES / STEP + 2 * BATCH, 0)) {
    ensure_destructor();
    hand_on(class, list);
  }
}
