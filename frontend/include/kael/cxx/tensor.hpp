// kael/cxx/tensor.hpp: the handle.
//
// A Tensor is one counted reference to a tensor impl. Copying it, by construction or assignment,
// makes another handle to the same tensor; so do arguments by value. `const` is the handle's: a
// const Tensor can be changed in place. A Tensor that was moved from may only be destroyed or
// assigned to; other uses throw. Handles are as safe to use from threads as std::shared_ptr.
#ifndef KAEL_CXX_TENSOR_HPP
#define KAEL_CXX_TENSOR_HPP

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "kael/cxx/owner.hpp"
#include "kael/cxx/types.hpp"
#include "kael/kael.h"

namespace kael {

class Hook;
class Tensor;
class TensorList;

namespace detail {
/// Of an optional operand.
kael_tensor *impl_of(const std::optional<Tensor> &tensor);

/// Room for handles that a call gives out; what was not taken into a Tensor is released.
class OutTensors {
 public:
  /// One place at least, as calls want some address.
  explicit OutTensors(std::size_t n_tensors) : impls_(n_tensors ? n_tensors : 1, nullptr) {}
  OutTensors(OutTensors &&) noexcept = default;
  OutTensors &operator=(OutTensors &&) = delete;
  ~OutTensors() {
    for (kael_tensor *impl : impls_) kael_release(kael_own(impl));
  }

  kael_tensor **data() noexcept { return impls_.data(); }
  kael_tensor **at(std::size_t i) noexcept { return &impls_[i]; }
  bool has(std::size_t i) const noexcept { return impls_[i] != nullptr; }
  Tensor take(std::size_t i);
  std::vector<Tensor> take_all(std::size_t n_tensors);

 private:
  std::vector<kael_tensor *> impls_;
};
}  // namespace detail

class Tensor {
 public:
  /// Takes over one reference of the C API, which the caller owns. Throws kael::Error for NULL (the
  /// stored error, if there is one) and KAEL_NONE; the reference is given up then too.
  static Tensor from_impl(kael_tensor *owned) {
    if (!owned) detail::throw_last_error(KAEL_ERR_VALUE);
    if (owned == KAEL_NONE) throw Error(KAEL_ERR_VALUE, "from_impl: KAEL_NONE is not a tensor");
    detail::ImplPtr impl(owned);
    if (!kael_tensor_storage(owned) || kael_ndim(owned) < 0 || kael_ndim(owned) > KAEL_MAX_DIMS)
      throw Error(KAEL_ERR_INTERNAL, "from_impl: the tensor has no storage or no valid shape");
    return Tensor(detail::Owner::of(std::move(impl)));
  }
  /// The same for what a C function just handed out, which a scope of C that is open owns.
  static Tensor from_result(kael_tensor *result) { return from_impl(kael_own(result)); }
  /// The same for a reference that stays the caller's.
  static Tensor from_borrowed(kael_tensor *impl) { return from_impl(kael_retain(impl)); }
  /// The impl, for the C API: borrowed from this handle.
  kael_tensor *impl() const {
    if (!owner_) throw Error(KAEL_ERR_VALUE, "a Tensor was used after it was moved from");
    return owner_->impl();
  }

  // --- Identity ---------------------------------------------------------------------------------

  /// Handles of C++ to this tensor.
  long use_count() const noexcept { return owner_.use_count(); }
  /// Tensors that refer to the storage (`references: N` of explain()).
  int storage_references() const { return kael_storage_references(kael_tensor_storage(impl())); }
  bool is_same(const Tensor &other) const noexcept { return owner_ == other.owner_; }
  bool shares_storage(const Tensor &other) const {
    return kael_shares_storage(impl(), other.impl());
  }

  // --- Shape and kind ---------------------------------------------------------------------------

