/* Size classes with free lists under one lock; the lock is held for a few instructions, and not
 * while the system is asked for memory.
 *
 * Invariant: in_use + cached is what the system has given, and stays within the cap.
 * Under AddressSanitizer the bytes of cached blocks, and those past a request's end, are poisoned.
 */
#include "runtime/allocator.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ir/support/fork.h"
#include "ir/support/memory.h"
#include "ir/support/options.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POISON(ptr, nbytes) ASAN_POISON_MEMORY_REGION(ptr, nbytes)
#define UNPOISON(ptr, nbytes) ASAN_UNPOISON_MEMORY_REGION(ptr, nbytes)
#else
#define POISON(ptr, nbytes) ((void)(ptr), (void)(nbytes))
#define UNPOISON(ptr, nbytes) ((void)(ptr), (void)(nbytes))
#endif

enum {
  STEP_BITS = 3, /* 2^3 classes for each power of two: at most an eighth is wasted */
  MIN_SHIFT = 6, /* the smallest class is one cache line */
  MAX_SHIFT = 47,
  CLASS_COUNT = ((MAX_SHIFT - MIN_SHIFT) << STEP_BITS) + 1,
};

/* From here on, blocks are mapped by themselves, so that they can be huge pages. */
static const size_t large_nbytes = (size_t)2 << 20;

typedef struct free_block {
  struct free_block *next;
} free_block;

static struct {
  pthread_mutex_t lock;
  free_block *free_lists[CLASS_COUNT];
  kl_allocator_stats stats;
  size_t cache_max_nbytes;
} heap = {.lock = PTHREAD_MUTEX_INITIALIZER};

__attribute__((constructor)) static void keep_lock(void) {
  kl_fork_keep(KL_LOCK_HEAP, &heap.lock, NULL);
}

static pthread_once_t heap_once = PTHREAD_ONCE_INIT;

static void lock_heap(void) { pthread_mutex_lock(&heap.lock); }
static void unlock_heap(void) { pthread_mutex_unlock(&heap.lock); }

static void start_heap(void) {
  size_t physical = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
  heap.cache_max_nbytes = physical / 4;
  heap.stats.limit_nbytes = (size_t)kl_options_get()->memory_limit;
}

static size_t round_to_lines(size_t nbytes) {
  return (nbytes + KL_ALLOCATOR_ALIGNMENT - 1) & ~(size_t)(KL_ALLOCATOR_ALIGNMENT - 1);
}

/* Class c holds blocks of (8 + c mod 8) << (c / 8 + MIN_SHIFT - STEP_BITS) bytes. Requests are
 * rounded to cache lines first, so the classes between lines stay empty. */
static int class_of(size_t nbytes) {
  if (nbytes <= (size_t)1 << MIN_SHIFT) return 0;
  size_t last = round_to_lines(nbytes) - 1;
  int shift = 63 - __builtin_clzll(last);
  int step = (int)(last >> (shift - STEP_BITS)) & ((1 << STEP_BITS) - 1);
  return ((shift - MIN_SHIFT) << STEP_BITS) + step + 1;
}

static size_t class_capacity(int class_index) {
  size_t mantissa = (size_t)(class_index & ((1 << STEP_BITS) - 1)) + (1 << STEP_BITS);
  return mantissa << ((class_index >> STEP_BITS) + MIN_SHIFT - STEP_BITS);
}

/* Maps more than asked and cuts both ends, since mmap aligns only to small pages. */
static void *map_large(size_t capacity) {
  size_t room = capacity + large_nbytes;
  char *start = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) return NULL;
  char *ptr = (char *)(((uintptr_t)start + large_nbytes - 1) & ~(uintptr_t)(large_nbytes - 1));
  if (ptr != start) munmap(start, (size_t)(ptr - start));
  if (ptr + capacity != start + room)
    munmap(ptr + capacity, (size_t)(start + room - ptr) - capacity);
  madvise(ptr, capacity, MADV_HUGEPAGE); /* only advice: a kernel without huge pages says no */
  return ptr;
}

static void *system_allocate(size_t capacity) {
  return capacity >= large_nbytes ? map_large(capacity)
                                  : aligned_alloc(KL_ALLOCATOR_ALIGNMENT, capacity);
}

static void system_free(void *ptr, size_t capacity) {
  UNPOISON(ptr, capacity);
  if (capacity >= large_nbytes) {
    munmap(ptr, capacity);
  } else {
    free(ptr);
  }
}

/* Takes cached blocks, largest first, until at most `keep_nbytes` are cached; `spare` is left
 * alone (-1: none). Caller holds the lock and frees what is returned after letting it go. */
typedef struct evicted_list {
  free_block *blocks[CLASS_COUNT];
} evicted_list;

static void evict(size_t keep_nbytes, int spare, evicted_list *out) {
  for (int c = CLASS_COUNT - 1; c >= 0; c--) {
    while (c != spare && heap.free_lists[c] && heap.stats.cached_nbytes > keep_nbytes) {
      free_block *block = heap.free_lists[c];
      heap.free_lists[c] = block->next;
      block->next = out->blocks[c];
      out->blocks[c] = block;
      heap.stats.cached_nbytes -= class_capacity(c);
    }
  }
}

static void free_evicted(evicted_list *list) {
  for (int c = 0; c < CLASS_COUNT; c++) {
    for (free_block *block = list->blocks[c]; block;) {
      free_block *next = block->next;
      system_free(block, class_capacity(c));
      block = next;
    }
  }
}

