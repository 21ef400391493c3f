/* Reading an element by its dtype, and tensors as text. */
#include "frontend/element.h"
#include "frontend/half.h"

#include <stdio.h>
#include <string.h>

#include "frontend/ops.h"
#include "frontend/record.h"
#include "ir/support/text.h"
#include "kael/tensor.h"

enum { EDGE = 3, SHORTEN_ABOVE = 1000 };

int64_t kl_element_int(const void *element, kl_dtype dtype) {
  kl_scalar scalar = {0};
  memcpy(&scalar, element, kl_dtype_size(dtype));
  switch (dtype) {
    case KL_I8:
      return (int8_t)scalar.u8;
    case KL_I16:
      return (int16_t)scalar.bits;
    case KL_I32:
      return scalar.i32;
    case KL_F16:
    case KL_BF16:
      return kl_scalar_from_double(kl_half_to_float((uint16_t)scalar.bits, dtype), KL_I64).i64;
    case KL_F32:
      return kl_scalar_from_double(scalar.f32, KL_I64).i64;
    case KL_F64:
      return kl_scalar_from_double(scalar.f64, KL_I64).i64;
    default:
      return scalar.i64; /* the high bytes of a smaller unsigned one are zero */
  }
}

double kl_element_double(const void *element, kl_dtype dtype) {
  kl_scalar scalar = {0};
  memcpy(&scalar, element, kl_dtype_size(dtype));
  if (dtype == KL_F32) return scalar.f32;
  if (dtype == KL_F64) return scalar.f64;
  if (kl_dtype_is_half(dtype)) return kl_half_to_float((uint16_t)scalar.bits, dtype);
  return (double)kl_element_int(element, dtype);
}

/* --- Text ------------------------------------------------------------------------------------- */

static void add_element(kl_text *text, const char *element, kl_dtype dtype) {
  if (dtype == KL_BOOL)
    kl_text_add(text, *element ? "True" : "False");
  else if (kl_dtype_is_float(dtype))
    kl_text_add(text, "%.*g", dtype == KL_F64 ? 8 : dtype == KL_F32 ? 6 : 4, kl_element_double(element, dtype));
  else
    kl_text_add(text, "%lld", (long long)kl_element_int(element, dtype));
}

/* One dim in brackets; the depth is at most KL_MAX_RANK. */
static void add_dim(kl_text *text, const kael_tensor *tensor, const char *place, int dim,
                    bool shorten) {
  if (dim == tensor->ndim) {
    add_element(text, place, (kl_dtype)tensor->dtype);
    return;
  }
  int64_t size = tensor->shape[dim];
  size_t step = (size_t)tensor->strides[dim] * kl_dtype_size((kl_dtype)tensor->dtype);
  kl_text_add(text, "[");
  for (int64_t i = 0; i < size; i++) {
    if (i > 0) {
      kl_text_add(text, ",");
      for (int line = dim; line < tensor->ndim - 1; line++) kl_text_add(text, "\n");
      kl_text_add(text, "%*s", dim < tensor->ndim - 1 ? dim + 8 : 1, "");
    }
    if (shorten && size > 2 * EDGE && i == EDGE) {
      kl_text_add(text, "...");
      i = size - EDGE - 1;
      continue;
    }
    add_dim(text, tensor, place + (size_t)i * step, dim + 1, shorten);
  }
  kl_text_add(text, "]");
}

static kl_status print_tensor(const kael_tensor *tensor, kl_text *text) {
  kl_text_add(text, "tensor(");
  if (tensor->numel == 0) {
    kl_text_add(text, "[], size=%s", kl_shape_text(tensor->ndim, tensor->shape));
  } else {
    kl_buffer *held;
    const char *first;
    KL_TRY(kl_tensor_bytes(tensor, &held, &first));
    add_dim(text, tensor, first, 0, tensor->numel > SHORTEN_ABOVE);
    kl_buffer_release(held);
  }
  if (tensor->dtype != KL_F32 && tensor->dtype != KL_I64 && tensor->dtype != KL_BOOL)
    kl_text_add(text, ", dtype=%s", kl_dtype_torch_name((kl_dtype)tensor->dtype));
  kl_text_add(text, ")");
  return kl_text_status(text);
}

char *kael_to_string(const kael_tensor *tensor) {
  if (KL_MISSING(tensor)) return NULL;
  kl_text text = {0};
  if (print_tensor(tensor, &text)) {
    kl_text_finish(&text);
    return NULL;
  }
  return text.data; /* malloc's, by way of kl_malloc */
}

void kael_string_free(char *string) { kl_free(string); }
