// kael/cxx/owner.hpp: the C++ object behind all Tensors of one impl.
//
// An Owner has one reference of the C API. The impl's wrapper slot leads to its living Owner, if
// there is one, so that a second handle to the impl, wherever it came from, shares the first one's
// control block. All C++ code of a process that meets the same tensors must be built with one
// standard library and one version of this header.
#ifndef KAEL_CXX_OWNER_HPP
#define KAEL_CXX_OWNER_HPP

#include <memory>
#include <utility>

#include "kael/cxx/error.hpp"
#include "kael/tensor.h"

namespace kael::detail {

struct ReleaseImpl {
  void operator()(kael_tensor *impl) const noexcept { kael_release(impl); }
};
using ImplPtr = std::unique_ptr<kael_tensor, ReleaseImpl>;

class Owner : public std::enable_shared_from_this<Owner> {
 public:
  explicit Owner(ImplPtr impl) noexcept : impl_(std::move(impl)) {}
  Owner(const Owner &) = delete;
  Owner &operator=(const Owner &) = delete;
  ~Owner() {
    void *held = kael_wrapper_take(impl(), KAEL_WRAPPER_CXX);
    kael_wrapper_put(impl(), KAEL_WRAPPER_CXX, held == this ? nullptr : held);
  }

  kael_tensor *impl() const noexcept { return impl_.get(); }

  /// The Owner of the impl, whose reference is taken over: the living one, or else a new one.
  static std::shared_ptr<Owner> of(ImplPtr impl) {
    std::shared_ptr<Owner> fresh = std::make_shared<Owner>(std::move(impl));
    // An Owner whose last Tensor is gone, and which waits in its destructor for the slot, cannot be
    // locked any more; it leaves the new one in place.
    auto *held = static_cast<Owner *>(kael_wrapper_take(fresh->impl(), KAEL_WRAPPER_CXX));
    std::shared_ptr<Owner> living = held ? held->weak_from_this().lock() : nullptr;
    kael_wrapper_put(fresh->impl(), KAEL_WRAPPER_CXX, living ? held : fresh.get());
    return living ? living : fresh;
  }

 private:
  ImplPtr impl_;
};

}  // namespace kael::detail
#endif
