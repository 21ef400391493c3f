/* What fusion reaches: how many kernels a graph becomes, in recorded mode by tier 0. Each case is
 * also run eager, and must give the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "ir/graph.h"
#include "ir/support/text.h"
#include "passes/pipeline.h"
#include "tests/support/tensors.h"

enum { ROWS = 24, COLS = 80, MAX_OUT = 8 };

/* Real tensors from which the cases start; each run of a case gets new ones. */
typedef struct inputs {
  kael_tensor *x, *y;  /* (ROWS, COLS) in [0, 1) */
  kael_tensor *row;    /* (COLS) */
  kael_tensor *column; /* (ROWS, 1) */
  kael_tensor *number; /* 0-d */
  kael_tensor *target; /* (ROWS) of int64 below COLS */
} inputs;

/* Records a case; returns how many tensors it put into out. */
typedef int make_fn(const inputs *in, kael_tensor **out);

static kael_stats now(void) {
  kael_stats stats = {.size = sizeof stats};
  OK(kael_stats_get(&stats));
  return stats;
}

static void check_cost(kael_stats before, const char *what, int64_t runs, int64_t kernels) {
  kael_stats after = now();
  ck_assert_msg(after.runs - before.runs == runs, "%s: %lld runs, not %lld", what,
                (long long)(after.runs - before.runs), (long long)runs);
  ck_assert_msg(after.kernels - before.kernels == kernels, "%s: %lld kernels, not %lld", what,
                (long long)(after.kernels - before.kernels), (long long)kernels);
}

static inputs make_inputs(void) {
  kael_manual_seed(7);
  inputs in = {
      .x = MADE(kael_rand(SHAPE(ROWS, COLS), KAEL_F32)),
      .y = MADE(kael_rand(SHAPE(ROWS, COLS), KAEL_F32)),
      .row = MADE(kael_rand(SHAPE(COLS), KAEL_F32)),
      .column = MADE(kael_rand(SHAPE(ROWS, 1), KAEL_F32)),
      .number = MADE(kael_scalar_tensor(kael_f(0.75), KAEL_F32)),
  };
  int64_t targets[ROWS];
  for (int i = 0; i < ROWS; i++) targets[i] = i * 7 % COLS;
  in.target = MADE(kael_from_data(targets, SHAPE(ROWS), KAEL_I64));
  OK(kael_eval((kael_tensor *[]){in.x, in.y, in.row, in.column, in.number, in.target}, 6));
  return in;
}

/* Records the case in a scope of its own: what it does not return is not kept. */
static int record(make_fn *make, const inputs *in, kael_tensor **out) {
  OK(kael_scope_begin());
  int n = make(in, out);
  for (int i = 0; i < n; i++) MADE(kael_keep(MADE(out[i])));
  OK(kael_scope_end());
  return n;
}

static char *bytes_of(kael_tensor *tensor, size_t *out_nbytes) {
  *out_nbytes = (size_t)kael_numel(tensor) * kael_dtype_size(kael_dtype_of(tensor));
  char *bytes = malloc(*out_nbytes + 1);
  OK(kael_copy_to_host(tensor, bytes, *out_nbytes));
  return bytes;
}

static void check_same(kael_tensor *const *out, kael_tensor *const *expected, int n) {
  for (int i = 0; i < n; i++) {
    size_t nbytes, expected_nbytes;
    char *bytes = bytes_of(out[i], &nbytes), *wanted = bytes_of(expected[i], &expected_nbytes);
    ck_assert_uint_eq(nbytes, expected_nbytes);
    ck_assert_msg(memcmp(bytes, wanted, nbytes) == 0, "output %d differs from eager", i);
    free(bytes);
    free(wanted);
  }
}

