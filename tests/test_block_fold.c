/* Reductions of the block executor, and row-wise chains of them, against plain loops in the defined
 * order, bit for bit: every layout, vector axis, phase and partition of the units. */
#include "tests/support/block_launch.h"

/* --- Reductions ------------------------------------------------------------------------------ */

/* i0: rows, cols; i2..4: x; i5..7: out. The vector axis and the phases are filled in. */
static const char reduce_text[] =
    "kernel ints=8 scalars=0 {\n"
    "  buf b0 f32 read noalias\n"
    "  buf b1 %s write noalias\n"
    "  section rows=1 dims=2 extents=i0 vector=%s {\n"
    "    cols {\n"
    "      v0 = load.f32 b0 [i2; any, any]\n"
    "      v1 = %s v0\n"
    "    }\n"
    "    row {\n"
    "      v2 = %s\n"
    "      store.%s b1 [i5; any, zero], v2\n"
    "    }\n"
    "%s"
    "  }\n"
    "}\n";
static const char chunks_apart[] = "    phase cols 0..1\n    phase combine 1..2\n";

static const int64_t shapes[][2] = {{1, 1},    {1, 10},   {7, 10},   {300, 3},  {5, 0},
                                    {3, 31},   {2, 1000}, {2, 1024}, {3, 1025}, {2, 3000},
                                    {1, 7168}, {300, 40}, {600, 70}, {3, 2048},
                                    {130, 2100}, {200, 32}, {2, 40000}};

static void check_sum(int64_t rows, int64_t cols, bool transposed, const char *vector,
                      const char *phases) {
  char text[1000];
  snprintf(text, sizeof text, reduce_text, "f32", vector, "reduce_sum.f32", "neg.f32 v1", "f32",
           phases);
  int64_t row_stride = transposed ? 1 : cols, col_stride = transposed ? rows : 1;
  float *x = random_f32(rows * cols, 6), *out = new_f32(rows), *want = new_f32(rows);
  launch l = {.text = text,
              .bufs = {x, out},
              .ints = {rows, cols, 0, row_stride, col_stride, 0, 1, 0}};
  for (int64_t r = 0; r < rows; r++) want[r] = -sum_ordered(x + r * row_stride, cols, col_stride);
  check_f32(&l, out, want, rows);
  free(x), free(out), free(want);
}

START_TEST(sums_follow_the_defined_order_in_every_layout_axis_and_phase) {
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    for (int transposed = 0; transposed < 2; transposed++) {
      check_sum(shapes[s][0], shapes[s][1], transposed, "cols", "    phase rows\n");
      check_sum(shapes[s][0], shapes[s][1], transposed, "rows", "    phase rows\n");
      check_sum(shapes[s][0], shapes[s][1], transposed, "cols", chunks_apart);
    }
  }
}
END_TEST

/* Two operands, one of them a column of rows or a row of columns, in a loop that only folds. */
static void check_broadcast(int64_t rows, int64_t cols, bool by_rows, const char *vector,
                            const char *phases) {
  static const char text[] =
      "kernel ints=20 scalars=0 {\n"
      "  buf b0 f32 read noalias\n"
      "  buf b1 f32 read noalias\n"
      "  buf b2 f32 write noalias\n"
      "  section rows=1 dims=2 extents=i0 vector=%s {\n"
      "    cols {\n"
      "      v0 = load.f32 b0 [i2; any, any]\n"
      "      v1 = load.f32 b1 [i5; any, any]\n"
      "      v2 = reduce_sum.f32 v1\n"
      "      v3 = reduce_sum.f32 v0\n"
      "    }\n"
      "    row {\n"
      "      v4 = sub.f32 v3, v2\n"
      "      store.f32 b2 [i8; any, zero], v4\n"
      "    }\n"
      "%s"
      "  }\n"
      "}\n";
  char filled[1500];
  snprintf(filled, sizeof filled, text, vector, phases);
  float *x = random_f32(rows * cols, 20), *y = random_f32(by_rows ? rows : cols, 21);
  float *out = new_f32(rows), *want = new_f32(rows);
  launch l = {.text = filled,
              .bufs = {x, y, out},
              .ints = {rows, cols, 0, cols, 1, 0, by_rows, !by_rows, 0, 1, 0}};
  for (int64_t r = 0; r < rows; r++)
    want[r] = sum_ordered(x + r * cols, cols, 1) -
              sum_ordered(by_rows ? y + r : y, cols, !by_rows);
  check_f32(&l, out, want, rows);
  free(x), free(y), free(out), free(want);
}