  std::int64_t dim() const { return kael_ndim(impl()); }
  std::int64_t ndim() const { return dim(); }
  std::int64_t numel() const { return kael_numel(impl()); }
  std::vector<std::int64_t> shape() const { return list(kael_shape(impl())); }
  std::vector<std::int64_t> sizes() const { return shape(); }
  std::vector<std::int64_t> strides() const { return list(kael_strides(impl())); }
  std::int64_t size(std::int64_t dim) const { return kael_size(impl(), checked(dim)); }
  std::int64_t stride(std::int64_t dim) const { return kael_stride(impl(), checked(dim)); }
  std::int64_t storage_offset() const { return kael_offset(impl()); }
  Dtype dtype() const { return kael_dtype_of(impl()); }
  Device device() const { return kael_device_of(impl()); }
  std::size_t element_size() const { return kael_dtype_size(dtype()); }
  std::size_t nbytes() const { return static_cast<std::size_t>(numel()) * element_size(); }
  bool is_contiguous() const { return kael_is_contiguous(impl()); }
  bool is_floating_point() const { return kael::is_floating_point(dtype()); }
  /// In-place operations on the storage so far (torch's _version).
  std::uint64_t version() const { return kael_version(impl()); }

  // --- Bytes: these materialize -----------------------------------------------------------------

  /// The first element; T is the dtype's C++ type, else KAEL_ERR_TYPE. A pointer to const stays
  /// valid until the next write. data_ptr<float>() may be written; it makes the storage SHARED
  /// (kael/tensor.h), and stays valid for the storage's life.
  template <class T>
  T *data_ptr() const {
    check_type<T>();
    if constexpr (std::is_const_v<T>) {
      return static_cast<T *>(given(kael_data_ptr(impl())));
    } else {
      return static_cast<T *>(given(kael_mutable_data_ptr(impl())));
    }
  }
  template <class T>
  const T *const_data_ptr() const {
    return data_ptr<const T>();
  }
  /// The only element, cast to T. KAEL_ERR_RUNTIME where there is not exactly one.
  template <class T>
  T item() const {
    static_assert(std::is_arithmetic_v<T>, "item<T>() gives a number");
    if constexpr (std::is_floating_point_v<T>) {
      double value;
      detail::check(kael_item(impl(), &value));
      return static_cast<T>(value);
    } else if constexpr (std::is_same_v<T, bool>) {
      double value;  // Of a fraction too, true is what is not zero.
      detail::check(kael_item(impl(), &value));
      return value != 0;
    } else {
      std::int64_t value;
      detail::check(kael_item_int(impl(), &value));
      return static_cast<T>(value);
    }
  }
  /// All elements, row-major; T is the dtype's C++ type, else KAEL_ERR_TYPE.
  template <class T>
  std::vector<T> to_vector() const {
    static_assert(!std::is_same_v<T, bool>, "use to(kael::kUInt8): vector<bool> has no bytes");
    check_type<T>();
    std::vector<T> elements(static_cast<std::size_t>(numel()));
    detail::check(kael_copy_to_host(impl(), elements.data(), nbytes()));
    return elements;
  }
  /// The elements as PyTorch prints them.
  std::string to_string() const { return text(kael_to_string(impl())); }
  /// Computes what is pending of this tensor.
  const Tensor &eval() const {
    kael_tensor *tensor = impl();
    return done(kael_eval(&tensor, 1));
  }
  const Tensor &move_to_(Device device) const { return done(kael_move_to_(impl(), device)); }
  /// What stands behind the tensor, for people; does not materialize.
  std::string explain() const { return text(kael_explain(impl())); }

  // --- Gradients (kael/autograd.h) --------------------------------------------------------------

  bool requires_grad() const { return kael_requires_grad(impl()); }
  const Tensor &requires_grad_(bool required = true) const {
    return done(kael_requires_grad_(impl(), required));
  }
  bool is_leaf() const { return kael_is_leaf(impl()); }
  /// torch's name of the operation that made the tensor; nullopt for a leaf.
  std::optional<std::string> grad_fn() const;
  const Tensor &detach_() const { return done(kael_detach_(impl())); }
  const Tensor &retain_grad() const { return done(kael_retain_grad(impl())); }
  bool retains_grad() const { return kael_retains_grad(impl()); }
  /// The gradient that backward left, the same tensor every time.
  std::optional<Tensor> grad() const {
    kael_tensor *grad = kael_grad(impl());
    return grad ? std::optional<Tensor>(from_result(grad)) : std::nullopt;
  }
  const Tensor &set_grad(const std::optional<Tensor> &grad) const {
    return done(kael_set_grad(impl(), detail::impl_of(grad)));
  }
  /// `retain_graph` is `create_graph` where it is left out, as in PyTorch.
  void backward(const std::optional<Tensor> &gradient = std::nullopt,
                std::optional<bool> retain_graph = std::nullopt, bool create_graph = false) const;
  /// `hook` sees the gradient before it flows on, and may give another one for it. What it throws
  /// comes out of the C++ call that runs the backward pass.
  Hook register_hook(std::function<std::optional<Tensor>(const Tensor &)> hook) const;

