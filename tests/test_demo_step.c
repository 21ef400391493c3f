/* One training step of the demo (examples/digits.c), recorded: which kernels it becomes. The list is
 * printed; a change of its length is a change of what fusion reaches, for better or worse. */
#include <stdio.h>
#include <string.h>

#include "frontend/report.h"
#include "tests/support/tensors.h"

enum { BATCH = 32, PIXELS = 64, HIDDEN1 = 128, HIDDEN2 = 64, CLASSES = 10, N_PARAMS = 6 };

typedef struct network {
  kael_tensor *params[N_PARAMS], *velocities[N_PARAMS];
} network;

static network make_network(void) {
  static const int64_t sizes[] = {PIXELS, HIDDEN1, HIDDEN2, CLASSES};
  network net;
  for (int i = 0; i < N_PARAMS; i++) {
    const int64_t shape[2] = {sizes[i / 2 + 1], sizes[i / 2]};
    int ndim = i % 2 == 0 ? 2 : 1;
    net.params[i] = MADE(kael_rand(ndim, shape, KAEL_F32));
    net.velocities[i] = MADE(kael_zeros(ndim, shape, KAEL_F32));
    OK(kael_eval((kael_tensor *[]){net.params[i], net.velocities[i]}, 2));
    OK(kael_requires_grad_(net.params[i], true));
  }
  return net;
}

static kael_tensor *forward(const network *net, kael_tensor *x) {
  x = kael_relu(kael_linear(x, net->params[0], net->params[1]));
  x = kael_relu(kael_linear(x, net->params[2], net->params[3]));
  return kael_linear(x, net->params[4], net->params[5]);
}

static void update(network *net) {
  bool was_enabled = kael_set_grad_enabled(false);
  for (int i = 0; i < N_PARAMS; i++) {
    OK(kael_mul_scalar_(net->velocities[i], kael_f(0.9)));
    OK(kael_add_(net->velocities[i], kael_grad(net->params[i])));
    OK(kael_sub_(net->params[i], kael_mul_scalar(net->velocities[i], kael_f(0.05))));
    OK(kael_set_grad(net->params[i], KAEL_NONE));
  }
  kael_set_grad_enabled(was_enabled);
}

/* The step as the demo records and evaluates it, on the batch at `first`; returns the loss. */
static kael_tensor *step(network *net, kael_tensor *xs, kael_tensor *ys, int64_t first) {
  OK(kael_scope_begin());
  kael_tensor *x = kael_narrow(xs, 0, first, BATCH), *y = kael_narrow(ys, 0, first, BATCH);
  kael_tensor *loss = MADE(kael_cross_entropy(forward(net, x), y, KAEL_REDUCTION_MEAN));
  OK(kael_backward(loss, KAEL_NONE, false, false));
  update(net);
  kael_keep(loss);
  OK(kael_scope_end());
  kael_tensor *changed[1 + 2 * N_PARAMS] = {loss};
  memcpy(changed + 1, net->params, sizeof net->params);
  memcpy(changed + 1 + N_PARAMS, net->velocities, sizeof net->velocities);
  OK(kael_eval(changed, 1 + 2 * N_PARAMS));
  return loss;
}

static kl_report *step_report(void) {
  network net = make_network();
  kael_tensor *xs = MADE(kael_rand(SHAPE(2 * BATCH, PIXELS), KAEL_F32));
  kael_tensor *ys = MADE(kael_full(SHAPE(2 * BATCH), kael_i(3), KAEL_I64));
  OK(kael_eval((kael_tensor *[]){xs, ys}, 2));
  step(&net, xs, ys, 0);
  step(&net, xs, ys, BATCH);
  kl_report *report = kl_report_last();
  ck_assert_ptr_nonnull(report);
  return report;
}

static void begin_lazy(void) { kl_test_begin(1); }

static int count_lines_with(const kl_report *report, const char *text) {
  int count = 0;
  for (int i = 0; i < kl_report_count(report); i++)
    count += strstr(kl_report_line(report, i), text) != NULL;
  return count;
}

/* Eight matrix products: three forward, and backward one for each weight and for the input of each
 * layer but the first. Ten kernels around them:
 *   2  bias and relu of a hidden layer
 *   1  bias of the output layer, log_softmax, nll_loss and its mean
 *   2  backward of nll_loss, with the sum of each row; backward of log_softmax, which also sums the
 *      gradient of the bias and updates it
 *   2  backward of a relu, which sums the gradient of the bias below it and updates that
 *   3  updates of the weights */
START_TEST(a_training_step_is_eight_matrix_products_and_ten_kernels) {
  kl_report *report = step_report();
  printf("one training step: %d launches\n", kl_report_count(report));
  for (int i = 0; i < kl_report_count(report); i++)
    printf("%4d  %s\n", i + 1, kl_report_line(report, i));
  ck_assert_int_eq(count_lines_with(report, "matmul f32"), 8);
  ck_assert_int_eq(count_lines_with(report, "kernel f32"), 10);
  ck_assert_int_eq(kl_report_count(report), 18);
  ck_assert_int_eq(count_lines_with(report, "sub_"), N_PARAMS); /* each parameter once */
  kl_report_release(report);
}
END_TEST

START_TEST(the_loss_and_its_logarithm_of_softmax_are_one_kernel) {
  kl_report *report = step_report();
  ck_assert_int_eq(count_lines_with(report, "log_softmax"), 1);
  int found = 0;
  for (int i = 0; i < kl_report_count(report); i++) {
    const char *line = kl_report_line(report, i);
    found += strstr(line, "log_softmax") && strstr(line, "cross_entropy") && strstr(line, "linear");
  }
  ck_assert_int_eq(found, 1);
  kl_report_release(report);
}
END_TEST

START_TEST(explain_lists_the_kernels_of_the_last_run) {
  kael_tensor *x = kl_test_range(KAEL_F32, SHAPE(4, 8));
  kael_tensor *y = MADE(kael_sum_dims(kael_exp(x), 1, (int64_t[]){1}, false));
  OK(kael_eval(&y, 1));
  char *text = kael_explain(y);
  ck_assert_ptr_nonnull(text);
  ck_assert_ptr_nonnull(strstr(text, "last run: 1 kernels\n"));
  ck_assert_ptr_nonnull(strstr(text, "kernel f32 [4 | 8]: exp reduce_sum (exp sum), reads 128 bytes"));
  kael_string_free(text);
}
END_TEST

START_TEST(a_long_chain_is_told_shortly) {
  kael_tensor *x = kl_test_range(KAEL_F32, SHAPE(100));
  for (int i = 0; i < 300; i++) OK(kael_add_scalar_(x, kael_f(i)));
  OK(kael_eval(&x, 1));
  kl_report *report = kl_report_last();
  ck_assert_int_eq(kl_report_count(report), 1);
  ck_assert_str_eq(kl_report_line(report, 0), "kernel f32 [100]: add x300 (add_)");
  kl_report_release(report);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("demo_step");
  TCase *tests = tcase_create("demo_step");
  tcase_add_checked_fixture(tests, begin_lazy, kl_test_end);
  tcase_add_test(tests, a_training_step_is_eight_matrix_products_and_ten_kernels);
  tcase_add_test(tests, the_loss_and_its_logarithm_of_softmax_are_one_kernel);
  tcase_add_test(tests, explain_lists_the_kernels_of_the_last_run);
  tcase_add_test(tests, a_long_chain_is_told_shortly);
  suite_add_tcase(suite, tests);
  return kl_test_run(suite);
}
