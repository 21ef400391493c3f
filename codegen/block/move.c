/* Copies between memory of any strides and dense blocks, by the size of an element. */
#include <string.h>

#include "codegen/block/view.h"
#include "codegen/math/math.h"

/* Elements of any dtype as bits. */
typedef uint8_t bits1 __attribute__((may_alias));
typedef uint16_t bits2 __attribute__((may_alias));
typedef uint32_t bits4 __attribute__((may_alias));
typedef uint64_t bits8 __attribute__((may_alias));

#define FOR_SIZES(X) X(1, bits1) X(2, bits2) X(4, bits4) X(8, bits8)

#define FILL(size, T)                                                                              \
  case size: {                                                                                     \
    T v = *(const T *)value, *to = out;                                                            \
    for (int64_t i = 0; i < n; i++) to[i] = v;                                                     \
    break;                                                                                         \
  }

void kl_block_fill(void *out, const void *value, size_t esize, int64_t n) {
  switch (esize) { FOR_SIZES(FILL) }
}

#define COPY_RUN(size, T)                                                                          \
  case size: {                                                                                     \
    T *to = out;                                                                                   \
    for (int64_t i = 0; i < n; i++) to[i] = *(const T *)(addr + i * stride);                       \
    break;                                                                                         \
  }

static void gather_run(const char *addr, int64_t stride, size_t esize, int64_t n, void *out) {
  if (stride == (int64_t)esize) {
    memmove(out, addr, (size_t)n * esize);
  } else if (stride == 0) {
    kl_block_fill(out, addr, esize, n);
  } else {
    switch (esize) { FOR_SIZES(COPY_RUN) }
  }
}

#define COPY_INDEXED(size, T)                                                                      \
  case size: {                                                                                     \
    T *to = out;                                                                                   \
    for (int64_t i = 0; i < n; i++)                                                                \
      to[i] = *(const T *)(addr + i * stride + index[i] * index_stride);                           \
    break;                                                                                         \
  }

static void gather_indexed(const char *addr, int64_t stride, const int64_t *index,
                           int64_t index_stride, size_t esize, int64_t n, void *out) {
  switch (esize) { FOR_SIZES(COPY_INDEXED) }
}

void kl_block_gather(const kl_block_view *view, const kl_block_tile *tile, size_t esize,
                     const int64_t *index, bool index_uniform, void *out) {
  kl_block_walk walk;
  kl_block_walk_start(&walk, view, tile);
  int64_t shift = index != NULL && index_uniform ? index[0] * view->index_stride : 0;
  char *addr, *to = out;
  for (int64_t run; (run = kl_block_walk_next(&walk, &addr)) > 0; to += run * (int64_t)esize) {
    if (index == NULL || index_uniform) {
      gather_run(addr + shift, view->stride[0], esize, run, to);
    } else {
      gather_indexed(addr, view->stride[0], index, view->index_stride, esize, run, to);
      index += run;
    }
  }
}

/* step: 1 for a block, 0 for one value. */
#define SCATTER_RUN(size, T)                                                                       \
  case size: {                                                                                     \
    const T *from = src;                                                                           \
    for (int64_t i = 0; i < n; i++) *(T *)(addr + i * stride) = from[i * step];                    \
    break;                                                                                         \
  }
#define SCATTER_INDEXED(size, T)                                                                   \
  case size: {                                                                                     \
    const T *from = src;                                                                           \
    for (int64_t i = 0; i < n; i++)                                                                \
      *(T *)(addr + i * stride + index[i] * index_stride) = from[i * step];                        \
    break;                                                                                         \
  }

static void scatter_run(char *addr, int64_t stride, size_t esize, int64_t n, const void *src,
                        int64_t step) {
  if (stride == (int64_t)esize && step == 1) {
    memmove(addr, src, (size_t)n * esize);
  } else if (stride == (int64_t)esize) {
    kl_block_fill(addr, src, esize, n);
  } else {
    switch (esize) { FOR_SIZES(SCATTER_RUN) }
  }
}

static void scatter_indexed(char *addr, int64_t stride, const int64_t *index, int64_t index_stride,
                            size_t esize, int64_t n, const void *src, int64_t step) {
  switch (esize) { FOR_SIZES(SCATTER_INDEXED) }
}

void kl_block_scatter(const kl_block_view *view, const kl_block_tile *tile, size_t esize,
                      const int64_t *index, bool index_uniform, const void *src, bool uniform) {
  kl_block_walk walk;
  kl_block_walk_start(&walk, view, tile);
  int64_t shift = index != NULL && index_uniform ? index[0] * view->index_stride : 0;
  int64_t step = !uniform;
  const char *from = src;
  char *addr;
  for (int64_t run; (run = kl_block_walk_next(&walk, &addr)) > 0;) {
    if (index == NULL || index_uniform) {
      scatter_run(addr + shift, view->stride[0], esize, run, from, step);
    } else {
      scatter_indexed(addr, view->stride[0], index, view->index_stride, esize, run, from, step);
      index += run;
    }
    from += run * step * (int64_t)esize;
  }
}

/* Several places of a run may be one element (stride 0, equal indices): strictly in order. */
#define ADD_RUN(DTYPE, name, T)                                                                    \
  case DTYPE: {                                                                                    \
    const T *from = src;                                                                           \
    for (int64_t i = 0; i < n; i++) {                                                              \
      T *place = (T *)(addr + i * stride + (index ? index[i * index_step] * index_stride : 0));    \
      *place = kl_math_add_##name(*place, from[i * step]);                                         \
    }                                                                                              \
    break;                                                                                         \
  }

static void add_run(char *addr, int64_t stride, const int64_t *index, int64_t index_step,
                    int64_t index_stride, kl_dtype dtype, int64_t n, const void *src,
                    int64_t step) {
  switch (dtype) {
    ADD_RUN(KL_U8, u8, uint8_t)
    ADD_RUN(KL_I8, i8, int8_t)
    ADD_RUN(KL_I16, i16, int16_t)
    ADD_RUN(KL_I32, i32, int32_t)
    ADD_RUN(KL_I64, i64, int64_t)
    ADD_RUN(KL_F32, f32, float)
    ADD_RUN(KL_F64, f64, double)
    default: break;
  }
}

void kl_block_scatter_add(const kl_block_view *view, const kl_block_tile *tile, kl_dtype dtype,
                          const int64_t *index, bool index_uniform, const void *src, bool uniform) {
  kl_block_walk walk;
  kl_block_walk_start(&walk, view, tile);
  int64_t step = !uniform, index_step = !index_uniform;
  const char *from = src;
  char *addr;
  for (int64_t run; (run = kl_block_walk_next(&walk, &addr)) > 0;) {
    add_run(addr, view->stride[0], index, index_step, view->index_stride, dtype, run, from, step);
    from += run * step * (int64_t)kl_dtype_size(dtype);
    if (index != NULL) index += run * index_step;
  }
}
