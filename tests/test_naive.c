/* The naive evaluator against results worked out by hand: it judges the rest of the library, so its
 * orders and its rules for views must be right on their own. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/naive/naive_graph.h"
#include "tests/naive/naive_ops.h"
#include "tests/support/runner.h"

static kl_scalar f32(float value) {
  kl_scalar scalar = {.bits = 0};
  scalar.f32 = value;
  return scalar;
}

/* A row of `n` f32 zeros, to be filled in where it matters. */
static kl_scalar *zeros(int64_t n) { return calloc((size_t)n, sizeof(kl_scalar)); }

static float sum_row(kl_scalar *row, int64_t n) {
  return naive_reduce(KL_OP_REDUCE_SUM, KL_F32, row, n).f32;
}

/* ------------------------------------------------------------------ orders */

START_TEST(a_row_is_summed_in_32_lanes) {
  kl_scalar *row = zeros(33);
  row[0] = f32(1e8f), row[16] = f32(-1e8f), row[32] = f32(1);
  /* Lane 0 takes elements 0 and 32: the one is lost there. In sequence it would survive. */
  ck_assert(sum_row(row, 33) == 0);
  row[32] = f32(0), row[17] = f32(1);
  ck_assert(sum_row(row, 33) == 1);
  free(row);
}
END_TEST

START_TEST(lanes_are_joined_by_halves) {
  kl_scalar *row = zeros(32);
  /* 0 and 16 meet first, then their sum and that of 8 and 24. */
  row[0] = f32(1e8f), row[16] = f32(-1e8f), row[8] = f32(1);
  ck_assert(sum_row(row, 32) == 1);
  row[16] = f32(0), row[1] = f32(-1e8f);
  ck_assert(sum_row(row, 32) == 0);
  free(row);
}
END_TEST

START_TEST(chunks_are_joined_by_a_tree_split_at_the_largest_power_of_two) {
  kl_scalar *row = zeros(3 * 1024);
  row[0] = f32(1e8f), row[1024] = f32(-1e8f), row[2048] = f32(1);
  ck_assert(sum_row(row, 3 * 1024) == 1); /* (c0 + c1) + c2 */
  row[0] = f32(1), row[1024] = f32(1e8f), row[2048] = f32(-1e8f);
  ck_assert(sum_row(row, 3 * 1024) == 0);
  free(row);
}
END_TEST

START_TEST(four_chunks_are_two_pairs) {
  kl_scalar *row = zeros(3 * 1024 + 1);
  row[0] = f32(1), row[1024] = f32(1e8f), row[2048] = f32(-1e8f), row[3072] = f32(1);
  ck_assert(sum_row(row, 3 * 1024 + 1) == 0); /* (1 + 1e8) + (-1e8 + 1) */
  free(row);
}
END_TEST

START_TEST(sums_start_at_positive_zero) {
  kl_scalar row[2] = {f32(-0.0f), f32(-0.0f)};
  ck_assert(!signbit(sum_row(row, 2)));
  ck_assert(sum_row(row, 0) == 0 && !signbit(sum_row(row, 0)));
  ck_assert(naive_reduce(KL_OP_REDUCE_PROD, KL_F32, row, 0).f32 == 1);
  ck_assert(naive_reduce(KL_OP_REDUCE_MAX, KL_F32, row, 0).f32 == -INFINITY);
}
END_TEST

START_TEST(argmax_is_the_first_nan_else_the_first_of_the_ties) {
  kl_scalar row[5] = {f32(1), f32(3), f32(3), f32(NAN), f32(NAN)};
  ck_assert_int_eq(naive_reduce(KL_OP_REDUCE_ARGMAX, KL_F32, row, 3).i64, 1);
  ck_assert_int_eq(naive_reduce(KL_OP_REDUCE_ARGMAX, KL_F32, row, 5).i64, 3);
  ck_assert_int_eq(naive_reduce(KL_OP_REDUCE_ARGMIN, KL_F32, row, 3).i64, 0);
  ck_assert(isnan(naive_reduce(KL_OP_REDUCE_MAX, KL_F32, row, 5).f32));
}
END_TEST

