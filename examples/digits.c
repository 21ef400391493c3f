/* Trains a classifier of handwritten digits twice with the same numbers: once in eager mode, where
 * each operation runs as it is called, and once recorded, fused and compiled. Then every loss of the
 * two runs is compared: they must be the same bits.
 *   digits examples/data/digits.csv
 * The network, 64 -> 128 -> 64 -> 10, learns by stochastic gradient descent with momentum. The exit
 * status is 0 when the losses agree and 97 % of the images that were held back are recognized. */
#include <kael/kael.h>
#include <kael/stats.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "examples/digits_data.h"

enum { HIDDEN1 = 128, HIDDEN2 = 64, N_PARAMS = 6, BATCH = 32, EPOCHS = 30, SEED = 2 };

static const double learning_rate = 0.05, momentum = 0.9, goal = 0.97;

typedef struct network {
  kael_tensor *params[N_PARAMS];     /* weight and bias of each layer */
  kael_tensor *velocities[N_PARAMS]; /* running averages of their gradients */
} network;

typedef struct sets {
  kael_tensor *train_x, *train_y, *test_x, *test_y;
} sets;

/* What one training run leaves behind. */
typedef struct result {
  float *losses;
  double *step_seconds;
  int n_steps;
  double accuracy;
  kael_stats steps;   /* of the training steps alone */
  int64_t n_programs; /* graphs compiled, and kernels in them, in the whole run */
  int64_t n_compiled;
} result;

/* The functions of kael return NULL or a status when they fail, and what is given NULL returns NULL:
 * so it is enough to look at the end of a chain. */
