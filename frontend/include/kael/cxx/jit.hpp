// kael/cxx/jit.hpp: when recorded operations run (kael/jit.h).
#ifndef KAEL_CXX_JIT_HPP
#define KAEL_CXX_JIT_HPP

#include "kael/cxx/tensor.hpp"

namespace kael {

/// Computes what the tensors need, in one run.
inline void eval(const TensorList &tensors) {
  detail::check(kael_eval(tensors.data(), tensors.count()));
}

namespace jit {

enum class Mode {
  Default = KAEL_JIT_DEFAULT,  // No mode of the thread's own.
  Eager = KAEL_JIT_EAGER,
  Lazy = KAEL_JIT_LAZY,
  Sync = KAEL_JIT_SYNC
};

/// The mode in force on the calling thread.
inline Mode mode() { return static_cast<Mode>(kael_jit()); }

/// The mode of the calling thread, while this object lives. It must die on the thread that made it.
class [[nodiscard]] Scope {
 public:
  explicit Scope(Mode mode) : former_(kael_jit_override()) {
    detail::check(kael_set_jit(static_cast<kael_jit_mode>(mode)));
  }
  Scope(const Scope &) = delete;
  Scope &operator=(const Scope &) = delete;
  ~Scope() { kael_set_jit(former_); }

 private:
  kael_jit_mode former_;
};

}  // namespace jit
}  // namespace kael
#endif