START_TEST(broadcast_operands_are_folded_like_others) {
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    for (int by_rows = 0; by_rows < 2; by_rows++) {
      check_broadcast(shapes[s][0], shapes[s][1], by_rows, "cols", "    phase rows\n");
      check_broadcast(shapes[s][0], shapes[s][1], by_rows, "rows", "    phase rows\n");
      check_broadcast(shapes[s][0], shapes[s][1], by_rows, "cols", chunks_apart);
    }
  }
}
END_TEST

static int64_t naive_argmax(const float *x, int64_t n, int64_t stride) {
  int64_t best = 0;
  for (int64_t k = 1; k < n; k++) {
    float v = x[k * stride], b = x[best * stride];
    if (isnan(b)) break;
    if (v > b || isnan(v)) best = k;
  }
  return best;
}

static void check_argmax(int64_t rows, int64_t cols, const char *vector, const char *phases) {
  char text[1000];
  snprintf(text, sizeof text, reduce_text, "i64", vector, "reduce_argmax.i64", "add.i64 v1, v1",
           "i64", phases);
  float *x = random_f32(rows * cols, 7);
  int64_t *out = calloc((size_t)rows + 1, 8), *want = calloc((size_t)rows + 1, 8);
  for (int64_t i = 0; i < rows * cols; i++) {
    x[i] = rintf(x[i] / 16); /* many ties */
    if (i % 1777 == 1776 || (i > cols && i < cols + 5)) x[i] = NAN;
  }
  launch l = {.text = text, .bufs = {x, out}, .ints = {rows, cols, 0, cols, 1, 0, 1, 0}};
  for (int64_t r = 0; r < rows; r++)
    want[r] = cols == 0 ? 0 : 2 * naive_argmax(x + r * cols, cols, 1);
  check_i64(&l, out, want, rows);
  free(x), free(out), free(want);
}

START_TEST(argmax_is_the_first_of_ties_and_nan_wins) {
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    check_argmax(shapes[s][0], shapes[s][1], "cols", "    phase rows\n");
    check_argmax(shapes[s][0], shapes[s][1], "rows", "    phase rows\n");
    check_argmax(shapes[s][0], shapes[s][1], "cols", chunks_apart);
  }
}
END_TEST

static void check_extreme(int64_t rows, int64_t cols, bool largest, const char *vector,
                          const char *phases) {
  char text[1000];
  snprintf(text, sizeof text, reduce_text, "f32", vector,
           largest ? "reduce_max.f32" : "reduce_min.f32", "neg.f32 v1", "f32", phases);
  float *x = random_f32(rows * cols, 8), *out = new_f32(rows), *want = new_f32(rows);
  for (int64_t i = 0; i < rows * cols; i++) {
    if (i % 5 == 0) x[i] = 0;
    if (i / (cols + 1) % 2) x[i] = largest ? -fabsf(x[i]) : fabsf(x[i]);
    if (i % 3777 == 3776) x[i] = NAN;
  }
  launch l = {.text = text, .bufs = {x, out}, .ints = {rows, cols, 0, cols, 1, 0, 1, 0}};
  for (int64_t r = 0; r < rows; r++) {
    float best = largest ? -INFINITY : INFINITY;
    for (int64_t k = 0; k < cols; k++) {
      float v = x[r * cols + k];
      if (isnan(v) || isnan(best)) best = NAN;
      else if (v == best) best = largest == (signbit(v) != 0) ? best : v;
      else if (largest ? v > best : v < best) best = v;
    }
    want[r] = -best;
  }
  check_f32(&l, out, want, rows);
  free(x), free(out), free(want);
}

