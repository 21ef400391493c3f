/* Growing arrays: `KL_VEC(int) ids = {0};` has data, count and capacity. */
#ifndef KL_IR_SUPPORT_VEC_H
#define KL_IR_SUPPORT_VEC_H

#include <stdbool.h>
#include <stdint.h>

#include "ir/support/memory.h"

#define KL_VEC(T)                                                                                  \
  struct {                                                                                         \
    T *data;                                                                                       \
    uint32_t count, capacity;                                                                      \
  }

/* Makes room for `count` elements in all; false when there is no memory (the array is unchanged). */
bool kl_vec_grow(void **data, uint32_t *capacity, uint32_t count, uint32_t elem_nbytes);

#define kl_vec_reserve(vec, n)                                                                     \
  ((n) <= (vec)->capacity ||                                                                       \
   kl_vec_grow((void **)&(vec)->data, &(vec)->capacity, (n), sizeof *(vec)->data))

/* Appends; an expression that is false when there is no memory. */
#define kl_vec_push(vec, value)                                                                    \
  (kl_vec_reserve(vec, (vec)->count + 1) && ((vec)->data[(vec)->count++] = (value), true))

#define kl_vec_finish(vec) (kl_free((vec)->data), (vec)->data = NULL, (vec)->count = (vec)->capacity = 0)

#endif
