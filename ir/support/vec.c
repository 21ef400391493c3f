/* Growth of the arrays of ir/support/vec.h. */
#include "ir/support/vec.h"

#include "ir/support/memory.h"

bool kl_vec_grow(void **data, uint32_t *capacity, uint32_t count, uint32_t elem_nbytes) {
  uint32_t wanted = *capacity ? *capacity : 8;
  while (wanted < count) {
    if (wanted > UINT32_MAX / 2) return false;
    wanted *= 2;
  }
  void *grown = kl_realloc(*data, (size_t)wanted * elem_nbytes);
  if (!grown) return false;
  *data = grown;
  *capacity = wanted;
  return true;
}