  // --- Indexing ---------------------------------------------------------------------------------

  /// Views. Const, so that an assignment to one writes: t[1][1] = 42, t[0] = row.
  const Tensor operator[](std::int64_t index) const { return select(0, index); }
  const Tensor operator[](std::initializer_list<std::int64_t> indices) const {
    Tensor view = *this;
    for (std::int64_t index : indices) view = view.select(0, index);
    return view;
  }
  /// Writes to what an index expression views, as fill_ and copy_. (A Tensor with a name cannot be
  /// assigned a number; assigning it a Tensor binds the handle.)
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  const Tensor &operator=(T value) const && {
    return fill_(value);
  }
  template <class T, class = std::enable_if_t<std::is_same_v<T, Tensor>>, class = void>
  const Tensor &operator=(const T &src) const && {
    return copy_(src);
  }

  // --- Compound assignments, in place -----------------------------------------------------------

  const Tensor &operator+=(const Tensor &other) const { return add_(other); }
  const Tensor &operator+=(Scalar other) const { return add_(other); }
  const Tensor &operator-=(const Tensor &other) const { return sub_(other); }
  const Tensor &operator-=(Scalar other) const { return sub_(other); }
  const Tensor &operator*=(const Tensor &other) const { return mul_(other); }
  const Tensor &operator*=(Scalar other) const { return mul_(other); }
  const Tensor &operator/=(const Tensor &other) const { return div_(other); }
  const Tensor &operator/=(Scalar other) const { return div_(other); }

  // --- Operators --------------------------------------------------------------------------------

  std::vector<Tensor> unbind(std::int64_t dim = 0) const;
  std::vector<Tensor> split(std::int64_t size, std::int64_t dim = 0) const;
  std::vector<Tensor> split(IntList sizes, std::int64_t dim = 0) const;
  std::vector<Tensor> chunk(std::int64_t n_chunks, std::int64_t dim = 0) const;
  /// The elements cast to other's dtype.
  Tensor to(const Tensor &other) const { return to(other.dtype()); }

#include "kael/cxx/methods.inc"

 private:
  explicit Tensor(std::shared_ptr<detail::Owner> owner) noexcept : owner_(std::move(owner)) {}

  const Tensor &done(kael_status status) const {
    detail::check(status);
    return *this;
  }
  template <class T>
  static T *given(T *pointer) {
    if (!pointer) detail::throw_last_error(KAEL_ERR_RUNTIME);
    return pointer;
  }
  static void *given(const void *pointer) { return const_cast<void *>(given<const void>(pointer)); }
  static std::string text(char *owned);
  std::vector<std::int64_t> list(const std::int64_t *values) const {
    return std::vector<std::int64_t>(values, values + kael_ndim(impl()));
  }
  int checked(std::int64_t dim) const;
  template <class T>
  void check_type() const;

  std::shared_ptr<detail::Owner> owner_;
};

static_assert(!std::is_default_constructible_v<Tensor>, "there is no empty tensor");
static_assert(std::is_nothrow_move_constructible_v<Tensor> &&
                  std::is_nothrow_move_assignable_v<Tensor>,
              "moving a handle cannot fail");
static_assert(std::is_copy_constructible_v<Tensor> && std::is_copy_assignable_v<Tensor>,
              "a handle can be copied");
static_assert(sizeof(Tensor) == sizeof(std::shared_ptr<detail::Owner>),
              "a Tensor is one shared pointer and nothing else");

/// Tensors as an argument: {a, b} or a vector. For arguments only.
class TensorList {
 public:
  TensorList(std::initializer_list<Tensor> tensors) { add(tensors.begin(), tensors.end()); }
  TensorList(const std::vector<Tensor> &tensors) {
    add(tensors.data(), tensors.data() + tensors.size());
  }