void kl_allocator_trim(void) {
  evicted_list evicted = {{NULL}};
  lock_heap();
  evict(0, -1, &evicted);
  unlock_heap();
  free_evicted(&evicted);
}

static void count_allocation(size_t capacity) {
  heap.stats.in_use_nbytes += capacity;
  heap.stats.n_allocations++;
  heap.stats.n_live++;
  if (heap.stats.in_use_nbytes > heap.stats.peak_nbytes)
    heap.stats.peak_nbytes = heap.stats.in_use_nbytes;
}

static bool within_limit(size_t capacity) {
  size_t held = heap.stats.in_use_nbytes + heap.stats.cached_nbytes;
  size_t limit = heap.stats.limit_nbytes;
  return limit == 0 || (held <= limit && capacity <= limit - held);
}

/* Counts the block first, so that two threads cannot both take the last bytes under the cap. */
static void *allocate_fresh(size_t capacity) {
  lock_heap();
  bool fits = within_limit(capacity);
  if (fits) count_allocation(capacity);
  unlock_heap();
  if (!fits) return NULL;
  void *ptr = system_allocate(capacity);
  if (!ptr) {
    lock_heap();
    heap.stats.in_use_nbytes -= capacity;
    heap.stats.n_allocations--;
    heap.stats.n_live--;
    unlock_heap();
  }
  return ptr;
}

static kl_status fail_out_of_memory(size_t nbytes) {
  kl_allocator_stats stats = kl_allocator_stats_get();
  if (stats.limit_nbytes == 0)
    return kl_fail(KL_ERR_OUT_OF_MEMORY,
                   "out of memory: asked for %zu bytes, %zu in use, %zu cached, no cap "
                   "(KAEL_MEMORY_LIMIT is not set)",
                   nbytes, stats.in_use_nbytes, stats.cached_nbytes);
  return kl_fail(KL_ERR_OUT_OF_MEMORY,
                 "out of memory: asked for %zu bytes, %zu in use, %zu cached, the cap is %zu "
                 "(KAEL_MEMORY_LIMIT)",
                 nbytes, stats.in_use_nbytes, stats.cached_nbytes, stats.limit_nbytes);
}

static void *take_cached(int class_index, size_t capacity) {
  lock_heap();
  free_block *block = heap.free_lists[class_index];
  if (block) {
    heap.free_lists[class_index] = block->next;
    heap.stats.cached_nbytes -= capacity;
    heap.stats.n_cache_hits++;
    count_allocation(capacity);
  }
  unlock_heap();
  return block;
}

kl_status kl_allocator_allocate(size_t nbytes, void **out_ptr, size_t *out_capacity) {
  pthread_once(&heap_once, start_heap);
  if (nbytes > (size_t)1 << MAX_SHIFT || kl_memory_should_fail()) return fail_out_of_memory(nbytes);
  int class_index = class_of(nbytes);
  size_t capacity = class_capacity(class_index);
  void *ptr = take_cached(class_index, capacity);
  if (!ptr) ptr = allocate_fresh(capacity);
  if (!ptr) {
    kl_allocator_trim();
    ptr = allocate_fresh(capacity);
  }
  if (!ptr) return fail_out_of_memory(nbytes);
  UNPOISON(ptr, capacity);
  POISON((char *)ptr + nbytes, capacity - nbytes);
  *out_ptr = ptr;
  *out_capacity = capacity;
  return KL_OK;
}

/* The block freed last is the likeliest to be wanted, so its class goes last. */
static void shrink_cache(int newest_class) {
  evicted_list evicted = {{NULL}};
  lock_heap();
  evict(heap.cache_max_nbytes, newest_class, &evicted);
  evict(heap.cache_max_nbytes, -1, &evicted);
  unlock_heap();
  free_evicted(&evicted);
}

void kl_allocator_free(void *ptr, size_t capacity) {
  if (!ptr) return;
  int class_index = class_of(capacity);
  free_block *block = ptr;
  UNPOISON(ptr, sizeof *block);
  POISON((char *)ptr + sizeof *block, capacity - sizeof *block);
  lock_heap();
  heap.stats.in_use_nbytes -= capacity;
  heap.stats.n_live--;
  heap.stats.cached_nbytes += capacity;
  block->next = heap.free_lists[class_index];
  heap.free_lists[class_index] = block;
  bool too_much = heap.stats.cached_nbytes > heap.cache_max_nbytes;
  unlock_heap();
  if (too_much) shrink_cache(class_index);
}

void kl_allocator_set_cache_limit(size_t nbytes) {
  pthread_once(&heap_once, start_heap);
  lock_heap();
  heap.cache_max_nbytes = nbytes;
  unlock_heap();
  shrink_cache(-1);
}

void kl_allocator_set_limit(size_t nbytes) {
  pthread_once(&heap_once, start_heap);
  lock_heap();
  heap.stats.limit_nbytes = nbytes;
  unlock_heap();
}

kl_allocator_stats kl_allocator_stats_get(void) {
  lock_heap();
  kl_allocator_stats stats = heap.stats;
  unlock_heap();
  return stats;
}

void kl_allocator_reset_peak(void) {
  lock_heap();
  heap.stats.peak_nbytes = heap.stats.in_use_nbytes;
  unlock_heap();
}