START_TEST(max_and_min_let_nan_win_and_order_the_zeros) {
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    for (int largest = 0; largest < 2; largest++) {
      check_extreme(shapes[s][0], shapes[s][1], largest, "cols", "    phase rows\n");
      check_extreme(shapes[s][0], shapes[s][1], largest, "rows", "    phase rows\n");
      check_extreme(shapes[s][0], shapes[s][1], largest, "cols", chunks_apart);
    }
  }
}
END_TEST

START_TEST(integer_folds_wrap_and_bools_have_any_and_all) {
  static const char text[] =
      "kernel ints=20 scalars=0 {\n"
      "  buf b0 i64 read noalias\n"
      "  buf b1 i64 write noalias\n"
      "  section rows=1 dims=2 extents=i0 vector=%s {\n"
      "    cols {\n"
      "      v0 = load.i64 b0 [i2; any, one]\n"
      "      v1 = reduce_prod.i64 v0\n"
      "      v2 = cast.u8 v0\n"
      "      v3 = reduce_sum.u8 v2\n"
      "      v5 = ge.bool v0, v0\n"
      "      v6 = reduce_all.bool v5\n"
      "      v7 = ne.bool v0, v0\n"
      "      v8 = reduce_any.bool v7\n"
      "    }\n"
      "    row {\n"
      "      v9 = cast.i64 v3\n"
      "      v10 = add.i64 v1, v9\n"
      "      v11 = cast.i64 v6\n"
      "      v12 = add.i64 v10, v11\n"
      "      v13 = cast.i64 v8\n"
      "      v14 = sub.i64 v12, v13\n"
      "      store.i64 b1 [i5; one, zero], v14\n"
      "    }\n"
      "    phase rows\n"
      "  }\n"
      "}\n";
  enum { R = 70, C = 1500 };
  static int64_t x[R * C], out[R], want[R];
  for (int r = 0; r < R; r++) {
    uint64_t product_ = 1;
    uint8_t sum = 0;
    for (int c = 0; c < C; c++) {
      int64_t v = x[r * C + c] = (r * 31 + c * 17) % 1000 * 2 + 1;
      product_ *= (uint64_t)v;
      sum = (uint8_t)(sum + (uint8_t)v);
    }
    want[r] = (int64_t)(product_ + sum + 1);
  }
  for (int axis = 0; axis < 2; axis++) {
    char filled[1500];
    snprintf(filled, sizeof filled, text, axis ? "rows" : "cols");
    launch l = {.text = filled, .bufs = {x, out}, .ints = {R, C, 0, C, 1, 0, 1, 0}};
    check_i64(&l, out, want, R);
  }
}
END_TEST

/* --- Row-wise chains ------------------------------------------------------------------------- */

/* exp(x) stands in twice in the form without scratch. */
static const char softmax_text[] =
    "kernel ints=8 scalars=0 {\n"
    "  buf b0 f32 read noalias\n"
    "  buf b1 f32 write noalias\n"
    "  buf b2 f32 scratch\n"
    "  section rows=1 dims=2 extents=i0 vector=cols {\n"
    "    cols {\n"
    "      v0 = load.f32 b0 [i2; any, one]\n"
    "      v1 = reduce_max.f32 v0\n"
    "    }\n"
    "    cols {\n"
    "      v2 = load.f32 b0 [i2; any, one]\n"
    "      v3 = sub.f32 v2, v1\n"
    "      v4 = mul.f32 v3, v3\n"
    "      store.f32 b2 [i5; zero, one], v4\n"
    "      v5 = reduce_sum.f32 v4\n"
    "    }\n"
    "    row {\n"
    "      v6 = reciprocal.f32 v5\n"
    "    }\n"
    "    cols {\n"
    "      v7 = load.f32 b2 [i5; zero, one]\n"
    "      v8 = mul.f32 v7, v6\n"
    "      store.f32 b1 [i2; any, one], v8\n"
    "    }\n"
    "    phase rows\n"
    "  }\n"
    "}\n";