/* The case, read, is one run of this many kernels, and what eager mode computes. */
static void check_kernels(make_fn *make, const char *what, int64_t kernels) {
  kael_tensor *out[MAX_OUT], *expected[MAX_OUT];
  OK(kael_set_jit(KAEL_JIT_EAGER));
  inputs in = make_inputs();
  record(make, &in, expected);
  OK(kael_set_jit(KAEL_JIT_LAZY));
  in = make_inputs();
  int n = record(make, &in, out);
  kael_stats before = now();
  OK(kael_eval(out, n));
  check_cost(before, what, 1, kernels);
  check_same(out, expected, n);
}
#define CHECK_KERNELS(make, kernels) check_kernels((make), #make, (kernels))

/* --- Elementwise ------------------------------------------------------------------------------ */

/* A number that follows from i without a pattern. */
static unsigned scrambled(int i) {
  unsigned hash = (unsigned)i * 2654435761u;
  hash ^= hash >> 15;
  hash *= 2246822519u;
  return hash ^ hash >> 13;
}

/* Op number i of a chain without a pattern, so that nothing rolls into a loop. */
static kael_tensor *mixed_op(kael_tensor *v, int i, const inputs *in) {
  switch (scrambled(i) % 6) {
    case 0:
      return kael_tanh(v);
    case 1:
      return kael_mul(v, in->y);
    case 2:
      return kael_add_scalar(v, kael_f(0.5 + i % 7));
    case 3:
      return kael_sub(in->x, v);
    case 4:
      return kael_maximum(v, in->y);
    default:
      return kael_mul_scalar(v, kael_f(0.25));
  }
}

static int chain_length; /* of the case below */

static int mixed_chain(const inputs *in, kael_tensor **out) {
  out[0] = in->x;
  for (int i = 0; i < chain_length; i++) out[0] = MADE(mixed_op(out[0], i, in));
  return 1;
}

START_TEST(an_elementwise_chain_of_up_to_512_ops_is_one_kernel) {
  static const int lengths[] = {1, 2, 10, 100, 511, 512};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    chain_length = lengths[i];
    CHECK_KERNELS(mixed_chain, 1);
  }
}
END_TEST

/* Its pieces may be sections of one kernel. */
START_TEST(a_longer_chain_is_at_most_a_kernel_for_each_512_ops) {
  static const int lengths[][2] = {{513, 1}, {1000, 1}, {1024, 1}, {1025, 2}};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    chain_length = lengths[i][0];
    CHECK_KERNELS(mixed_chain, lengths[i][1]);
  }
}
END_TEST

static int broadcasts(const inputs *in, kael_tensor **out) {
  kael_tensor *scaled = kael_mul(kael_add(in->x, in->row), in->column);
  kael_tensor *moved = kael_sub(scaled, in->number);
  out[0] = kael_add(kael_exp(moved), kael_mul(in->row, in->column));
  return 1;
}

START_TEST(operands_that_broadcast_are_read_in_the_one_kernel) { CHECK_KERNELS(broadcasts, 1); }
END_TEST

static int small_producers(const inputs *in, kael_tensor **out) {
  kael_tensor *row = kael_exp(in->row), *column = kael_tanh(in->column);
  out[0] = kael_add(kael_mul(in->x, row), column);
  return 1;
}

START_TEST(what_broadcasts_is_computed_where_it_is_used) { CHECK_KERNELS(small_producers, 1); }
END_TEST

static int diamond(const inputs *in, kael_tensor **out) {
  kael_tensor *shared = kael_mul(in->x, in->y);
  out[0] = kael_add(kael_exp(shared), kael_tanh(shared));
  out[1] = kael_sub(shared, out[0]);
  out[2] = kael_gt(out[1], kael_neg(shared));
  return 3;
}

START_TEST(a_dag_with_several_outputs_is_one_kernel) { CHECK_KERNELS(diamond, 1); }
END_TEST

static int siblings(const inputs *in, kael_tensor **out) {
  out[0] = kael_add(in->x, in->y);
  out[1] = kael_sub(in->x, in->y);
  out[2] = kael_mul(in->y, in->x);
  return 3;
}

START_TEST(results_that_share_operands_alone_are_one_kernel) { CHECK_KERNELS(siblings, 1); }
END_TEST