START_TEST(products_are_added_in_blocks_of_256) {
  kl_scalar *a = zeros(264), *b = zeros(264);
  a[0] = f32(1e8f), b[0] = f32(1);
  for (int k = 256; k < 264; k++) a[k] = b[k] = f32(1);
  /* One chain would lose every one; a block of its own makes 8 of them, which 1e8 can show. */
  ck_assert(naive_dot(KL_F32, a, b, 264).f32 == 100000008.0f);
  free(a), free(b);
}
END_TEST

START_TEST(products_are_added_with_one_rounding) {
  float x = 1 + 0x1p-12f;
  kl_scalar a[2] = {f32(-1), f32(x)}, b[2] = {f32(1), f32(x)};
  ck_assert(naive_dot(KL_F32, a, b, 2).f32 == 0x1p-11f + 0x1p-24f);
  ck_assert(naive_dot(KL_F32, a, b, 0).f32 == 0);
}
END_TEST

/* ------------------------------------------------------------------ graphs */

/* A graph from text, its leaves, and its values. */
typedef struct fixture {
  kl_graph graph;
  void *values[64];
} fixture;

static void parse(fixture *f, const char *text) {
  memset(f, 0, sizeof *f);
  ck_assert_msg(kl_graph_parse(text, strlen(text), &f->graph) == KL_OK, "%s", kl_error_message());
  ck_assert_msg(kl_graph_verify(&f->graph) == KL_OK, "%s", kl_error_message());
}

static const char *eval(fixture *f, const char *text, void *const *leaves, const kl_scalar *scalars,
                        const int64_t *offsets) {
  parse(f, text);
  return naive_eval(&f->graph, leaves, scalars, offsets, f->values);
}

static void finish(fixture *f) {
  for (uint32_t i = 0; i < f->graph.nodes.count; i++) free(f->values[i]);
  kl_graph_finish(&f->graph);
}

static void expect_f32(const void *value, int n, const float *expected) {
  for (int i = 0; i < n; i++)
    ck_assert_msg(((const float *)value)[i] == expected[i], "element %d is %g, not %g", i,
                  ((const float *)value)[i], expected[i]);
}

START_TEST(operands_are_read_through_their_maps) {
  float a[6] = {1, 2, 3, 4, 5, 6};
  void *leaves[1] = {a};
  int64_t offsets[1] = {1};
  kl_scalar scalars[1] = {f32(10)};
  fixture f;
  const char *text =
      "graph scalars=1 offsets=1 {\n  leaf l0 f32 6\n  n0 = leaf.f32 l0\n"
      "  n1 = mul.f32 [3, 2] n0 (0; 1, 3), s0.f32 keep\n" /* transposed */
      "  n2 = add.f32 [2, 2] n1 (o0 + 0; 0, 2), n0 (o0 + 2; 1, 0) keep\n}\n";
  /* A run-time offset is into a leaf only: the first form is refused. */
  memset(&f, 0, sizeof f);
  ck_assert(kl_graph_parse(text, strlen(text), &f.graph) == KL_OK);
  ck_assert(kl_graph_verify(&f.graph) == KL_ERR_INTERNAL);
  finish(&f);
  ck_assert_ptr_null(eval(&f,
                          "graph scalars=1 offsets=1 {\n  leaf l0 f32 6\n  n0 = leaf.f32 l0\n"
                          "  n1 = mul.f32 [3, 2] n0 (0; 1, 3), s0.f32 keep\n"
                          "  n2 = add.f32 [2, 2] n1 (1; 0, 2), n0 (o0 + 2; 1, 0) keep\n}\n",
                          leaves, scalars, offsets));
  expect_f32(f.values[1], 6, (float[]){10, 40, 20, 50, 30, 60});
  expect_f32(f.values[2], 4, (float[]){44, 54, 45, 55});
  ck_assert_ptr_null(f.values[0]);
  finish(&f);
}
END_TEST

START_TEST(a_write_through_a_view_keeps_the_rest_and_readers_of_the_old_value) {
  float a[6] = {1, 2, 3, 4, 5, 6};
  void *leaves[1] = {a};
  kl_scalar scalars[1] = {f32(0)};
  fixture f;
  ck_assert_ptr_null(eval(&f,
                          "graph scalars=1 offsets=0 {\n  leaf l0 f32 6\n  n0 = leaf.f32 l0\n"
                          "  n1 = write_view.f32 [2] n0, s0.f32 into (1; 3) keep home=l0\n"
                          "  n2 = add.f32 [6] n0 (0; 1), n1 (0; 1) keep\n}\n",
                          leaves, scalars, NULL));
  expect_f32(a, 6, (float[]){1, 0, 3, 4, 0, 6});
  expect_f32(f.values[2], 6, (float[]){2, 2, 6, 8, 5, 12});
  finish(&f);
}
END_TEST