static const char softmax_again_text[] =
    "kernel ints=8 scalars=0 {\n"
    "  buf b0 f32 read noalias\n"
    "  buf b1 f32 write noalias\n"
    "  section rows=1 dims=2 extents=i0 vector=%s {\n"
    "    cols {\n"
    "      v0 = load.f32 b0 [i2; any, one]\n"
    "      v1 = reduce_max.f32 v0\n"
    "    }\n"
    "    cols {\n"
    "      v2 = load.f32 b0 [i2; any, one]\n"
    "      v3 = sub.f32 v2, v1\n"
    "      v4 = mul.f32 v3, v3\n"
    "      v5 = reduce_sum.f32 v4\n"
    "    }\n"
    "    row {\n"
    "      v6 = reciprocal.f32 v5\n"
    "    }\n"
    "    cols {\n"
    "      v7 = load.f32 b0 [i2; any, one]\n"
    "      v8 = sub.f32 v7, v1\n"
    "      v9 = mul.f32 v8, v8\n"
    "      v10 = mul.f32 v9, v6\n"
    "      store.f32 b1 [i2; any, one], v10\n"
    "    }\n"
    "%s"
    "  }\n"
    "}\n";

/* A softmax with a square for exp, which the test can compute without codegen/math. */
static void naive_softmax(const float *x, int64_t cols, float *out) {
  float largest = -INFINITY;
  for (int64_t k = 0; k < cols; k++) largest = x[k] > largest ? x[k] : largest;
  for (int64_t k = 0; k < cols; k++) out[k] = (x[k] - largest) * (x[k] - largest);
  float scale = 1 / sum_ordered(out, cols, 1);
  for (int64_t k = 0; k < cols; k++) out[k] *= scale;
}

START_TEST(row_chains_agree_with_and_without_scratch_and_in_phases) {
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    int64_t rows = shapes[s][0], cols = shapes[s][1];
    float *x = random_f32(rows * cols, 9), *out = new_f32(rows * cols), *want = new_f32(rows * cols);
    for (int64_t r = 0; r < rows; r++) naive_softmax(x + r * cols, cols, want + r * cols);
    char text[2000];
    launch l = {.text = softmax_text, .bufs = {x, out}, .ints = {rows, cols, 0, cols, 1, 0, 0, 1}};
    check_f32(&l, out, want, rows * cols);
    l.text = text;
    snprintf(text, sizeof text, softmax_again_text, "cols", "    phase rows\n");
    check_f32(&l, out, want, rows * cols);
    snprintf(text, sizeof text, softmax_again_text, "rows", "    phase rows\n");
    check_f32(&l, out, want, rows * cols);
    snprintf(text, sizeof text, softmax_again_text, "cols",
             "    phase cols 0..1\n    phase combine 1..1\n    phase cols 1..2\n"
             "    phase combine 2..3\n    phase cols 3..4\n");
    check_f32(&l, out, want, rows * cols);
    free(x), free(out), free(want);
  }
}
END_TEST

/* The last loop has more values at once than blocks that the loops before left: none of them may
 * take the row value's, which the next tile reads again. */
START_TEST(row_values_live_through_all_tiles_of_a_loop) {
  static const char text[] =
      "kernel ints=8 scalars=0 {\n"
      "  buf b0 f32 read noalias\n"
      "  buf b1 f32 write noalias\n"
      "  section rows=1 dims=2 extents=i0 vector=cols {\n"
      "    cols {\n"
      "      v0 = load.f32 b0 [i2; any, one]\n"
      "      v1 = reduce_sum.f32 v0\n"
      "    }\n"
      "    row {\n"
      "      v2 = neg.f32 v1\n"
      "    }\n"
      "    cols {\n"
      "      v3 = load.f32 b0 [i2; any, one]\n"
      "      v4 = sub.f32 v3, v2\n"
      "      v5 = mul.f32 v4, v3\n"
      "      v6 = add.f32 v5, v4\n"
      "      v7 = sub.f32 v6, v5\n"
      "      v8 = mul.f32 v7, v6\n"
      "      v9 = add.f32 v8, v7\n"
      "      v10 = add.f32 v9, v8\n"
      "      v11 = add.f32 v4, v5\n"
      "      v12 = add.f32 v6, v7\n"
      "      v13 = add.f32 v8, v9\n"
      "      v14 = add.f32 v10, v11\n"
      "      v15 = add.f32 v12, v13\n"
      "      v16 = add.f32 v14, v15\n"
      "      store.f32 b1 [i2; any, one], v16\n"
      "    }\n"
      "    phase rows\n"
      "  }\n"
      "}\n";
  enum { R = 3, C = 3000 };
  float *x = random_f32(R * C, 16), *out = new_f32(R * C), *want = new_f32(R * C);
  for (int i = 0; i < R * C; i++) {
    float v2 = -sum_ordered(x + i / C * C, C, 1), v3 = x[i], v4 = v3 - v2, v5 = v4 * v3;
    float v6 = v5 + v4, v7 = v6 - v5, v8 = v7 * v6, v9 = v8 + v7, v10 = v9 + v8;
    want[i] = ((v10 + (v4 + v5)) + ((v6 + v7) + (v8 + v9)));
  }
  launch l = {.text = text, .bufs = {x, out}, .ints = {R, C, 0, C, 1}};
  check_f32(&l, out, want, R * C);
  free(x), free(out), free(want);
}
END_TEST