static int in_place(const inputs *in, kael_tensor **out) {
  OK(kael_mul_(in->x, in->y));
  OK(kael_add_(in->x, in->row));
  out[0] = kael_sub(in->x, in->column);
  OK(kael_exp_(in->y));
  OK(kael_add_(in->y, out[0]));
  out[1] = in->x;
  out[2] = in->y;
  return 3;
}

START_TEST(results_in_place_join_the_kernel) { CHECK_KERNELS(in_place, 1); }
END_TEST

static int mixed_dtypes(const inputs *in, kael_tensor **out) {
  kael_tensor *integers = kael_to_dtype(kael_mul_scalar(in->x, kael_f(100)), KAEL_I32);
  kael_tensor *mask = kael_gt_scalar(integers, kael_i(50));
  out[0] = kael_where(mask, kael_to_dtype(integers, KAEL_F64), kael_to_dtype(in->y, KAEL_F64));
  return 1;
}

START_TEST(casts_and_conditions_stay_in_the_kernel) { CHECK_KERNELS(mixed_dtypes, 1); }
END_TEST

static int made_from_nothing(const inputs *in, kael_tensor **out) {
  kael_tensor *steps = kael_arange(kael_i(0), kael_i(COLS), kael_i(1), KAEL_F32);
  kael_tensor *ones = kael_ones(SHAPE(ROWS, COLS), KAEL_F32);
  out[0] = kael_add(kael_mul(in->x, steps), kael_mul(ones, in->column));
  return 1;
}

START_TEST(factories_are_computed_where_they_are_used) { CHECK_KERNELS(made_from_nothing, 1); }
END_TEST

static int through_views(const inputs *in, kael_tensor **out) {
  kael_tensor *doubled = kael_mul_scalar(in->x, kael_f(2));
  kael_tensor *turned = kael_add(kael_T(doubled), kael_T(in->y));
  out[0] = kael_exp(kael_reshape(kael_T(turned), SHAPE(ROWS * 2, COLS / 2)));
  return 1;
}

START_TEST(views_between_ops_cost_no_kernel) { CHECK_KERNELS(through_views, 1); }
END_TEST

static int part_of_a_result(const inputs *in, kael_tensor **out) {
  kael_tensor *doubled = kael_mul_scalar(in->x, kael_f(2));
  out[0] = kael_exp(kael_slice(kael_narrow(doubled, 0, 3, 10), 1, 1, KAEL_END, 3));
  return 1;
}

START_TEST(only_the_part_of_a_result_that_is_read_is_computed) {
  CHECK_KERNELS(part_of_a_result, 1);
  inputs in = make_inputs();
  kael_tensor *out[MAX_OUT];
  record(part_of_a_result, &in, out);
  kael_stats before = now();
  OK(kael_eval(out, 1));
  ck_assert_int_eq(now().bytes_read - before.bytes_read, kael_numel(out[0]) * 4);
}
END_TEST

/* --- Reductions ------------------------------------------------------------------------------- */

static const int64_t last[] = {1}, first[] = {0};

static int folded_rows(const inputs *in, kael_tensor **out) {
  kael_tensor *terms = kael_mul(kael_exp(in->x), in->y);
  out[0] = kael_sqrt(kael_add_scalar(kael_sum_dims(terms, 1, last, false), kael_f(1)));
  return 1;
}

static int folded_columns(const inputs *in, kael_tensor **out) {
  kael_tensor *terms = kael_mul(kael_exp(in->x), in->column);
  out[0] = kael_mul(kael_sum_dims(terms, 1, first, false), in->row);
  return 1;
}

static int folded_whole(const inputs *in, kael_tensor **out) {
  out[0] = kael_sqrt(kael_mean(kael_square(kael_sub(in->x, in->row))));
  return 1;
}

START_TEST(a_reduction_takes_its_producers_and_consumers_along) {
  CHECK_KERNELS(folded_rows, 1);
  CHECK_KERNELS(folded_columns, 1);
  CHECK_KERNELS(folded_whole, 1);
}
END_TEST