START_TEST(scatters_ascend_and_gathers_check_their_index) {
  float old[3] = {1e8f, 0, 0}, data[4] = {1, 5, -1e8f, 7};
  int64_t index[4] = {0, 1, 0, 1};
  void *leaves[3] = {old, data, index};
  fixture f;
  const char *text =
      "graph scalars=0 offsets=0 {\n  leaf l0 f32 3\n  leaf l1 f32 4\n  leaf l2 i64 4\n"
      "  n0 = leaf.f32 l0\n  n1 = leaf.f32 l1\n  n2 = leaf.i64 l2\n"
      "  n3 = scatter_add.f32 [ | 4] n0, n1 (0; 1), n2 (0; 1) into (0; 0) index=1 of 3 keep\n"
      "  n4 = scatter.f32 [ | 4] n0, n1 (0; 1), n2 (0; 1) into (0; 0) index=1 of 3 keep\n"
      "  n5 = gather.f32 [4] n1 (0; 0), n2 (0; 1) index=3 of 2 keep\n}\n";
  ck_assert_ptr_null(eval(&f, text, leaves, NULL, NULL));
  expect_f32(f.values[3], 3, (float[]){0, 12, 0}); /* (1e8 + 1) - 1e8 */
  expect_f32(f.values[4], 3, (float[]){-1e8f, 7, 0});
  expect_f32(f.values[5], 4, (float[]){1, 7, 1, 7});
  finish(&f);
  index[3] = 2;
  ck_assert_str_eq(eval(&f, text, leaves, NULL, NULL), "an index out of range");
  finish(&f);
}
END_TEST

START_TEST(matrix_products_and_rowwise_folds_follow_their_dims) {
  float a[6] = {1, 2, 3, 4, 5, 6};
  void *leaves[1] = {a};
  fixture f;
  ck_assert_ptr_null(eval(&f,
                          "graph scalars=0 offsets=0 {\n  leaf l0 f32 6\n  n0 = leaf.f32 l0\n"
                          "  n1 = matmul.f32 [2, 2 | 3] n0 (0; 3, 0, 1), n0 (0; 0, 3, 1) keep\n"
                          "  n2 = reduce_max.f32 [2 | 3] n0 (0; 3, 1) keep\n"
                          "  n3 = reduce_argmin.i64 [3 | 2] n0 (0; 1, 3) keep\n}\n",
                          leaves, NULL, NULL));
  expect_f32(f.values[1], 4, (float[]){14, 32, 32, 77});
  expect_f32(f.values[2], 2, (float[]){3, 6});
  ck_assert_int_eq(((int64_t *)f.values[3])[2], 0);
  finish(&f);
}
END_TEST

static Suite *naive_suite(void) {
  Suite *suite = suite_create("naive");
  TCase *orders = tcase_create("orders"), *graphs = tcase_create("graphs");
  tcase_add_test(orders, a_row_is_summed_in_32_lanes);
  tcase_add_test(orders, lanes_are_joined_by_halves);
  tcase_add_test(orders, chunks_are_joined_by_a_tree_split_at_the_largest_power_of_two);
  tcase_add_test(orders, four_chunks_are_two_pairs);
  tcase_add_test(orders, sums_start_at_positive_zero);
  tcase_add_test(orders, argmax_is_the_first_nan_else_the_first_of_the_ties);
  tcase_add_test(orders, products_are_added_in_blocks_of_256);
  tcase_add_test(orders, products_are_added_with_one_rounding);
  tcase_add_test(graphs, operands_are_read_through_their_maps);
  tcase_add_test(graphs, a_write_through_a_view_keeps_the_rest_and_readers_of_the_old_value);
  tcase_add_test(graphs, scatters_ascend_and_gathers_check_their_index);
  tcase_add_test(graphs, matrix_products_and_rowwise_folds_follow_their_dims);
  suite_add_tcase(suite, orders);
  suite_add_tcase(suite, graphs);
  return suite;
}

int main(void) { return kl_test_run(naive_suite()); }
