// The C++ header: handles and their counts, errors, operators, guards, gradients, and that nothing
// leaks when something fails. Every test runs in eager and in lazy mode.
#include <kael/kael.hpp>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <new>
#include <sstream>
#include <thread>

extern "C" {
#include "tests/support/runner.h"
}

using kael::Tensor;
using Shape = std::vector<std::int64_t>;

// --- Allocations of C++ that fail ----------------------------------------------------------------

// Allocations that still succeed on this thread; -1: all.
static thread_local long allocations_left = -1;

static void *allocate(std::size_t size) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) allocations_left--;
  if (void *memory = std::malloc(size ? size : 1)) return memory;
  throw std::bad_alloc();
}
void *operator new(std::size_t size) { return allocate(size); }
void *operator new[](std::size_t size) { return allocate(size); }
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete[](void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void *memory, std::size_t) noexcept { std::free(memory); }

// --- Helpers
// --------------------------------------------------------------------------------------

static kael::jit::Mode mode_of(int loop) {
  return loop == 0 ? kael::jit::Mode::Eager : kael::jit::Mode::Lazy;
}

static void begin(int loop) { kael_set_jit(static_cast<kael_jit_mode>(mode_of(loop))); }

static void check_values(const Tensor &tensor, const char *what,
                         const std::vector<double> &wanted) {
  std::vector<double> got = tensor.to(kael::kFloat64).to_vector<double>();
  bool equal = got.size() == wanted.size();
  for (std::size_t i = 0; equal && i < got.size(); i++)
    equal = got[i] == wanted[i] || (std::isnan(got[i]) && std::isnan(wanted[i]));
  ck_assert_msg(equal, "%s is %s", what, tensor.to_string().c_str());
}
#define CHECK_VALUES(tensor, ...) check_values((tensor), #tensor, {__VA_ARGS__})