static int rows_and_back(const inputs *in, kael_tensor **out) {
  out[0] = kael_div(in->x, kael_sum_dims(in->x, 1, last, true));
  out[1] = kael_sum_dims(kael_mul(out[0], in->y), 1, last, false);
  return 2;
}

START_TEST(a_reduction_and_what_is_broadcast_from_it_are_one_kernel) {
  CHECK_KERNELS(rows_and_back, 1);
}
END_TEST

static int many_folds(const inputs *in, kael_tensor **out) {
  out[0] = kael_sum_dims(in->x, 1, last, false);
  out[1] = kael_amax(in->x, 1, last, false);
  out[2] = kael_argmax_dim(in->x, 1, false);
  return 3;
}

START_TEST(reductions_of_one_tensor_along_one_dim_are_one_kernel) { CHECK_KERNELS(many_folds, 1); }
END_TEST

static int sum_of_sums(const inputs *in, kael_tensor **out) {
  out[0] = kael_sum(kael_sum_dims(kael_exp(in->x), 1, last, false));
  return 1;
}

START_TEST(a_sum_of_sums_is_one_kernel) { CHECK_KERNELS(sum_of_sums, 1); }
END_TEST

static int layer_norm(const inputs *in, kael_tensor **out) {
  kael_tensor *mean = kael_mean_dims(in->x, 1, last, true);
  kael_tensor *centred = kael_sub(in->x, mean);
  kael_tensor *variance = kael_mean_dims(kael_square(centred), 1, last, true);
  kael_tensor *scale = kael_reciprocal(kael_sqrt(kael_add_scalar(variance, kael_f(1e-5))));
  out[0] =
      kael_add(kael_mul(kael_mul(centred, scale), in->row), kael_mul_scalar(in->row, kael_f(2)));
  return 1;
}

static int rms_norm(const inputs *in, kael_tensor **out) {
  kael_tensor *mean = kael_mean_dims(kael_square(in->x), 1, last, true);
  out[0] = kael_mul(kael_div(in->x, kael_sqrt(mean)), in->row);
  return 1;
}

START_TEST(layer_norm_and_rms_norm_are_one_kernel) {
  CHECK_KERNELS(layer_norm, 1);
  CHECK_KERNELS(rms_norm, 1);
}
END_TEST

static int moments(const inputs *in, kael_tensor **out) {
  out[0] = kael_mean_dims(in->x, 1, last, true);
  out[1] = kael_mean_dims(kael_square(kael_sub(in->x, out[0])), 1, last, false);
  return 2;
}

START_TEST(mean_and_variance_are_one_kernel) { CHECK_KERNELS(moments, 1); }
END_TEST

static int gathered(const inputs *in, kael_tensor **out) {
  kael_tensor *picked = kael_gather(in->x, 1, kael_unsqueeze(in->target, 1));
  out[0] = kael_mul_scalar(kael_log(picked), kael_f(-1));
  return 1;
}

START_TEST(a_gather_takes_its_consumers_along) { CHECK_KERNELS(gathered, 1); }
END_TEST

static int joined(const inputs *in, kael_tensor **out) {
  kael_tensor *pieces[] = {kael_exp(in->x), kael_mul(in->x, in->y), in->y};
  out[0] = kael_cat(pieces, 3, 1);
  return 1;
}

START_TEST(a_cat_of_three_computed_tensors_is_one_kernel) { CHECK_KERNELS(joined, 1); }
END_TEST

/* --- Softmax and losses: forward, backward ---------------------------------------------------- */

static int softmax_rows(const inputs *in, kael_tensor **out) {
  out[0] = kael_softmax(in->x, 1);
  return 1;
}

static int softmax_columns(const inputs *in, kael_tensor **out) {
  out[0] = kael_softmax(in->x, 0);
  return 1;
}

static int log_softmax_rows(const inputs *in, kael_tensor **out) {
  out[0] = kael_log_softmax(in->x, 1);
  return 1;
}