static void check(int ok) {
  if (ok) return;
  fprintf(stderr, "digits: %s\n", kael_last_error().message);
  exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static kael_stats stats(void) {
  kael_stats s = {.size = sizeof s};
  check(kael_stats_get(&s) == KAEL_OK);
  return s;
}

/* --- Random order ------------------------------------------------------------------------------ */

static uint64_t random_state;

/* splitmix64 (Steele, Lea and Flood, OOPSLA 2014). */
static uint64_t random_word(void) {
  uint64_t z = random_state += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
  return z ^ z >> 31;
}

/* The numbers from 0 to n - 1 in random order, as a tensor. */
static kael_tensor *random_order(int64_t n) {
  int64_t *order = malloc(sizeof *order * (size_t)n);
  check(order != NULL);
  for (int64_t i = 0; i < n; i++) {
    int64_t j = (int64_t)(random_word() % (uint64_t)(i + 1));
    order[i] = order[j];
    order[j] = i;
  }
  kael_tensor *tensor = kael_from_data(order, 1, &n, KAEL_I64);
  free(order);
  check(tensor != NULL);
  return tensor;
}

/* --- The data ---------------------------------------------------------------------------------- */

/* A fifth of the images, chosen at random, is held back for the test. */
static sets split(const digits_data *data) {
  int64_t n = data->n_images, n_test = n / 5;
  kael_tensor *x = kael_from_data(data->pixels, 2, (int64_t[]){n, DIGITS_PIXELS}, KAEL_F32);
  kael_tensor *y = kael_from_data(data->labels, 1, &n, KAEL_I64);
  kael_tensor *order = random_order(n);
  kael_tensor *test = kael_slice(order, 0, KAEL_BEGIN, n_test, 1);
  kael_tensor *train = kael_slice(order, 0, n_test, KAEL_END, 1);
  return (sets){.train_x = kael_index_select(x, 0, train),
                .train_y = kael_index_select(y, 0, train),
                .test_x = kael_index_select(x, 0, test),
                .test_y = kael_index_select(y, 0, test)};
}

/* --- The network ------------------------------------------------------------------------------- */

/* Uniform on [-bound, bound). */
static kael_tensor *random_param(int ndim, const int64_t *shape, double bound) {
  kael_tensor *t = kael_rand(ndim, shape, KAEL_F32);
  t = kael_add_scalar(kael_mul_scalar(t, kael_f(2 * bound)), kael_f(-bound));
  check(kael_requires_grad_(t, true) == KAEL_OK);
  return t;
}

/* 1 / sqrt(inputs) for the three layers: 64, 128 and 64 inputs. */
static network make_network(void) {
  static const int64_t sizes[] = {DIGITS_PIXELS, HIDDEN1, HIDDEN2, DIGITS_CLASSES};
  static const double bounds[] = {0.125, 0.0883883, 0.125};
  network net;
  for (int layer = 0; layer < 3; layer++) {
    const int64_t shape[2] = {sizes[layer + 1], sizes[layer]};
    net.params[2 * layer] = random_param(2, shape, bounds[layer]);
    net.params[2 * layer + 1] = random_param(1, shape, bounds[layer]);
  }
  for (int i = 0; i < N_PARAMS; i++) {
    kael_tensor *p = net.params[i];
    net.velocities[i] = kael_zeros(kael_ndim(p), kael_shape(p), KAEL_F32);
  }
  return net;
}

static kael_tensor *forward(const network *net, kael_tensor *x) {
  x = kael_relu(kael_linear(x, net->params[0], net->params[1]));
  x = kael_relu(kael_linear(x, net->params[2], net->params[3]));
  return kael_linear(x, net->params[4], net->params[5]);
}

/* v = momentum * v + gradient, and p -= learning_rate * v, in place. */
static void update(network *net) {
  bool was_enabled = kael_set_grad_enabled(false);
  for (int i = 0; i < N_PARAMS; i++) {
    kael_tensor *p = net->params[i], *v = net->velocities[i];
    check(kael_mul_scalar_(v, kael_f(momentum)) == KAEL_OK);
    check(kael_add_(v, kael_grad(p)) == KAEL_OK);
    check(kael_sub_(p, kael_mul_scalar(v, kael_f(learning_rate))) == KAEL_OK);
    check(kael_set_grad(p, KAEL_NONE) == KAEL_OK);
  }
  kael_set_grad_enabled(was_enabled);
}

/* Records a step (in eager mode: runs it) on the images from `first` on. What is made inside a scope
 * is released at its end, but for what is kept: intermediate results without a handle need not be
 * written to memory. */
static kael_tensor *record_step(network *net, kael_tensor *xs, kael_tensor *ys, int64_t first) {
  check(kael_scope_begin() == KAEL_OK);
  kael_tensor *x = kael_narrow(xs, 0, first, BATCH), *y = kael_narrow(ys, 0, first, BATCH);
  kael_tensor *loss = kael_cross_entropy(forward(net, x), y, KAEL_REDUCTION_MEAN);
  check(kael_backward(loss, KAEL_NONE, false, false) == KAEL_OK);
  update(net);
  kael_keep(loss);
  check(kael_scope_end() == KAEL_OK);
  return loss;
}

/* One evaluation of all that the step changed. Reading the loss alone would compute the loss alone,
 * and leave the updates to the next step. */
static float finish_step(const network *net, kael_tensor *loss) {
  kael_tensor *changed[1 + 2 * N_PARAMS] = {loss};
  memcpy(changed + 1, net->params, sizeof net->params);
  memcpy(changed + 1 + N_PARAMS, net->velocities, sizeof net->velocities);
  check(kael_eval(changed, 1 + 2 * N_PARAMS) == KAEL_OK);
  double value;
  check(kael_item(loss, &value) == KAEL_OK);
  return (float)value;
}

static double accuracy(const network *net, kael_tensor *x, kael_tensor *y) {
  bool was_enabled = kael_set_grad_enabled(false);
  kael_tensor *right = kael_eq(kael_argmax_dim(forward(net, x), 1, false), y);
  kael_tensor *share = kael_mean(kael_to_dtype(right, KAEL_F64));
  kael_set_grad_enabled(was_enabled);
  double value;
  check(kael_item(share, &value) == KAEL_OK);
  return value;
}

/* --- Training ---------------------------------------------------------------------------------- */

static void show_progress(const char *name, int done, int total, float loss) {
  enum { WIDTH = 30 };
  if (!isatty(STDERR_FILENO)) return;
  static const char bar[] = "##############################";
  int filled = WIDTH * done / total;
  fprintf(stderr, "\r%-8s [%.*s%*s] epoch %2d/%d, loss %.4f", name, filled, bar, WIDTH - filled, "",
          done, total, (double)loss);
  if (done == total) fputc('\n', stderr);
}

static void add_difference(kael_stats *sum, kael_stats before, kael_stats after) {
  sum->kernels += after.kernels - before.kernels;
  sum->bytes_read += after.bytes_read - before.bytes_read;
  sum->bytes_written += after.bytes_written - before.bytes_written;
}

static void train_epoch(network *net, const sets *data, int steps, result *r) {
  kael_tensor *order = random_order(kael_size(data->train_x, 0));
  kael_tensor *xs = kael_index_select(data->train_x, 0, order);
  kael_tensor *ys = kael_index_select(data->train_y, 0, order);
  check(kael_eval((kael_tensor *[]){xs, ys}, 2) == KAEL_OK);
  kael_stats before = stats();
  for (int i = 0; i < steps; i++) {
    double start = now();
    kael_tensor *loss = record_step(net, xs, ys, (int64_t)i * BATCH);
    r->losses[r->n_steps] = finish_step(net, loss);
    r->step_seconds[r->n_steps++] = now() - start;
  }
  add_difference(&r->steps, before, stats());
}

static result train(const char *name, kael_jit_mode mode, const digits_data *data) {
  check(kael_set_jit(mode) == KAEL_OK);
  check(kael_scope_begin() == KAEL_OK);
  random_state = SEED;
  kael_manual_seed(SEED);
  kael_stats before = stats();
  sets all = split(data);
  network net = make_network();

  int steps = (int)(kael_size(all.train_x, 0) / BATCH); /* the last, shorter batch is left out */
  size_t n = (size_t)steps * EPOCHS;
  result r = {.losses = malloc(sizeof *r.losses * n),
              .step_seconds = malloc(sizeof *r.step_seconds * n)};
  check(r.losses && r.step_seconds);
  for (int epoch = 0; epoch < EPOCHS; epoch++) {
    check(kael_scope_begin() == KAEL_OK);
    train_epoch(&net, &all, steps, &r);
    check(kael_scope_end() == KAEL_OK);
    show_progress(name, epoch + 1, EPOCHS, r.losses[r.n_steps - 1]);
  }
  r.accuracy = accuracy(&net, all.test_x, all.test_y);
  check(kael_scope_end() == KAEL_OK);
  kael_stats after = stats();
  r.n_programs = after.programs_built - before.programs_built;
  r.n_compiled = after.kernels_llvm - before.kernels_llvm;
  return r;
}

/* --- The report -------------------------------------------------------------------------------- */

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void print_result(const char *name, const result *r) {
  qsort(r->step_seconds, (size_t)r->n_steps, sizeof(double), compare_doubles);
  double n = r->n_steps;
  printf("%-8s %8.2f %% %9.0f us %10.1f %10lld %10lld %12.0f %12.0f\n", name, 100 * r->accuracy,
         1e6 * r->step_seconds[r->n_steps / 2], (double)r->steps.kernels / n,
         (long long)r->n_programs, (long long)r->n_compiled, (double)r->steps.bytes_read / n,
         (double)r->steps.bytes_written / n);
}

int main(int argc, char **argv) {
  digits_data data;
  if (argc != 2) {
    fprintf(stderr, "usage: %s digits.csv\n", argv[0]);
    return 2;
  }
  if (digits_data_read(argv[1], &data)) return 1;
  kael_jit_mode mode = KAEL_JIT_SYNC;
  const char *name = "compiled";
  if (kael_set_jit(mode) != KAEL_OK) {
    printf("note: %s; the second run is fused, and not compiled\n", kael_last_error().message);
    mode = KAEL_JIT_LAZY;
    name = "fused";
  }
  printf("%lld images of handwritten digits, %d steps of %d images an epoch, %d epochs\n",
         (long long)data.n_images, (int)((data.n_images - data.n_images / 5) / BATCH), BATCH, EPOCHS);
  fflush(stdout);
  result eager = train("eager", KAEL_JIT_EAGER, &data);
  result fused = train(name, mode, &data);

  bool identical = memcmp(eager.losses, fused.losses, sizeof(float) * (size_t)eager.n_steps) == 0;
  printf("%-8s %10s %12s %10s %10s %10s %12s %12s\n", "mode", "accuracy", "a step", "kernels",
         "graphs", "compiled", "bytes read", "written");
  print_result("eager", &eager);
  print_result(name, &fused);
  printf("accuracy on images held back; median time, kernels and bytes of a training step; graphs\n"
         "that went through the passes, and kernels that LLVM compiled, in the whole run\n");
  printf("last loss %.6f, %d losses compared\n", (double)fused.losses[fused.n_steps - 1],
         fused.n_steps);
  printf("bit-identical: %s\n", identical ? "yes" : "no");
  bool good = eager.accuracy >= goal && fused.accuracy >= goal;
  if (!good) printf("too few images were recognized: the goal is %.0f %%\n", 100 * goal);
  free(eager.losses), free(eager.step_seconds);
  free(fused.losses), free(fused.step_seconds);
  digits_data_free(&data);
  return identical && good ? 0 : 1;
}