// The call throws kael::Error with this code and a message that contains `text`, and leaves no
// stored error behind.
template <class Call>
static void check_throws(const char *what, Call call, kael_status code, const char *text) {
  try {
    call();
  } catch (const kael::Error &error) {
    ck_assert_msg(error.code() == code && std::string(error.what()).find(text) != std::string::npos,
                  "%s gave %s: %s", what, kael_status_name(error.code()), error.what());
    ck_assert_int_eq(kael_last_error().code, KAEL_OK);
    return;
  }
  ck_abort_msg("%s did not throw", what);
}
#define CHECK_THROWS(expression, code, text)                                                       \
  check_throws(                                                                                    \
      #expression, [&] { (void)(expression); }, (code), (text))

static kael_stats stats() {
  kael_stats now{};
  now.size = sizeof now;
  ck_assert_int_eq(kael_stats_get(&now), KAEL_OK);
  return now;
}

static Tensor range(Shape shape, kael::Dtype dtype = kael::kFloat32) {
  std::int64_t n_elems = 1;
  for (std::int64_t size : shape) n_elems *= size;
  return kael::arange(0, n_elems, 1, dtype).view(shape);
}

// --- Identity
// -------------------------------------------------------------------------------------

START_TEST(worked_example_holds) {
  begin(_i);
  using namespace kael;
  Tensor a = zeros({2, 3});
  Tensor b = a;
  Tensor t = a.T();
  Tensor c = a.clone();

  ck_assert_int_eq(a.use_count(), 2);
  ck_assert_int_eq(t.use_count(), 1);
  ck_assert_int_eq(c.use_count(), 1);
  ck_assert_int_eq(a.storage_references(), 2);  // a (which b is too) and t
  ck_assert_int_eq(c.storage_references(), 1);
  ck_assert(a.explain().find("references: 2") != std::string::npos);
  ck_assert(a.is_same(b) && !a.is_same(t) && !a.is_same(c));
  ck_assert(a.shares_storage(t) && !a.shares_storage(c));

  ck_assert(t.shape() == Shape({3, 2}));
  ck_assert_int_eq(t.storage_offset() + 1 * t.stride(0) + 1 * t.stride(1), 4);
  t[1][1] = 42;
  ck_assert((a[{1, 1}].item<float>() == 42));
  ck_assert((b[1][1].item<float>() == 42));
  ck_assert((t[{1, 1}].item<float>() == 42));
  CHECK_VALUES(a, 0, 0, 0, 0, 42, 0);
  CHECK_VALUES(c, 0, 0, 0, 0, 0, 0);
  ck_assert_uint_eq(a.version(), 1);
  ck_assert_uint_eq(c.version(), 0);
  ck_assert_int_eq(a.use_count(), 2);
  ck_assert_int_eq(a.storage_references(), 2);
}
END_TEST

START_TEST(same_impl_has_one_control_block) {
  begin(_i);
  Tensor x = kael::ones({3}).requires_grad_();
  ck_assert(!x.grad());
  (x * 2).sum().backward();
  {
    Tensor first = *x.grad(), second = *x.grad();
    ck_assert(first.is_same(second));
    ck_assert_int_eq(first.use_count(), 2);
    CHECK_VALUES(first, 2, 2, 2);
  }
  ck_assert_int_eq(x.grad()->use_count(), 1);  // A new block, as all of the old one are gone.

  Tensor same = x.contiguous();
  ck_assert(same.is_same(x));
  ck_assert_int_eq(x.use_count(), 2);
  Tensor again = Tensor::from_borrowed(x.impl());
  ck_assert(again.is_same(x));
  ck_assert_int_eq(x.use_count(), 3);
  ck_assert_int_eq(kael_references(x.impl()), 1);  // All of C++ has one reference of C.
}
END_TEST

START_TEST(tensor_outlived_by_its_impl_can_be_wrapped_again) {
  begin(_i);
  kael_tensor *impl = nullptr;
  {
    Tensor x = kael::ones({2});
    impl = kael_retain(x.impl());
  }
  ck_assert_int_eq(kael_references(impl), 1);
  Tensor y = Tensor::from_impl(impl);
  ck_assert_int_eq(y.use_count(), 1);
  CHECK_VALUES(y, 1, 1);
}
END_TEST

START_TEST(from_impl_validates) {
  begin(_i);
  kael_clear_error();
  CHECK_THROWS(Tensor::from_impl(nullptr), KAEL_ERR_VALUE, "");
  CHECK_THROWS(Tensor::from_impl(KAEL_NONE), KAEL_ERR_VALUE, "KAEL_NONE");
  CHECK_THROWS(Tensor::from_borrowed(nullptr), KAEL_ERR_VALUE, "");
  const std::int64_t negative = -1;
  CHECK_THROWS(Tensor::from_impl(kael_zeros(1, &negative, KAEL_F32)), KAEL_ERR_RUNTIME, "negative");
}
END_TEST

START_TEST(moved_from_tensor_throws_and_can_be_assigned) {
  begin(_i);
  Tensor a = kael::ones({2});
  Tensor b = std::move(a);
  ck_assert_int_eq(b.use_count(), 1);
  CHECK_THROWS(a.shape(), KAEL_ERR_VALUE, "moved from");
  CHECK_THROWS(a + b, KAEL_ERR_VALUE, "moved from");
  CHECK_THROWS(b.add(a), KAEL_ERR_VALUE, "moved from");
  a = b;
  ck_assert(a.is_same(b));
}
END_TEST

START_TEST(scopes_of_c_do_not_own_tensors_of_cxx) {
  begin(_i);
  std::optional<Tensor> kept;
  ck_assert_int_eq(kael_scope_begin(), KAEL_OK);
  ck_assert_int_eq(kael_scope_begin(), KAEL_OK);
  kept = kael::ones({2}) + 1;
  kael_tensor *scoped = kael_neg(kept->impl());  // The scope's; also in a Tensor for a while.
  ck_assert(Tensor::from_borrowed(scoped).use_count() == 1);
  CHECK_VALUES(Tensor::from_borrowed(scoped), -2, -2);
  CHECK_VALUES(Tensor::from_impl(kael_retain(scoped)), -2, -2);
  CHECK_VALUES(Tensor::from_result(kael_neg(scoped)), 2, 2);
  CHECK_THROWS(kept->split({1, 2}), KAEL_ERR_RUNTIME, "");
  CHECK_VALUES(kept->split(1)[1], 2);
  ck_assert_int_eq(kael_scope_end(), KAEL_OK);
  ck_assert_int_eq(kael_scope_end(), KAEL_OK);
  ck_assert_int_eq(kael_references(kept->impl()), 1);
  CHECK_VALUES(*kept, 2, 2);
}
END_TEST

START_TEST(handle_taken_out_of_scopes_is_the_callers) {
  begin(_i);
  ck_assert_int_eq(kael_scope_begin(), KAEL_OK);
  kael_tensor *outer = kael_scalar_tensor(kael_f(1), KAEL_F32);
  ck_assert_int_eq(kael_scope_begin(), KAEL_OK);
  ck_assert_ptr_eq(kael_own(outer), outer);  // It was in the enclosing scope.
  ck_assert_ptr_null(kael_own(nullptr));
  ck_assert_int_eq(kael_scope_end(), KAEL_OK);
  ck_assert_int_eq(kael_scope_end(), KAEL_OK);
  ck_assert_int_eq(kael_references(outer), 1);
  ck_assert_int_eq(kael_release(outer), KAEL_OK);
}
END_TEST

START_TEST(wrapper_slots_keep_what_was_put) {
  begin(_i);
  Tensor x = kael::ones({1});
  int object;
  ck_assert_ptr_null(kael_wrapper_take(x.impl(), KAEL_WRAPPER_PYTHON));
  kael_wrapper_put(x.impl(), KAEL_WRAPPER_PYTHON, &object);
  void *cxx = kael_wrapper_take(x.impl(), KAEL_WRAPPER_CXX);
  kael_wrapper_put(x.impl(), KAEL_WRAPPER_CXX, cxx);
  ck_assert_ptr_nonnull(cxx);
  ck_assert_ptr_eq(kael_wrapper_take(x.impl(), KAEL_WRAPPER_PYTHON), &object);
  kael_wrapper_put(x.impl(), KAEL_WRAPPER_PYTHON, nullptr);
}
END_TEST

START_TEST(threads_that_wrap_one_impl_share_its_block) {
  begin(_i);
  kael_tensor *impl = kael_scalar_tensor(kael_f(1), KAEL_F32);
  std::atomic<long> n_wrong{0};
  auto wrap = [&] {
    for (int i = 0; i < 5000; i++) {
      Tensor first = Tensor::from_borrowed(impl);
      Tensor second = Tensor::from_borrowed(impl);
      if (!first.is_same(second) || first.impl() != impl) n_wrong++;
    }
  };
  std::thread others[3] = {std::thread(wrap), std::thread(wrap), std::thread(wrap)};
  wrap();
  for (std::thread &other : others) other.join();
  ck_assert_int_eq(n_wrong, 0);
  ck_assert_int_eq(kael_references(impl), 1);
  ck_assert_int_eq(kael_release(impl), KAEL_OK);
}
END_TEST

// --- Values
// ---------------------------------------------------------------------------------------

START_TEST(operators_take_tensors_and_numbers_on_both_sides) {
  begin(_i);
  Tensor x = kael::tensor({1.0, 2.0, 4.0}), y = kael::tensor({2.0, 2.0, 2.0});
  CHECK_VALUES(x + y, 3, 4, 6);
  CHECK_VALUES(x - y, -1, 0, 2);
  CHECK_VALUES(x * y, 2, 4, 8);
  CHECK_VALUES(x / y, 0.5, 1, 2);
  CHECK_VALUES(x + 1, 2, 3, 5);
  CHECK_VALUES(1 + x, 2, 3, 5);
  CHECK_VALUES(1 - x, 0, -1, -3);
  CHECK_VALUES(2 * x, 2, 4, 8);
  CHECK_VALUES(8 / x, 8, 4, 2);
  CHECK_VALUES(-x, -1, -2, -4);
  CHECK_VALUES(x == y, 0, 1, 0);
  CHECK_VALUES(x != 2, 1, 0, 1);
  CHECK_VALUES(x < y, 1, 0, 0);
  CHECK_VALUES(x <= 2, 1, 1, 0);
  CHECK_VALUES(2 < x, 0, 0, 1);
  CHECK_VALUES(2 >= x, 1, 1, 0);
  CHECK_VALUES(!(x > y), 1, 1, 0);
  ck_assert((x == y).dtype() == kael::kBool);
}
END_TEST

START_TEST(numbers_promote_by_their_kind) {
  begin(_i);
  Tensor ints = kael::tensor({1, 2}, kael::kInt32), bytes = kael::tensor({1, 3}, kael::kUInt8);
  ck_assert((ints + 1).dtype() == kael::kInt32);
  ck_assert((ints + 0.5).dtype() == kael::kFloat32);
  ck_assert((ints + true).dtype() == kael::kInt32);
  ck_assert((5 - bytes).dtype() == kael::kUInt8);
  CHECK_VALUES(5 - bytes, 4, 2);
  ck_assert((0.5 - bytes).dtype() == kael::kFloat32);
  CHECK_VALUES(0.5 - bytes, -0.5, -2.5);
  CHECK_VALUES(1 / kael::tensor({2, 4}), 0.5, 0.25);
  CHECK_THROWS(ints + (std::uint64_t(1) << 63), KAEL_ERR_VALUE, "int64");
}
END_TEST

START_TEST(compound_assignments_write_in_place) {
  begin(_i);
  Tensor x = kael::tensor({1.0, 2.0}), other = x;
  x += 1;
  x *= kael::tensor({2.0, 3.0});
  x -= kael::tensor(1.0);
  x /= 2;
  CHECK_VALUES(other, 1.5, 4);
  ck_assert(x.is_same(other));
  ck_assert_uint_eq(other.version(), 4);
  x.add_(1).mul_(2);
  CHECK_VALUES(other, 5, 10);
}
END_TEST

START_TEST(assignment_to_an_index_writes_and_to_a_name_binds) {
  begin(_i);
  Tensor x = kael::zeros({2, 2}), y = kael::ones({2});
  x[0] = y;
  x[1][0] = 3;
  x[-1] += 1;
  CHECK_VALUES(x, 1, 1, 4, 1);
  CHECK_VALUES(y, 1, 1);
  Tensor row = x[0];
  row = y;
  ck_assert(row.is_same(y));
  CHECK_VALUES(x, 1, 1, 4, 1);
  CHECK_THROWS(x[2], KAEL_ERR_INDEX, "");
  static_assert(!std::is_assignable_v<Tensor &, int>, "a handle is no number");
  static_assert(!std::is_assignable_v<const Tensor &, const Tensor &>, "a const handle stays");
}
END_TEST

START_TEST(methods_and_functions_follow_pytorch) {
  begin(_i);
  Tensor x = range({2, 3});
  CHECK_VALUES(x.sum(), 15);
  CHECK_VALUES(x.sum(1), 3, 12);
  CHECK_VALUES(kael::sum(x, {0, 1}, true), 15);
  ck_assert(x.sum({0}, true).shape() == Shape({1, 3}));
  CHECK_VALUES(x.amax(), 5);
  CHECK_VALUES(x.argmax(1), 2, 2);
  CHECK_VALUES(x.transpose(0, 1)[0], 0, 3);
  CHECK_VALUES(x.reshape(-1).slice(0, 1, KAEL_END, 2), 1, 3, 5);
  CHECK_VALUES(x.matmul(kael::ones({3})), 3, 12);
  CHECK_VALUES(kael::cat({x, x}, 1)[0], 0, 1, 2, 0, 1, 2);
  CHECK_VALUES(kael::where(x > 2, x, -x)[0], 0, -1, -2);
  CHECK_VALUES(x.where(x > 2, kael::zeros({1})), 0, 0, 0, 3, 4, 5);
  CHECK_VALUES(kael::linear(x, kael::ones({1, 3})), 3, 12);
  CHECK_VALUES(kael::linear(x, kael::ones({1, 3}), kael::tensor({1.0})), 4, 13);
  CHECK_VALUES(x.masked_fill(x > 4, 0.5)[1], 3, 4, 0.5);
  CHECK_VALUES(kael::softmax(kael::zeros({2}), 0), 0.5, 0.5);
  CHECK_VALUES(x.as_strided({2}, {3}, 1), 1, 4);
  CHECK_THROWS(x.as_strided({2}, {3, 1}, 1), KAEL_ERR_VALUE, "1 and 2 numbers");
  CHECK_VALUES(x.flatten().pow(2)[5], 25);
  ck_assert(x.to(kael::kInt64).dtype() == kael::kInt64);
  ck_assert(x.unsqueeze(0).squeeze().shape() == Shape({2, 3}));
}
END_TEST

START_TEST(many_views_are_a_vector) {
  begin(_i);
  Tensor x = range({5, 2});
  std::vector<Tensor> rows = x.unbind(), pieces = x.split(2), parts = x.split({1, 4});
  ck_assert_uint_eq(rows.size(), 5);
  ck_assert_uint_eq(pieces.size(), 3);
  ck_assert(pieces[2].shape() == Shape({1, 2}));
  ck_assert_uint_eq(parts.size(), 2);
  CHECK_VALUES(parts[0], 0, 1);
  ck_assert_uint_eq(x.chunk(4).size(), 3);
  ck_assert_uint_eq(kael::zeros({0, 2}).chunk(3).size(), 3);
  ck_assert_uint_eq(kael::zeros({0, 2}).split(3).size(), 1);
  ck_assert_uint_eq(kael::zeros({0, 2}).unbind().size(), 0);
  CHECK_THROWS(x.split(0), KAEL_ERR_RUNTIME, "");
  CHECK_THROWS(x.split({1, 1}), KAEL_ERR_RUNTIME, "");
  CHECK_THROWS(x.chunk(0), KAEL_ERR_RUNTIME, "");
  CHECK_THROWS(x.unbind(2), KAEL_ERR_INDEX, "");
}
END_TEST

START_TEST(factories_choose_dtypes_as_pytorch) {
  begin(_i);
  ck_assert(kael::zeros({2}).dtype() == kael::kFloat32);
  ck_assert(kael::zeros({}, kael::kInt64).dim() == 0);
  ck_assert(kael::full({2}, 1).dtype() == kael::kInt64);
  ck_assert(kael::full({2}, true).dtype() == kael::kBool);
  ck_assert(kael::full({2}, 1, kael::kFloat64).dtype() == kael::kFloat64);
  ck_assert(kael::arange(3).dtype() == kael::kInt64);
  CHECK_VALUES(kael::arange(0, 1, 0.25), 0, 0.25, 0.5, 0.75);
  CHECK_VALUES(kael::eye(2), 1, 0, 0, 1);
  ck_assert(kael::eye(2, 3).shape() == Shape({2, 3}));
  ck_assert(kael::tensor({true, false}).dtype() == kael::kBool);
  ck_assert(kael::tensor({1, 2}).dtype() == kael::kInt64);
  ck_assert(kael::tensor({1.0, 2.0}).dtype() == kael::kFloat32);
  ck_assert(kael::tensor({1.0, 2.0}, kael::kFloat64).dtype() == kael::kFloat64);
  CHECK_VALUES(kael::tensor(std::vector<std::int32_t>{1, 2}, kael::kInt64), 1, 2);
  const double numbers[] = {1, 2, 3, 4};
  ck_assert(kael::from_data(numbers, {2, 2}).dtype() == kael::kFloat64);
  kael::manual_seed(3);
  Tensor first = kael::rand({4});
  kael::manual_seed(3);
  ck_assert((kael::rand({4}) == first).all().item<bool>());
}
END_TEST

START_TEST(memory_of_the_caller_is_given_back_once) {
  begin(_i);
  float numbers[4] = {1, 2, 3, 4};
  int n_calls = 0;
  auto deleter = [](void *, void *user) { ++*static_cast<int *>(user); };
  {
    Tensor x = kael::from_blob(numbers, {2, 2}, kael::kFloat32, deleter, &n_calls);
    Tensor view = x[1];
    x += 1;
    CHECK_VALUES(view, 4, 5);
    ck_assert_ptr_eq(x.data_ptr<float>(), numbers);
    ck_assert_int_eq(n_calls, 0);
  }
  ck_assert_int_eq(n_calls, 1);
  ck_assert(numbers[0] == 2);
  CHECK_THROWS(kael::from_blob(numbers, {-1}), KAEL_ERR_RUNTIME, "");
  CHECK_THROWS(kael::from_blob(numbers, {INT64_MAX, 8}), KAEL_ERR_RUNTIME, "too large");
}
END_TEST

START_TEST(bytes_are_read_as_their_dtype_only) {
  begin(_i);
  Tensor x = range({2, 2});
  ck_assert(x.const_data_ptr<float>()[3] == 3);
  ck_assert(x.T().data_ptr<const float>()[1] == 1);
  x.data_ptr<float>()[0] = 7;
  ck_assert(x[0][0].item<float>() == 7);
  CHECK_THROWS(x.data_ptr<double>(), KAEL_ERR_TYPE, "float32, not float64");
  CHECK_THROWS(x.data_ptr<const std::int32_t>(), KAEL_ERR_TYPE, "float32");
  CHECK_THROWS(x.to_vector<double>(), KAEL_ERR_TYPE, "float64");
  CHECK_THROWS(x.item<float>(), KAEL_ERR_RUNTIME, "");
  CHECK_THROWS(x.size(2), KAEL_ERR_INDEX, "dim 2");
  ck_assert(x.T().to_vector<float>() == std::vector<float>({7, 2, 1, 3}));
  ck_assert_int_eq(kael::tensor(5).item<std::int64_t>(), 5);
  ck_assert(kael::tensor(0.5).item<bool>());
  std::ostringstream stream;
  stream << kael::tensor({1, 2});
  ck_assert(stream.str() == kael::tensor({1, 2}).to_string());
  ck_assert(stream.str().find('2') != std::string::npos);
}
END_TEST

// --- Modes and gradients
// --------------------------------------------------------------------------

START_TEST(guards_restore_the_mode_they_found) {
  begin(_i);
  Tensor x = kael::ones({2}).requires_grad_();
  try {
    kael::NoGradGuard guard;
    ck_assert(!(x + 1).requires_grad());
    x += 1;
    {
      kael::EnableGradGuard again;
      ck_assert((x + 1).requires_grad());
    }
    ck_assert(!kael_is_grad_enabled());
    throw 1;
  } catch (int) {
  }
  ck_assert(kael_is_grad_enabled());
  CHECK_THROWS(x += 1, KAEL_ERR_RUNTIME, "leaf");
  {
    kael::InferenceModeGuard guard;
    ck_assert(kael_is_inference_mode() && !(x + 1).requires_grad());
  }
  ck_assert(!kael_is_inference_mode());
}
END_TEST

START_TEST(jit_scope_restores_the_mode_it_found) {
  begin(_i);
  using kael::jit::Mode;
  Mode other = _i == 0 ? Mode::Lazy : Mode::Eager;
  try {
    kael::jit::Scope scope(other);
    ck_assert(kael::jit::mode() == other);
    Tensor x = kael::ones({2}) + 1;
    if (other == Mode::Lazy) ck_assert_int_gt(stats().pending_values, 0);
    {
      kael::jit::Scope inner(mode_of(_i));
      CHECK_VALUES(x + 1, 3, 3);
    }
    ck_assert(kael::jit::mode() == other);
    throw 1;
  } catch (int) {
  }
  ck_assert(kael::jit::mode() == mode_of(_i));

  // A thread without a mode of its own has none after a scope either.
  kael_set_jit(KAEL_JIT_DEFAULT);
  { kael::jit::Scope scope(other); }
  ck_assert_int_eq(kael_jit_override(), KAEL_JIT_DEFAULT);
  CHECK_THROWS(kael::jit::Scope(static_cast<Mode>(9)), KAEL_ERR_VALUE, "");
  ck_assert_int_eq(kael_jit_override(), KAEL_JIT_DEFAULT);
}
END_TEST

START_TEST(gradients_flow) {
  begin(_i);
  Tensor w = kael::tensor({1.0, 2.0}).requires_grad_(), x = kael::tensor({3.0, 4.0});
  Tensor loss = (w * x).sum();
  ck_assert(w.is_leaf() && !loss.is_leaf() && !w.grad_fn());
  ck_assert(loss.grad_fn() == "SumBackward0");
  loss.backward();
  CHECK_VALUES(*w.grad(), 3, 4);
  w.set_grad(std::nullopt);
  ck_assert(!w.grad());
  CHECK_THROWS(loss.backward(), KAEL_ERR_RUNTIME, "second time");
  (w * 2).backward(kael::ones({2}));
  CHECK_VALUES(*w.grad(), 2, 2);

  Tensor y = w * w * w;
  Tensor first = kael::autograd::grad({y.sum()}, {w}, std::nullopt, {false, true})[0];
  CHECK_VALUES(first, 3, 12);
  CHECK_VALUES(kael::autograd::grad({first}, {w}, kael::TensorList{kael::ones({2})})[0], 6, 12);
  Tensor apart = kael::ones({1}).requires_grad_();
  CHECK_THROWS(kael::autograd::grad({(w * 2).sum()}, {w, apart}), KAEL_ERR_RUNTIME, "");
  auto grads = kael::autograd::grad_or_none({(w * 2).sum()}, {w, apart});
  ck_assert(grads[0] && !grads[1]);
  CHECK_THROWS(kael::autograd::grad({w * 2}, {w}, kael::TensorList({})), KAEL_ERR_RUNTIME, "one");
}
END_TEST

START_TEST(hooks_see_replace_and_throw) {
  begin(_i);
  auto alive = std::make_shared<int>(0);
  {
    Tensor w = kael::ones({2}).requires_grad_();
    kael::Hook hook = w.register_hook([alive](const Tensor &grad) -> std::optional<Tensor> {
      ++*alive;
      return grad * 10;
    });
    w.sum().backward();
    CHECK_VALUES(*w.grad(), 10, 10);
    hook.remove();
    hook.remove();
    ck_assert_int_eq(alive.use_count(), 1);
    w.sum().backward();
    CHECK_VALUES(*w.grad(), 11, 11);

    w.register_hook(
        [alive](const Tensor &) -> std::optional<Tensor> { throw std::string("mine"); });
    bool caught = false;
    try {
      w.sum().backward();
    } catch (const std::string &thrown) {
      caught = thrown == "mine";
    }
    ck_assert(caught);
    ck_assert_int_eq(kael_last_error().code, KAEL_OK);
    ck_assert_int_eq(alive.use_count(), 2);
    CHECK_THROWS(kael::ones({1}).register_hook(nullptr), KAEL_ERR_RUNTIME, "gradient");
  }
  ck_assert_int_eq(*alive, 1);
  ck_assert_int_eq(alive.use_count(), 1);
}
END_TEST

// --- Failures
// -------------------------------------------------------------------------------------

START_TEST(errors_carry_code_and_message) {
  begin(_i);
  Tensor x = kael::ones({2, 3});
  CHECK_THROWS(x + kael::ones({4}), KAEL_ERR_RUNTIME, "3");
  CHECK_THROWS(x.sum(5), KAEL_ERR_INDEX, "5");
  CHECK_THROWS(x.view({4}), KAEL_ERR_RUNTIME, "[4]");
  CHECK_THROWS(kael::tensor({1, 2}).mean(), KAEL_ERR_RUNTIME, "mean");
  static_assert(std::is_base_of_v<std::runtime_error, kael::Error>);
}
END_TEST

START_TEST(failing_call_changes_nothing) {
  begin(_i);
  Tensor x = range({2, 3}).clone(), wrong = kael::ones({4});
  CHECK_THROWS(x += wrong, KAEL_ERR_RUNTIME, "");
  CHECK_THROWS(x[0] = wrong, KAEL_ERR_RUNTIME, "");
  CHECK_THROWS(x.to(kael::kInt64).div_(2), KAEL_ERR_RUNTIME, "");
  CHECK_VALUES(x, 0, 1, 2, 3, 4, 5);
  ck_assert_uint_eq(x.version(), 0);
  ck_assert_int_eq(x.use_count(), 1);
  ck_assert_int_eq(x.storage_references(), 1);
}
END_TEST

START_TEST(error_in_the_middle_of_an_expression_leaks_nothing) {
  begin(_i);
  Tensor x = kael::ones({64, 64}), wrong = kael::ones({3});
  x.eval();
  wrong.eval();
  kael_stats before = stats();
  for (int i = 0; i < 10; i++) {
    CHECK_THROWS((x + 1) * (x - x.T()) + (x.exp() / wrong), KAEL_ERR_RUNTIME, "");
    CHECK_THROWS(kael::cat({x + 1, x.T(), wrong}), KAEL_ERR_RUNTIME, "");
    CHECK_THROWS((x + i).split({1, 2}), KAEL_ERR_RUNTIME, "");
  }
  kael_stats after = stats();
  ck_assert_int_eq(after.pending_values, before.pending_values);
  ck_assert_uint_eq(after.memory_in_use, before.memory_in_use);
  ck_assert_int_eq(x.storage_references(), 1);
  ck_assert_int_eq(x.use_count(), 1);
}
END_TEST

// All that allocates in C++: new blocks, lists, vectors, strings, hooks.
static void program(const Tensor &x) {
  Tensor y = kael::cat({x + 1, 2 - x}, 1).split({1, 1}, 0)[0] * x.unbind()[0].sum();
  std::vector<Tensor> parts = y.chunk(2, 1);
  Tensor w = parts[0].detach().requires_grad_();
  w.register_hook([w](const Tensor &grad) { return std::optional<Tensor>(grad * 2); }).remove();
  (w * w).sum().backward();
  std::vector<Tensor> grads = kael::autograd::grad({(w * 3).sum()}, {w});
  (void)(grads[0] + *w.grad()).to_vector<float>();
  (void)w.grad()->to_string();
}

START_TEST(failing_allocation_leaks_nothing_wherever_it_is) {
  begin(_i);
  Tensor x = kael::ones({2, 3});
  x.eval();
  program(x);
  kael_stats before = stats();
  long n_failures = 0;
  for (bool failed = true; failed; n_failures++) {
    failed = false;
    allocations_left = n_failures;
    try {
      program(x);
    } catch (const std::bad_alloc &) {
      failed = true;
    }
    allocations_left = -1;
    ck_assert_int_eq(x.use_count(), 1);
    ck_assert_int_eq(x.storage_references(), 1);
    ck_assert_int_eq(stats().pending_values, before.pending_values);
    ck_assert_uint_eq(stats().memory_in_use, before.memory_in_use);
  }
  ck_assert_int_gt(n_failures, 30);
  CHECK_VALUES(x, 1, 1, 1, 1, 1, 1);
}
END_TEST

int main() {
  Suite *suite = suite_create("cxx");
  TCase *tests = tcase_create("cxx");
  suite_add_tcase(suite, tests);
  const TTest *both_modes[] = {
      worked_example_holds,
      same_impl_has_one_control_block,
      tensor_outlived_by_its_impl_can_be_wrapped_again,
      from_impl_validates,
      moved_from_tensor_throws_and_can_be_assigned,
      scopes_of_c_do_not_own_tensors_of_cxx,
      handle_taken_out_of_scopes_is_the_callers,
      wrapper_slots_keep_what_was_put,
      threads_that_wrap_one_impl_share_its_block,
      operators_take_tensors_and_numbers_on_both_sides,
      numbers_promote_by_their_kind,
      compound_assignments_write_in_place,
      assignment_to_an_index_writes_and_to_a_name_binds,
      methods_and_functions_follow_pytorch,
      many_views_are_a_vector,
      factories_choose_dtypes_as_pytorch,
      memory_of_the_caller_is_given_back_once,
      bytes_are_read_as_their_dtype_only,
      guards_restore_the_mode_they_found,
      jit_scope_restores_the_mode_it_found,
      gradients_flow,
      hooks_see_replace_and_throw,
      errors_carry_code_and_message,
      failing_call_changes_nothing,
      error_in_the_middle_of_an_expression_leaks_nothing,
      failing_allocation_leaks_nothing_wherever_it_is,
  };
  for (const TTest *test : both_modes) tcase_add_loop_test(tests, test, 0, 2);
  return kl_test_run(suite);
}