static int cross_entropy(const inputs *in, kael_tensor **out) {
  out[0] = kael_cross_entropy(in->x, in->target, KAEL_REDUCTION_MEAN);
  return 1;
}

static int softmax_of_producers(const inputs *in, kael_tensor **out) {
  kael_tensor *logits = kael_add(kael_mul_scalar(in->x, kael_f(0.125)), in->y);
  out[0] = kael_mul(kael_softmax(logits, 1), in->row);
  return 1;
}

START_TEST(softmax_is_one_kernel) {
  CHECK_KERNELS(softmax_rows, 1);
  CHECK_KERNELS(softmax_columns, 1);
  CHECK_KERNELS(softmax_of_producers, 1);
}
END_TEST

START_TEST(log_softmax_is_one_kernel) { CHECK_KERNELS(log_softmax_rows, 1); }
END_TEST

START_TEST(cross_entropy_is_one_kernel) { CHECK_KERNELS(cross_entropy, 1); }
END_TEST

/* The gradient of x; in->y is the gradient of a result of its size. The result itself is dropped
 * unless `out_result` asks for it, read first where `read_first`. */
static kael_tensor *gradient(make_fn *forward, bool read_first, kael_tensor **out_result) {
  inputs in = make_inputs();
  OK(kael_requires_grad_(in.x, true));
  OK(kael_scope_begin());
  kael_tensor *result;
  forward(&in, &result);
  MADE(result);
  if (read_first) OK(kael_eval(&result, 1));
  OK(kael_backward(result, kael_numel(result) == 1 ? KAEL_NONE : in.y, false, false));
  kael_tensor *grad = MADE(kael_keep(kael_grad(in.x)));
  if (out_result) *out_result = kael_keep(result);
  OK(kael_scope_end());
  return grad;
}

/* The gradient is one kernel: alone after the result was read, alone without, and with the result.
 */
static void check_backward(make_fn *forward, const char *what) {
  OK(kael_set_jit(KAEL_JIT_EAGER));
  kael_tensor *expected[2];
  expected[0] = gradient(forward, false, &expected[1]);
  OK(kael_set_jit(KAEL_JIT_LAZY));

  kael_tensor *grad = gradient(forward, true, NULL);
  kael_stats before = now();
  OK(kael_eval(&grad, 1));
  check_cost(before, what, 1, 1);
  check_same(&grad, expected, 1);

  grad = gradient(forward, false, NULL);
  before = now();
  OK(kael_eval(&grad, 1));
  check_cost(before, what, 1, 1);
  check_same(&grad, expected, 1);

  kael_tensor *both[2];
  both[0] = gradient(forward, false, &both[1]);
  before = now();
  OK(kael_eval(both, 2));
  check_cost(before, what, 1, 1);
  check_same(both, expected, 2);
}

START_TEST(softmax_backward_is_one_kernel) {
  check_backward(softmax_rows, "softmax of rows");
  check_backward(softmax_columns, "softmax of columns");
}
END_TEST

START_TEST(log_softmax_backward_is_one_kernel) { check_backward(log_softmax_rows, "log_softmax"); }
END_TEST

START_TEST(cross_entropy_backward_is_one_kernel) { check_backward(cross_entropy, "cross_entropy"); }
END_TEST

/* A small fold that overwrites part of `old` after a matrix product has read it. */
static int fold_over_what_was_read(const inputs *in, kael_tensor **out) {
  kael_tensor *old = kael_exp(kael_narrow(in->x, 0, 0, 2));
  kael_tensor *rows = kael_sum_dims(kael_exp(in->y), 1, last, false);
  out[0] = kael_matmul(old, kael_T(in->y));
  OK(kael_copy_(kael_select(kael_select(old, 0, 0), 0, 0), kael_sum(rows)));
  out[1] = old;
  out[2] = rows;
  return 3;
}

START_TEST(a_small_fold_is_not_moved_before_who_reads_what_it_overwrites) {
  CHECK_KERNELS(fold_over_what_was_read, 4);
}
END_TEST

