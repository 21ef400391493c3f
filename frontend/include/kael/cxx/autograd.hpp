// kael/cxx/autograd.hpp: gradient modes, hooks and backward passes (kael/autograd.h).
#ifndef KAEL_CXX_AUTOGRAD_HPP
#define KAEL_CXX_AUTOGRAD_HPP

#include <exception>

#include "kael/cxx/tensor.hpp"

namespace kael {

namespace detail {
/// Sets a mode of the calling thread while it lives.
template <bool (*set)(bool)>
class ModeGuard {
 public:
  explicit ModeGuard(bool enabled) noexcept : former_(set(enabled)) {}
  ModeGuard(const ModeGuard &) = delete;
  ModeGuard &operator=(const ModeGuard &) = delete;
  ~ModeGuard() { set(former_); }

 private:
  bool former_;
};
}  // namespace detail

/// While one lives, its thread remembers nothing for backward passes, and may change leaves.
class [[nodiscard]] NoGradGuard : detail::ModeGuard<kael_set_grad_enabled> {
 public:
  NoGradGuard() noexcept : ModeGuard(false) {}
};

/// Gradient mode on again, inside a NoGradGuard.
class [[nodiscard]] EnableGradGuard : detail::ModeGuard<kael_set_grad_enabled> {
 public:
  EnableGradGuard() noexcept : ModeGuard(true) {}
};

class [[nodiscard]] InferenceModeGuard : detail::ModeGuard<kael_set_inference_mode> {
 public:
  InferenceModeGuard() noexcept : ModeGuard(true) {}
};

/// A registered hook. The hook stays when this object dies.
class Hook {
 public:
  explicit Hook(kael_hook *owned) noexcept : hook_(owned) {}
  /// Takes the hook away; a second call does nothing.
  void remove() noexcept { kael_hook_remove(hook_.release()); }

 private:
  struct Release {
    void operator()(kael_hook *hook) const noexcept { kael_hook_release(hook); }
  };
  std::unique_ptr<kael_hook, Release> hook_;
};

namespace detail {

using HookFunction = std::function<std::optional<Tensor>(const Tensor &)>;

/// What a hook threw in the backward pass that now runs on this thread.
inline std::exception_ptr &hook_exception() noexcept {
  thread_local std::exception_ptr thrown;
  return thrown;
}

inline kael_status run_hook(kael_tensor *grad, void *user, kael_tensor **out_grad) noexcept {
  try {
    std::optional<Tensor> other = (*static_cast<HookFunction *>(user))(Tensor::from_borrowed(grad));
    if (other) *out_grad = kael_retain(other->impl());
    return KAEL_OK;
  } catch (const Error &error) {
    hook_exception() = std::current_exception();
    return error.code() == KAEL_OK ? KAEL_ERR_RUNTIME : error.code();
  } catch (...) {
    hook_exception() = std::current_exception();
    return KAEL_ERR_RUNTIME;
  }
}

inline void destroy_hook(void *user) noexcept { delete static_cast<HookFunction *>(user); }

/// The end of a backward pass: what a hook threw goes on.
inline void check_pass(kael_status status) {
  std::exception_ptr thrown = std::exchange(hook_exception(), nullptr);
  if (status == KAEL_OK) return;
  if (!thrown) throw_last_error(status);
  kael_clear_error();
  std::rethrow_exception(thrown);
}

}  // namespace detail

inline Hook Tensor::register_hook(detail::HookFunction hook) const {
  auto function = std::make_unique<detail::HookFunction>(std::move(hook));
  kael_hook *registered =
      kael_register_hook(impl(), detail::run_hook, function.get(), detail::destroy_hook);
  if (!registered) detail::throw_last_error(KAEL_ERR_RUNTIME);
  function.release();
  return Hook(registered);
}

inline std::optional<std::string> Tensor::grad_fn() const {
  kael_clear_error();  // NULL means a leaf only where no error came with it.
  if (const char *name = kael_grad_fn_name(impl())) return std::string(name);
  if (kael_last_error().code != KAEL_OK) detail::throw_last_error(KAEL_ERR_RUNTIME);
  return std::nullopt;
}

inline void Tensor::backward(const std::optional<Tensor> &gradient,
                             std::optional<bool> retain_graph, bool create_graph) const {
  detail::check_pass(kael_backward(impl(), detail::impl_of(gradient),
                                   retain_graph.value_or(create_graph), create_graph));
}

namespace autograd {

struct GradOptions {
  bool retain_graph = false;
  bool create_graph = false;  // Implies that the graph is retained.
};

}  // namespace autograd

namespace detail {
inline OutTensors gradients(const TensorList &outputs, const TensorList &inputs,
                            const std::optional<TensorList> &grad_outputs,
                            autograd::GradOptions options, bool allow_unused) {
  if (grad_outputs && grad_outputs->size() != outputs.size())
    throw Error(KAEL_ERR_RUNTIME, "grad: there must be one gradient for each output");
  kael_grad_options c_options{};
  c_options.size = sizeof c_options;
  c_options.retain_graph = options.retain_graph || options.create_graph;
  c_options.create_graph = options.create_graph;
  c_options.allow_unused = allow_unused;
  OutTensors grads(inputs.size());
  check_pass(kael_autograd_grad(outputs.data(), grad_outputs ? grad_outputs->data() : nullptr,
                                outputs.size(), inputs.data(), inputs.size(), &c_options,
                                grads.data()));
  return grads;
}
}  // namespace detail

namespace autograd {

/// One backward pass from several tensors, with a gradient of 1 for each.
inline void backward(const TensorList &tensors, GradOptions options = {}) {
  detail::check_pass(kael_backward_all(tensors.data(), nullptr, tensors.size(),
                                       options.retain_graph || options.create_graph,
                                       options.create_graph));
}

/// The same with one gradient for each.
inline void backward(const TensorList &tensors, const TensorList &gradients,
                     GradOptions options = {}) {
  if (gradients.size() != tensors.size())
    throw Error(KAEL_ERR_RUNTIME, "backward: there must be one gradient for each tensor");
  detail::check_pass(kael_backward_all(tensors.data(), gradients.data(), tensors.size(),
                                       options.retain_graph || options.create_graph,
                                       options.create_graph));
}

/// Gradients of `outputs` with respect to `inputs`, which need not be leaves; nothing is
/// accumulated. An input that no output depends on is an error in `grad`, and has none in
/// `grad_or_none`.
inline std::vector<Tensor> grad(const TensorList &outputs, const TensorList &inputs,
                                const std::optional<TensorList> &grad_outputs = std::nullopt,
                                GradOptions options = {}) {
  return detail::gradients(outputs, inputs, grad_outputs, options, false).take_all(inputs.size());
}
inline std::vector<std::optional<Tensor>> grad_or_none(
    const TensorList &outputs, const TensorList &inputs,
    const std::optional<TensorList> &grad_outputs = std::nullopt, GradOptions options = {}) {
  detail::OutTensors grads = detail::gradients(outputs, inputs, grad_outputs, options, true);
  std::vector<std::optional<Tensor>> results(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); i++)
    if (grads.has(i)) results[i] = grads.take(i);
  return results;
}

}  // namespace autograd
}  // namespace kael
#endif