/* Rows of two dims that do not merge: only the first of several long tiles lies in one piece. */
START_TEST(long_rows_with_gaps_are_not_taken_for_dense) {
  static const char text[] =
      "kernel ints=20 scalars=0 {\n"
      "  buf b0 f32 read noalias\n"
      "  buf b1 f32 write noalias\n"
      "  section rows=1 dims=3 extents=i0 vector=cols {\n"
      "    cols {\n"
      "      v0 = load.f32 b0 [i3; any, any, one]\n"
      "      v1 = reduce_sum.f32 v0\n"
      "    }\n"
      "    cols {\n"
      "      v2 = load.f32 b0 [i3; any, any, one]\n"
      "      v3 = sub.f32 v2, v1\n"
      "      v4 = mul.f32 v3, v2\n"
      "      store.f32 b1 [i7; any, any, one], v4\n"
      "    }\n"
      "%s"
      "  }\n"
      "}\n";
  enum { R = 2, A = 2, B = 50000 };
  for (int gap = 0; gap < 4; gap++) { /* of the source, of the destination */
    int64_t from = B + (gap & 1), to = B + gap / 2;
    float *x = random_f32(R * A * from, 22), *row = new_f32(A * B);
    float *out = new_f32(R * A * to), *want = new_f32(R * A * to);
    memset(want, 0x55, (size_t)(R * A * to) * 4);
    for (int r = 0; r < R; r++) {
      for (int i = 0; i < A * B; i++) row[i] = x[(r * A + i / B) * from + i % B];
      float sum = sum_ordered(row, A * B, 1);
      for (int i = 0; i < A * B; i++) {
        volatile float difference = row[i] - sum;
        want[(r * A + i / B) * to + i % B] = difference * row[i];
      }
    }
    static const char *const phases[] = {
        "    phase rows\n",
        "    phase cols 0..1\n    phase combine 1..1\n    phase cols 1..2\n"};
    for (int p = 0; p < 2; p++) {
      char filled[1500];
      snprintf(filled, sizeof filled, text, phases[p]);
      launch l = {.text = filled,
                  .bufs = {x, out},
                  .ints = {R, A, B, 0, A * from, from, 1, 0, A * to, to, 1}};
      check_f32(&l, out, want, R * A * to);
    }
    free(x), free(row), free(out), free(want);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("block_fold");
  TCase *tc = tcase_create("block_fold");
  tcase_add_test(tc, sums_follow_the_defined_order_in_every_layout_axis_and_phase);
  tcase_add_test(tc, broadcast_operands_are_folded_like_others);
  tcase_add_test(tc, argmax_is_the_first_of_ties_and_nan_wins);
  tcase_add_test(tc, max_and_min_let_nan_win_and_order_the_zeros);
  tcase_add_test(tc, integer_folds_wrap_and_bools_have_any_and_all);
  tcase_add_test(tc, row_chains_agree_with_and_without_scratch_and_in_phases);
  tcase_add_test(tc, row_values_live_through_all_tiles_of_a_loop);
  tcase_add_test(tc, long_rows_with_gaps_are_not_taken_for_dense);
  suite_add_tcase(suite, tc);
  return kl_test_run(suite);
}