/* --- Repeated patterns ------------------------------------------------------------------------ */

static int three_thousand_additions(const inputs *in, kael_tensor **out) {
  for (int i = 0; i < 3000; i++) OK(kael_add_scalar_(in->x, kael_f(1)));
  out[0] = in->x;
  return 1;
}

static int three_thousand_products_and_sums(const inputs *in, kael_tensor **out) {
  out[0] = in->x;
  for (int i = 0; i < 3000; i++) out[0] = kael_add(kael_mul(out[0], in->y), in->row);
  return 1;
}

static int changing_scalars(const inputs *in, kael_tensor **out) {
  out[0] = in->x;
  for (int i = 0; i < 1500; i++)
    out[0] = kael_add_scalar(kael_mul_scalar(out[0], kael_f(0.5)), kael_f(i));
  return 1;
}

START_TEST(a_pattern_repeated_beyond_the_limit_is_one_kernel) {
  CHECK_KERNELS(three_thousand_additions, 1);
  CHECK_KERNELS(three_thousand_products_and_sums, 1);
  CHECK_KERNELS(changing_scalars, 1);
}
END_TEST

static int fibonacci(const inputs *in, kael_tensor **out) {
  kael_tensor *before = in->x;
  out[0] = in->y;
  for (int i = 0; i < 40; i++) {
    kael_tensor *next = kael_add(out[0], before);
    before = out[0];
    out[0] = next;
  }
  return 1;
}

START_TEST(a_fibonacci_shaped_graph_is_one_kernel) { CHECK_KERNELS(fibonacci, 1); }
END_TEST

static int chain_with_an_output_between(const inputs *in, kael_tensor **out) {
  out[0] = in->x;
  for (int i = 0; i < 1500; i++) out[0] = kael_add_scalar(out[0], kael_f(i % 3));
  out[1] = out[0];
  for (int i = 0; i < 1500; i++) out[1] = kael_add_scalar(out[1], kael_f(i % 5));
  return 2;
}

START_TEST(an_output_between_makes_two_loops_in_one_kernel) {
  CHECK_KERNELS(chain_with_an_output_between, 1);
}
END_TEST

/* --- Programs from text ----------------------------------------------------------------------- */

static kl_program program_of(const kl_text *text) {
  kl_graph graph = {0};
  kl_program program;
  ck_assert_msg(kl_graph_parse(kl_text_string(text), text->nbytes, &graph) == KL_OK, "%s",
                kl_error_message());
  const kl_pass_options options = {.n_threads = 1, .verify = true};
  ck_assert_msg(kl_passes_run(&graph, &options, &program) == KL_OK, "%s", kl_error_message());
  kl_graph_finish(&graph);
  return program;
}

/* x_n = op(x_{n-1}, y) without a pattern, so that it is not a loop; y is x_{n-2} or, for a chain,
 * one of the two leaves. */
static kl_program program_of_steps(int n, bool chain) {
  static const char *const ops[] = {"add", "mul", "sub", "max", "min"};
  kl_text text = {0};
  kl_text_add(&text,
              "graph scalars=0 offsets=0 {\n  leaf l0 f32 64\n  leaf l1 f32 64\n"
              "  n0 = leaf.f32 l0\n  n1 = leaf.f32 l1\n");
  for (int i = 2; i < n + 2; i++)
    kl_text_add(&text, "  n%d = %s.f32 [64] n%d (0; 1), n%d (0; 1)%s\n", i, ops[scrambled(i) % 5],
                i - 1, chain ? (int)(scrambled(-i) % 2) : i - 2, i == n + 1 ? " keep" : "");
  kl_text_add(&text, "}\n");
  kl_program program = program_of(&text);
  kl_text_finish(&text);
  return program;
}

