// kael/cxx/factory.hpp: new tensors whose dtype follows from the arguments.
#ifndef KAEL_CXX_FACTORY_HPP
#define KAEL_CXX_FACTORY_HPP

#include "kael/cxx/tensor.hpp"

namespace kael {

/// One number everywhere. Without a dtype, that of the number: bool, int64 or float32.
inline Tensor full(IntList shape, Scalar value, std::optional<Dtype> dtype = std::nullopt) {
  return Tensor::from_result(
      kael_full(shape.count(), shape.data(), value, dtype.value_or(value.default_dtype())));
}

/// start, start + step, ... up to, and without, end. Without a dtype: float32 where one of the
/// numbers is floating, else int64.
inline Tensor arange(Scalar start, Scalar end, Scalar step = 1,
                     std::optional<Dtype> dtype = std::nullopt) {
  const bool floating =
      start.is_floating_point() || end.is_floating_point() || step.is_floating_point();
  return Tensor::from_result(
      kael_arange(start, end, step, dtype.value_or(floating ? kFloat32 : kInt64)));
}
inline Tensor arange(Scalar end) { return arange(0, end); }

/// n rows, m columns (n where left out), ones on the diagonal.
inline Tensor eye(std::int64_t n, std::optional<std::int64_t> m = std::nullopt,
                  Dtype dtype = kFloat32) {
  return Tensor::from_result(kael_eye(n, m.value_or(n), dtype));
}

/// A copy of the elements at `data`, row-major; the dtype is T's.
template <class T>
Tensor from_data(const T *data, IntList shape) {
  return Tensor::from_result(kael_from_data(data, shape.count(), shape.data(), dtype_of<T>));
}

namespace detail {
/// Without a dtype, PyTorch's default for such numbers; int64 stays int64 and double gives float32.
template <class T>
Tensor tensor_of(const T *data, std::size_t n_elems, std::optional<Dtype> dtype) {
  Tensor exact = from_data(data, IntList(static_cast<std::int64_t>(n_elems)));
  return exact.to(dtype.value_or(Scalar(T()).default_dtype()));
}
}  // namespace detail

/// A 1-d tensor of the numbers, tensor({1.5, 2}) or tensor(vector), or a 0-d one of one number. The
/// dtype, where it is left out, is that of PyTorch's torch.tensor: bool, int64 or float32.
template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
Tensor tensor(std::initializer_list<T> values, std::optional<Dtype> dtype = std::nullopt) {
  return detail::tensor_of(values.begin(), values.size(), dtype);
}
template <class T, class = std::enable_if_t<std::is_arithmetic_v<T> && !std::is_same_v<T, bool>>>
Tensor tensor(const std::vector<T> &values, std::optional<Dtype> dtype = std::nullopt) {
  return detail::tensor_of(values.data(), values.size(), dtype);
}
inline Tensor tensor(Scalar value, std::optional<Dtype> dtype = std::nullopt) {
  return Tensor::from_result(kael_scalar_tensor(value, dtype.value_or(value.default_dtype())));
}

/// A tensor over memory of the caller's, without a copy (kael_storage_external). `deleter` is
/// called once, when nothing refers to the memory any more, also when this call throws after it
/// took over.
inline Tensor from_blob(void *data, IntList shape, Dtype dtype = kFloat32,
                        kael_deleter deleter = nullptr, void *user = nullptr,
                        unsigned flags = KAEL_STORAGE_SHARED) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  std::int64_t n_elems = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = n_elems;
    if (__builtin_mul_overflow(n_elems, shape.data()[i], &n_elems) || n_elems < 0)
      throw Error(KAEL_ERR_RUNTIME, "from_blob: a negative size, or sizes too large");
  }
  std::int64_t nbytes;
  if (__builtin_mul_overflow(n_elems, static_cast<std::int64_t>(kael_dtype_size(dtype)), &nbytes))
    throw Error(KAEL_ERR_RUNTIME, "from_blob: sizes too large");
  std::unique_ptr<kael_storage, void (*)(kael_storage *)> storage(
      kael_storage_external(data, static_cast<std::size_t>(nbytes), deleter, user, flags),
      kael_storage_release);
  if (!storage) detail::throw_last_error(KAEL_ERR_RUNTIME);
  return Tensor::from_result(
      kael_tensor_from_parts(storage.get(), shape.count(), shape.data(), strides.data(), 0, dtype));
}

}  // namespace kael
#endif