  kael_tensor *const *data() const noexcept { return impls_.data(); }
  std::size_t size() const noexcept { return impls_.size(); }
  int count() const noexcept { return static_cast<int>(impls_.size()); }

 private:
  void add(const Tensor *first, const Tensor *last) {
    impls_.reserve(static_cast<std::size_t>(last - first));
    for (; first != last; ++first) impls_.push_back(first->impl());
  }

  std::vector<kael_tensor *> impls_;
};

namespace detail {

inline kael_tensor *impl_of(const std::optional<Tensor> &tensor) {
  return tensor ? tensor->impl() : KAEL_NONE;
}

inline Tensor OutTensors::take(std::size_t i) {
  return Tensor::from_result(std::exchange(impls_[i], nullptr));
}

inline std::vector<Tensor> OutTensors::take_all(std::size_t n_tensors) {
  std::vector<Tensor> tensors;
  tensors.reserve(n_tensors);
  for (std::size_t i = 0; i < n_tensors; i++) tensors.push_back(take(i));
  return tensors;
}

}  // namespace detail

inline std::string Tensor::text(char *owned) {
  std::unique_ptr<char, void (*)(char *)> string(given(owned), kael_string_free);
  return std::string(string.get());
}

inline int Tensor::checked(std::int64_t dim) const {
  const std::int64_t n_dims = kael_ndim(impl());
  if (dim >= -n_dims && dim < n_dims) return static_cast<int>(dim);
  throw Error(KAEL_ERR_INDEX, "dim " + std::to_string(dim) + " is out of range for a tensor of " +
                                  std::to_string(n_dims) + " dims");
}

template <class T>
void Tensor::check_type() const {
  if (dtype() == dtype_of<T>) return;
  throw Error(KAEL_ERR_TYPE, std::string("the elements are of dtype ") + kael_dtype_name(dtype()) +
                                 ", not " + kael_dtype_name(dtype_of<T>));
}

inline std::vector<Tensor> Tensor::unbind(std::int64_t dim) const {
  const auto n_views = static_cast<std::size_t>(size(dim));
  detail::OutTensors views(n_views);
  detail::check(kael_unbind(impl(), dim, views.data()));
  return views.take_all(n_views);
}

inline std::vector<Tensor> Tensor::split(std::int64_t size, std::int64_t dim) const {
  const std::int64_t whole = this->size(dim);
  const std::int64_t n_views = size > 0 && whole > 0 ? (whole - 1) / size + 1 : 1;
  detail::OutTensors views(static_cast<std::size_t>(n_views));
  detail::check(kael_split(impl(), size, dim, views.data()));
  return views.take_all(static_cast<std::size_t>(n_views));
}

inline std::vector<Tensor> Tensor::split(IntList sizes, std::int64_t dim) const {
  detail::OutTensors views(sizes.size());
  detail::check(kael_split_sizes(impl(), sizes.count(), sizes.data(), dim, views.data()));
  return views.take_all(sizes.size());
}

inline std::vector<Tensor> Tensor::chunk(std::int64_t n_chunks, std::int64_t dim) const {
  // At most as many as there are positions; of a size of 0, as many as asked for.
  const std::int64_t whole = size(dim);
  const std::int64_t room = whole > 0 && whole < n_chunks ? whole : n_chunks > 0 ? n_chunks : 1;
  detail::OutTensors views(static_cast<std::size_t>(room));
  std::int64_t n_views = 0;
  detail::check(kael_chunk(impl(), n_chunks, dim, views.data(), &n_views));
  return views.take_all(static_cast<std::size_t>(n_views));
}

inline std::ostream &operator<<(std::ostream &stream, const Tensor &tensor) {
  return stream << tensor.to_string();
}

}  // namespace kael
#endif