static uint32_t count_instructions(const kl_program *program, uint32_t *out_sections) {
  uint32_t count = 0;
  *out_sections = 0;
  for (uint32_t k = 0; k < program->kernels.count; k++)
    for (uint32_t s = 0; s < program->kernels.data[k].sections.count; s++) {
      count += program->kernels.data[k].sections.data[s].instrs.count;
      ++*out_sections;
    }
  return count;
}

/* Two loads, one store, and every value once, not once for each of its exponentially many readers.
 */
START_TEST(shared_values_are_computed_once_in_a_kernel) {
  static const int lengths[] = {40, 400};
  for (int i = 0; i < 2; i++) {
    kl_program program = program_of_steps(lengths[i], false);
    uint32_t n_sections;
    ck_assert_uint_eq(count_instructions(&program, &n_sections), (uint32_t)lengths[i] + 3);
    ck_assert_uint_eq(n_sections, 1);
    kl_program_finish(&program);
  }
}
END_TEST

START_TEST(no_section_has_more_than_512_operations) {
  static const uint32_t lengths[][2] = {{512, 1}, {513, 2}, {1000, 2}, {1024, 2}, {1025, 3}};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    kl_program program = program_of_steps((int)lengths[i][0], true);
    uint32_t n_sections;
    count_instructions(&program, &n_sections);
    ck_assert_uint_eq(n_sections, lengths[i][1]);
    kl_program_finish(&program);
  }
}
END_TEST

static kl_program program_of_lines(const char *lines) {
  kl_text text = {0};
  kl_text_add(&text, "graph scalars=1 offsets=0 {\n%s}\n", lines);
  kl_program program = program_of(&text);
  kl_text_finish(&text);
  return program;
}

START_TEST(a_matrix_product_is_never_put_over_its_factors) {
  kl_program program = program_of_lines(
      "  leaf l0 f32 16 reusable\n  leaf l1 f32 16 reusable\n"
      "  n0 = leaf.f32 l0\n  n1 = leaf.f32 l1\n"
      "  n2 = matmul.f32 [4, 4 | 4] n0 (0; 4, 0, 1), n1 (0; 0, 1, 4) keep\n");
  ck_assert_uint_eq(program.launches.count, 1);
  const kl_launch *product = &program.launches.data[0];
  ck_assert_int_eq(product->kind, KL_LAUNCH_MATMUL);
  ck_assert_int_eq(program.slots.data[product->slots.data[2]].kind, KL_SLOT_OUTPUT);
  kl_program_finish(&program);
}
END_TEST

START_TEST(what_follows_a_matrix_product_ends_in_the_memory_of_the_product) {
  kl_program program = program_of_lines(
      "  leaf l0 f32 16\n  leaf l1 f32 16\n"
      "  n0 = leaf.f32 l0\n  n1 = leaf.f32 l1\n"
      "  n2 = matmul.f32 [4, 4 | 4] n0 (0; 4, 0, 1), n1 (0; 0, 1, 4)\n"
      "  n3 = max.f32 [16] n2 (0; 1), s0.f32 keep\n");
  ck_assert_uint_eq(program.launches.count, 2);
  ck_assert_uint_eq(program.outputs.data[0].slot, program.launches.data[0].slots.data[2]);
  ck_assert_int_eq(program.temp_nbytes, 0);
  kl_program_finish(&program);
}
END_TEST

START_TEST(a_write_works_on_a_copy_where_the_old_value_stays) {
  kl_program program = program_of_lines(
      "  leaf l0 f32 12\n  n0 = leaf.f32 l0\n"
      "  n1 = exp.f32 [12] n0 (0; 1) keep\n"
      "  n2 = write_view.f32 [6] n1, s0.f32 into (1; 2) keep\n");
  ck_assert_uint_eq(program.launches.count, 3);
  const kl_launch *copy = &program.launches.data[1];
  ck_assert_int_eq(copy->kind, KL_LAUNCH_COPY);
  ck_assert_uint_eq(copy->slots.data[0], program.outputs.data[0].slot);
  ck_assert_uint_eq(copy->slots.data[1], program.outputs.data[1].slot);
  kl_program_finish(&program);
}
END_TEST

