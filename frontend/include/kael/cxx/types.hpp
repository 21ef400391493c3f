// kael/cxx/types.hpp: dtypes, numbers and lists of sizes, as functions take them.
#ifndef KAEL_CXX_TYPES_HPP
#define KAEL_CXX_TYPES_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <type_traits>
#include <vector>

#include "kael/cxx/error.hpp"
#include "kael/types.h"

namespace kael {

using Dtype = kael_dtype;
using Device = kael_device;

inline constexpr Dtype kBool = KAEL_BOOL, kUInt8 = KAEL_U8, kInt8 = KAEL_I8, kInt16 = KAEL_I16,
                       kInt32 = KAEL_I32, kInt64 = KAEL_I64, kFloat16 = KAEL_F16,
                       kBFloat16 = KAEL_BF16, kFloat32 = KAEL_F32, kFloat64 = KAEL_F64;
inline constexpr Device kCPU = KAEL_CPU;

/// The bits of one element of these dtypes, for which C++17 has no type.
struct Float16 {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};

namespace detail {
template <class T>
struct DtypeOf;  // Not defined: T is the type of no dtype's elements.
#define KAEL_CXX_DTYPE(type, dtype)                                                                \
  template <>                                                                                      \
  struct DtypeOf<type> {                                                                           \
    static constexpr Dtype value = dtype;                                                          \
  };
KAEL_CXX_DTYPE(bool, KAEL_BOOL)
KAEL_CXX_DTYPE(std::uint8_t, KAEL_U8)
KAEL_CXX_DTYPE(std::int8_t, KAEL_I8)
KAEL_CXX_DTYPE(std::int16_t, KAEL_I16)
KAEL_CXX_DTYPE(std::int32_t, KAEL_I32)
KAEL_CXX_DTYPE(std::int64_t, KAEL_I64)
KAEL_CXX_DTYPE(Float16, KAEL_F16)
KAEL_CXX_DTYPE(BFloat16, KAEL_BF16)
KAEL_CXX_DTYPE(float, KAEL_F32)
KAEL_CXX_DTYPE(double, KAEL_F64)
#undef KAEL_CXX_DTYPE
}  // namespace detail

/// The dtype whose elements are of the C++ type T.
template <class T>
inline constexpr Dtype dtype_of = detail::DtypeOf<std::remove_cv_t<T>>::value;

inline constexpr bool is_floating_point(Dtype dtype) {
  return dtype == KAEL_F16 || dtype == KAEL_BF16 || dtype == KAEL_F32 || dtype == KAEL_F64;
}

/// A number operand, made of any arithmetic value. In promotion only its kind counts.
class Scalar {
 public:
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  Scalar(T value) : value_(make(value)) {}
  Scalar(kael_scalar value) noexcept : value_(value) {}

  operator kael_scalar() const noexcept { return value_; }
  bool is_bool() const noexcept { return value_.kind == KAEL_SCALAR_BOOL; }
  bool is_floating_point() const noexcept { return value_.kind == KAEL_SCALAR_FLOAT; }
  /// What PyTorch makes of such a number where no dtype is given.
  Dtype default_dtype() const noexcept {
    return is_bool() ? KAEL_BOOL : is_floating_point() ? KAEL_F32 : KAEL_I64;
  }

 private:
  template <class T>
  static kael_scalar make(T value) {
    if constexpr (std::is_same_v<T, bool>) {
      return kael_b(value);
    } else if constexpr (std::is_floating_point_v<T>) {
      return kael_f(static_cast<double>(value));
    } else {
      if constexpr (std::is_unsigned_v<T> && sizeof(T) >= sizeof(std::int64_t)) {
        if (value > static_cast<T>(std::numeric_limits<std::int64_t>::max()))
          throw Error(KAEL_ERR_VALUE, "a number does not fit int64");
      }
      return kael_i(static_cast<std::int64_t>(value));
    }
  }

  kael_scalar value_;
};

/// Sizes, dims or strides as an argument: {2, 3}, a vector, an array, or one number. It refers to
/// the caller's numbers, and is for arguments only.
class IntList {
 public:
  IntList(std::initializer_list<std::int64_t> values) noexcept : size_(values.size()) {
    data_ =
        values.begin();  // Lives to the end of the call's full expression, as the argument does.
  }
  IntList(const std::vector<std::int64_t> &values) noexcept
      : data_(values.data()), size_(values.size()) {}
  template <std::size_t N>
  IntList(const std::array<std::int64_t, N> &values) noexcept : data_(values.data()), size_(N) {}
  IntList(const std::int64_t *values, std::size_t n_values) noexcept
      : data_(values), size_(n_values) {}
  template <class T, class = std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>>
  IntList(T value) noexcept : size_(1), single_(static_cast<std::int64_t>(value)) {}

  const std::int64_t *data() const noexcept { return data_ || size_ == 0 ? data_ : &single_; }
  std::size_t size() const noexcept { return size_; }
  int count() const noexcept { return static_cast<int>(size_); }
  const std::int64_t *begin() const noexcept { return data(); }
  const std::int64_t *end() const noexcept { return data() + size_; }

 private:
  const std::int64_t *data_ = nullptr;
  std::size_t size_;
  std::int64_t single_ = 0;
};

namespace detail {
inline void check_counts(const char *function, const IntList &a, const IntList &b) {
  if (a.size() == b.size()) return;
  throw Error(KAEL_ERR_VALUE, std::string(function) + ": lists of " + std::to_string(a.size()) +
                                  " and " + std::to_string(b.size()) + " numbers, not of as many");
}
}  // namespace detail

}  // namespace kael
#endif