START_TEST(a_write_and_what_follows_stay_in_the_old_memory) {
  kl_program program = program_of_lines(
      "  leaf l0 f32 12 reusable\n  n0 = leaf.f32 l0\n"
      "  n1 = write_view.f32 [6] n0, s0.f32 into (1; 2)\n"
      "  n2 = exp.f32 [12] n1 (0; 1) keep\n");
  ck_assert_int_eq(program.slots.data[program.outputs.data[0].slot].kind, KL_SLOT_LEAF);
  ck_assert_int_eq(program.temp_nbytes, 0);
  kl_program_finish(&program);
}
END_TEST

static void begin_lazy(void) { kl_test_begin(1); }

int main(void) {
  Suite *suite = suite_create("fusion");
  TCase *tests = tcase_create("fusion");
  tcase_add_checked_fixture(tests, begin_lazy, kl_test_end);
  tcase_add_test(tests, an_elementwise_chain_of_up_to_512_ops_is_one_kernel);
  tcase_add_test(tests, a_longer_chain_is_at_most_a_kernel_for_each_512_ops);
  tcase_add_test(tests, operands_that_broadcast_are_read_in_the_one_kernel);
  tcase_add_test(tests, what_broadcasts_is_computed_where_it_is_used);
  tcase_add_test(tests, a_dag_with_several_outputs_is_one_kernel);
  tcase_add_test(tests, results_that_share_operands_alone_are_one_kernel);
  tcase_add_test(tests, results_in_place_join_the_kernel);
  tcase_add_test(tests, casts_and_conditions_stay_in_the_kernel);
  tcase_add_test(tests, factories_are_computed_where_they_are_used);
  tcase_add_test(tests, views_between_ops_cost_no_kernel);
  tcase_add_test(tests, only_the_part_of_a_result_that_is_read_is_computed);
  tcase_add_test(tests, a_reduction_takes_its_producers_and_consumers_along);
  tcase_add_test(tests, a_reduction_and_what_is_broadcast_from_it_are_one_kernel);
  tcase_add_test(tests, reductions_of_one_tensor_along_one_dim_are_one_kernel);
  tcase_add_test(tests, a_sum_of_sums_is_one_kernel);
  tcase_add_test(tests, layer_norm_and_rms_norm_are_one_kernel);
  tcase_add_test(tests, mean_and_variance_are_one_kernel);
  tcase_add_test(tests, a_gather_takes_its_consumers_along);
  tcase_add_test(tests, a_cat_of_three_computed_tensors_is_one_kernel);
  tcase_add_test(tests, softmax_is_one_kernel);
  tcase_add_test(tests, log_softmax_is_one_kernel);
  tcase_add_test(tests, cross_entropy_is_one_kernel);
  tcase_add_test(tests, softmax_backward_is_one_kernel);
  tcase_add_test(tests, log_softmax_backward_is_one_kernel);
  tcase_add_test(tests, cross_entropy_backward_is_one_kernel);
  tcase_add_test(tests, a_small_fold_is_not_moved_before_who_reads_what_it_overwrites);
  tcase_add_test(tests, a_pattern_repeated_beyond_the_limit_is_one_kernel);
  tcase_add_test(tests, a_fibonacci_shaped_graph_is_one_kernel);
  tcase_add_test(tests, an_output_between_makes_two_loops_in_one_kernel);
  tcase_add_test(tests, shared_values_are_computed_once_in_a_kernel);
  tcase_add_test(tests, no_section_has_more_than_512_operations);
  tcase_add_test(tests, a_matrix_product_is_never_put_over_its_factors);
  tcase_add_test(tests, what_follows_a_matrix_product_ends_in_the_memory_of_the_product);
  tcase_add_test(tests, a_write_works_on_a_copy_where_the_old_value_stays);
  tcase_add_test(tests, a_write_and_what_follows_stay_in_the_old_memory);
  suite_add_tcase(suite, tests);
  return kl_test_run(suite);
}
