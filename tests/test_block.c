/* The block executor (codegen/block) against plain loops, bit for bit: elementwise sections, dynamic
 * indices, repeats, and what preparing does. */
#include "tests/support/block_launch.h"

/* --- Elementwise ----------------------------------------------------------------------------- */

/* i0: extent; i1.. a, i3.. b, i5.. out */
static const char add_text[] =
    "kernel ints=7 scalars=2 {\n"
    "  buf b0 f32 read noalias\n"
    "  buf b1 f32 read noalias\n"
    "  buf b2 f32 write noalias\n"
    "  section rows=0 dims=1 extents=i0 vector=cols {\n"
    "    cols {\n"
    "      v0 = load.f32 b0 [i1; any]\n"
    "      v1 = load.f32 b1 [i3; any]\n"
    "      v2 = scalar.f32 s0\n"
    "      v3 = mul.f32 v0, v2\n"
    "      v4 = add.f32 v3, v1\n"
    "      v5 = scalar.f32 s1\n"
    "      v6 = sub.f32 v5, v4\n"
    "      store.f32 b2 [i5; any], v6\n"
    "    }\n"
    "    phase cols\n"
    "  }\n"
    "}\n";

static void check_add(int64_t n, int64_t a_stride, int64_t b_stride, int64_t out_stride) {
  float *a = random_f32(n * 3, 1), *b = random_f32(n * 3, 2);
  float *out = new_f32(n * 3), *want = new_f32(n * 3);
  int64_t a_at = a_stride < 0 ? (n - 1) * -a_stride : 0;
  launch l = {.text = add_text,
              .bufs = {a, b, out},
              .ints = {n, a_at, a_stride, 0, b_stride, 0, out_stride},
              .scalars = {{.f32 = 0.3f}, {.f32 = 7}}};
  memset(want, 0x55, (size_t)n * 12);
  for (int64_t i = 0; i < n; i++) {
    volatile float product_ = a[a_at + i * a_stride] * 0.3f;
    want[i * out_stride] = 7 - (product_ + b[i * b_stride]);
  }
  check_f32(&l, out, want, n * out_stride);
  free(a), free(b), free(out), free(want);
}

START_TEST(elementwise_chains_take_any_size_and_stride) {
  static const int64_t sizes[] = {0, 1, 2, 10, 31, 1023, 1024, 1025, 5000};
  for (int s = 0; s < 9; s++) {
    check_add(sizes[s], 1, 1, 1);
    check_add(sizes[s], 0, 1, 1);
    check_add(sizes[s], 1, 0, 1);
    check_add(sizes[s], 0, 0, 1);
    check_add(sizes[s], 2, 3, 1);
    check_add(sizes[s], -1, 1, 2);
    check_add(sizes[s], 0, 0, 3);
  }
}
END_TEST

/* Steps take turns over strips of a block: by the second strip, the block of the one value that all
 * elements share has become the block of a result. */
START_TEST(a_computed_uniform_operand_serves_every_strip) {
  static const char text[] =
      "kernel ints=7 scalars=0 {\n"
      "  buf b0 f32 read noalias\n"
      "  buf b1 f32 read noalias\n"
      "  buf b2 f32 write noalias\n"
      "  section rows=0 dims=1 extents=i0 vector=cols {\n"
      "    cols {\n"
      "      v0 = load.f32 b0 [i1; zero]\n"
      "      v1 = neg.f32 v0\n"
      "      v2 = load.f32 b1 [i3; any]\n"
      "      v3 = add.f32 v1, v2\n"
      "      v4 = mul.f32 v3, v3\n"
      "      v5 = add.f32 v4, v2\n"
      "      store.f32 b2 [i5; any], v5\n"
      "    }\n"
      "    phase cols\n"
      "  }\n"
      "}\n";
  enum { N = 1500 };
  float one = 3, *x = random_f32(N * 2, 5), *out = new_f32(N * 2), *want = new_f32(N * 2);
  launch l = {.text = text, .bufs = {&one, x, out}, .ints = {N, 0, 0, 0, 2, 0, 2}};
  memset(want, 0x55, (size_t)N * 8);
  for (int64_t i = 0; i < N; i++) {
    volatile float sum_ = -one + x[2 * i];
    volatile float square_ = sum_ * sum_;
    want[2 * i] = square_ + x[2 * i];
  }
  check_f32(&l, out, want, N * 2);
  free(x), free(out), free(want);
}
END_TEST

/* A transposed operand, a broadcast row and column, three dims. */
START_TEST(accesses_of_several_dims_are_walked_in_row_major_order) {
  static const char text[] =
      "kernel ints=20 scalars=0 {\n"
      "  buf b0 f32 read noalias\n"
      "  buf b1 f32 read noalias\n"
      "  buf b2 f32 write noalias\n"
      "  section rows=0 dims=3 extents=i0 vector=cols {\n"
      "    cols {\n"
      "      v0 = load.f32 b0 [i3; any, one, any]\n"
      "      v1 = load.f32 b1 [i7; any, zero, one]\n"
      "      v2 = add.f32 v0, v1\n"
      "      v3 = index.i64 d1\n"
      "      v4 = cast.f32 v3\n"
      "      v5 = sub.f32 v2, v4\n"
      "      store.f32 b2 [i11; any, any, one], v5\n"
      "    }\n"
      "    phase cols\n"
      "  }\n"
      "}\n";
  enum { A = 3, B = 40, C = 37, N = A * B * C };
  float *x = random_f32(N, 3), *y = random_f32(A * C, 4), *out = new_f32(N), *want = new_f32(N);
  launch l = {.text = text,
              .bufs = {x, y, out},
              .ints = {A, B, C, 0, B * C, 1, B, 0, C, 0, 1, 0, B * C, C, 1}};
  for (int a = 0; a < A; a++)
    for (int b = 0; b < B; b++)
      for (int c = 0; c < C; c++)
        want[(a * B + b) * C + c] = x[(a * C + c) * B + b] + y[a * C + c] - (float)b;
  check_f32(&l, out, want, N);
  free(x), free(y), free(out), free(want);
}
END_TEST

/* The load stays what it was, though the store comes before its last use. */
START_TEST(in_place_results_do_not_disturb_later_uses) {
  static const char text[] =
      "kernel ints=7 scalars=0 {\n"
      "  buf b0 f32 read write noalias\n"
      "  buf b1 f32 write noalias\n"
      "  section rows=0 dims=1 extents=i0 vector=cols {\n"
      "    cols {\n"
      "      v0 = load.f32 b0 [i1; one]\n"
      "      v1 = mul.f32 v0, v0\n"
      "      store.f32 b0 [i1; one], v1\n"
      "      v3 = add.f32 v0, v1\n"
      "      store.f32 b1 [i3; one], v3\n"
      "    }\n"
      "    phase cols\n"
      "  }\n"
      "}\n";
  enum { N = 3000 };
  float *x = random_f32(N, 5), *first = malloc(N * 4), *out = new_f32(N);
  memcpy(first, x, N * 4);
  launch l = {.text = text, .bufs = {x, out}, .ints = {N, 0, 1, 0, 1}};
  run_launch(&l);
  for (int i = 0; i < N; i++) {
    float square = first[i] * first[i], sum = first[i] + square;
    assert_f32_eq(&x[i], &square, 1);
    assert_f32_eq(&out[i], &sum, 1);
  }
  free(x), free(first), free(out);
}
END_TEST

START_TEST(selections_comparisons_and_casts_mix_dtypes) {
  static const char text[] =
      "kernel ints=7 scalars=1 {\n"
      "  buf b0 i32 read noalias\n"
      "  buf b1 i64 write noalias\n"
      "  section rows=0 dims=1 extents=i0 vector=cols {\n"
      "    cols {\n"
      "      v0 = load.i32 b0 [i1; one]\n"
      "      v1 = scalar.i32 s0\n"
      "      v2 = lt.bool v0, v1\n"
      "      v3 = cast.i64 v0\n"
      "      v4 = mul.i64 v3, v3\n"
      "      v5 = index.i64 d0\n"
      "      v6 = select.i64 v2, v4, v5\n"
      "      store.i64 b1 [i3; one], v6\n"
      "    }\n"
      "    phase cols\n"
      "  }\n"
      "}\n";
  enum { N = 2500 };
  static int32_t x[N];
  static int64_t out[N], want[N];
  for (int i = 0; i < N; i++) {
    x[i] = (i * 7919) % 1000 - 500;
    want[i] = x[i] < 17 ? (int64_t)x[i] * x[i] : i;
  }
  launch l = {.text = text, .bufs = {x, out}, .ints = {N, 0, 1, 0, 1}, .scalars = {{.i32 = 17}}};
  check_i64(&l, out, want, N);
}
END_TEST

/* --- Dynamic indices ------------------------------------------------------------------------- */

/* out[r, c] = table[index[r], c] - table[(index[r] + c) mod 50, 0]: an index a row, and one an
 * element. */
static const int64_t shapes[][2] = {{1, 1}, {7, 10}, {5, 0}, {2, 1024}, {3, 1025}, {300, 3}, {300, 40}};

START_TEST(gathers_take_an_index_a_row_or_an_element) {
  static const char text[] =
      "kernel ints=20 scalars=1 {\n"
      "  buf b0 f32 read noalias\n"
      "  buf b1 i64 read noalias\n"
      "  buf b2 f32 write noalias\n"
      "  section rows=1 dims=2 extents=i0 vector=%s {\n"
      "    row {\n"
      "      v0 = load.i64 b1 [i2; one, zero]\n"
      "    }\n"
      "    cols {\n"
      "      v1 = load.f32 b0 [i5; zero, one] at v0\n"
      "      v2 = index.i64 d1\n"
      "      v3 = add.i64 v2, v0\n"
      "      v4 = scalar.i64 s0\n"
      "      v5 = remainder.i64 v3, v4\n"
      "      v6 = load.f32 b0 [i9; zero, zero] at v5\n"
      "      v7 = sub.f32 v1, v6\n"
      "      store.f32 b2 [i13; any, one], v7\n"
      "    }\n"
      "    phase rows\n"
      "  }\n"
      "}\n";
  enum { TABLE = 50 };
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    int64_t rows = shapes[s][0], cols = shapes[s][1];
    float *table = random_f32(TABLE * cols, 10), *out = new_f32(rows * cols);
    float *want = new_f32(rows * cols);
    int64_t *index = calloc((size_t)rows + 1, 8);
    for (int64_t r = 0; r < rows; r++) {
      index[r] = r * 37 % TABLE;
      for (int64_t c = 0; c < cols; c++)
        want[r * cols + c] = table[index[r] * cols + c] - table[(c + index[r]) % TABLE * cols];
    }
    for (int axis = 0; axis < 2; axis++) {
      char filled[1500];
      snprintf(filled, sizeof filled, text, axis ? "rows" : "cols");
      launch l = {.text = filled,
                  .bufs = {table, index, out},
                  .ints = {rows, cols, 0, 1, 0, 0, 0, 1, cols, 0, 0, 0, cols, 0, cols, 1},
                  .scalars = {{.i64 = TABLE}}};
      check_f32(&l, out, want, rows * cols);
    }
    free(table), free(out), free(want), free(index);
  }
}
END_TEST

/* The columns of a SEQ loop add to one destination in ascending order, rows apart. */
static const char scatter_text[] =
    "kernel ints=20 scalars=0 {\n"
    "  buf b0 f32 read noalias\n"
    "  buf b1 i64 read noalias\n"
    "  buf b2 f32 read write noalias\n"
    "  section rows=1 dims=2 extents=i0 vector=%s {\n"
    "    seq {\n"
    "      v0 = load.f32 b0 [i2; any, any]\n"
    "      v1 = load.i64 b1 [i5; zero, one]\n"
    "%s"
    "    }\n"
    "    phase rows\n"
    "  }\n"
    "}\n";
static const char scatter_add_lines[] = "      store_add.f32 b2 [i8; any, zero] at v1, v0\n";
/* the same, spelled out: an iteration loads what an earlier one stored */
static const char scatter_load_lines[] =
    "      v2 = load.f32 b2 [i8; any, zero] at v1\n"
    "      v3 = add.f32 v2, v0\n"
    "      store.f32 b2 [i8; any, zero] at v1, v3\n";
static const char scatter_store_lines[] = "      store.f32 b2 [i8; any, zero] at v1, v0\n";

static void check_scatter(const char *lines, bool adds, const char *vector) {
  enum { R = 5, C = 3000, PLACES = 17 };
  char text[1500];
  snprintf(text, sizeof text, scatter_text, vector, lines);
  float *x = random_f32(R * C, 11), *out = new_f32(R * PLACES), *want = new_f32(R * PLACES);
  int64_t *index = calloc(C, 8);
  for (int c = 0; c < C; c++) index[c] = c * 7 % PLACES;
  for (int r = 0; r < R; r++) {
    for (int c = 0; c < C; c++) {
      float *place = &want[r * PLACES + index[c]];
      *place = adds ? *place + x[r * C + c] : x[r * C + c];
    }
  }
  launch l = {.text = text,
              .bufs = {x, index, out},
              .ints = {R, C, 0, C, 1, 0, 0, 1, 0, PLACES, 0, 1}};
  for (int64_t units = 0; units < 3; units++) {
    memset(out, 0, R * PLACES * 4);
    l.units = units;
    run_launch(&l);
    assert_f32_eq(out, want, R * PLACES);
  }
  free(x), free(out), free(want), free(index);
}

START_TEST(scatters_run_in_ascending_order_of_columns) {
  for (int axis = 0; axis < 2; axis++) {
    check_scatter(scatter_add_lines, true, axis ? "rows" : "cols");
    check_scatter(scatter_load_lines, true, axis ? "rows" : "cols");
    check_scatter(scatter_store_lines, false, axis ? "rows" : "cols");
  }
}
END_TEST

/* --- Repeats --------------------------------------------------------------------------------- */

/* a, b = b, a * s[i] + b, starting from x and a uniform 1: a swap of carries, a step of scalars. */
START_TEST(repeats_carry_values_and_step_through_scalars) {
  static const char text[] =
      "kernel ints=6 scalars=40 {\n"
      "  buf b0 f32 read noalias\n"
      "  buf b1 f32 write noalias\n"
      "  section rows=0 dims=1 extents=i0 vector=cols {\n"
      "    cols {\n"
      "      v0 = load.f32 b0 [i1; one]\n"
      "      v1 = scalar.f32 s0\n"
      "      repeat i5 carries 2 {\n"
      "        v3 = carry.f32 v0\n"
      "        v4 = carry.f32 v1\n"
      "        v5 = scalar.f32 s1 step 1\n"
      "        v6 = mul.f32 v3, v5\n"
      "        v7 = add.f32 v6, v4\n"
      "        next.f32 v3, v4\n"
      "        next.f32 v4, v7\n"
      "      }\n"
      "      v11 = sub.f32 v3, v4\n"
      "      v12 = mul.f32 v11, v0\n"
      "      store.f32 b1 [i3; one], v12\n"
      "    }\n"
      "    phase cols\n"
      "  }\n"
      "}\n";
  enum { N = 2100 };
  float *x = random_f32(N, 12), *out = new_f32(N), *want = new_f32(N);
  for (int count = 0; count < 30; count += count < 4 ? 1 : 25) {
    launch l = {.text = text, .bufs = {x, out}, .ints = {N, 0, 1, 0, 1, count}};
    l.scalars[0].f32 = 1;
    for (int i = 1; i < 40; i++) l.scalars[i].f32 = 0.1f * (float)i;
    for (int i = 0; i < N; i++) {
      float a = x[i], b = 1;
      for (int j = 0; j < count; j++) {
        volatile float scaled = a * l.scalars[1 + j].f32;
        float next = scaled + b;
        a = b;
        b = next;
      }
      want[i] = (a - b) * x[i];
    }
    check_f32(&l, out, want, N);
  }
  free(x), free(out), free(want);
}
END_TEST

/* a, b = a * 0.5 + b, a: the second NEXT takes a carry that the first has changed by then. */
START_TEST(nexts_take_their_values_before_any_carry_changes) {
  static const char text[] =
      "kernel ints=6 scalars=1 {\n"
      "  buf b0 f32 read noalias\n"
      "  buf b1 f32 write noalias\n"
      "  section rows=0 dims=1 extents=i0 vector=cols {\n"
      "    cols {\n"
      "      v0 = load.f32 b0 [i1; one]\n"
      "      v1 = scalar.f32 s0\n"
      "      repeat i5 carries 2 {\n"
      "        v3 = carry.f32 v0\n"
      "        v4 = carry.f32 v0\n"
      "        v5 = mul.f32 v3, v1\n"
      "        v6 = add.f32 v5, v4\n"
      "        next.f32 v3, v6\n"
      "        next.f32 v4, v3\n"
      "      }\n"
      "      v10 = sub.f32 v3, v4\n"
      "      store.f32 b1 [i3; one], v10\n"
      "    }\n"
      "    phase cols\n"
      "  }\n"
      "}\n";
  enum { N = 1300 };
  float *x = random_f32(N, 15), *out = new_f32(N), *want = new_f32(N);
  for (int i = 0; i < N; i++) {
    float a = x[i], b = x[i];
    for (int j = 0; j < 5; j++) {
      float next = a * 0.5f + b;
      b = a;
      a = next;
    }
    want[i] = a - b;
  }
  launch l = {
      .text = text, .bufs = {x, out}, .ints = {N, 0, 1, 0, 1, 5}, .scalars = {{.f32 = 0.5f}}};
  check_f32(&l, out, want, N);
  free(x), free(out), free(want);
}
END_TEST

/* x += s, again and again: the chain of an in-place loop. */
START_TEST(a_repeat_of_one_carry_computes_in_place) {
  static const char text[] =
      "kernel ints=6 scalars=1 {\n"
      "  buf b0 f32 read write noalias\n"
      "  section rows=1 dims=1 extents=i0 vector=cols {\n"
      "    row {\n"
      "      v0 = load.f32 b0 [i1; one]\n"
      "      repeat i3 carries 1 {\n"
      "        v2 = carry.f32 v0\n"
      "        v3 = scalar.f32 s0\n"
      "        v4 = add.f32 v2, v3\n"
      "        next.f32 v2, v4\n"
      "      }\n"
      "      store.f32 b0 [i1; one], v2\n"
      "    }\n"
      "    phase rows\n"
      "  }\n"
      "}\n";
  enum { N = 1500, COUNT = 3000 };
  float *x = random_f32(N, 13), *want = new_f32(N);
  for (int i = 0; i < N; i++) {
    want[i] = x[i];
    for (int j = 0; j < COUNT; j++) want[i] += 1.5f;
  }
  launch l = {
      .text = text, .bufs = {x}, .ints = {N, 0, 1, COUNT}, .scalars = {{.f32 = 1.5f}}};
  run_launch(&l);
  assert_f32_eq(x, want, N);
  free(x), free(want);
}
END_TEST

/* --- Size ------------------------------------------------------------------------------------ */

START_TEST(a_chain_of_512_instructions_reuses_its_blocks) {
  enum { OPS = 512, N = 1500 };
  char *text = malloc(OPS * 64 + 1000), *at = text;
  at += sprintf(at,
                "kernel ints=5 scalars=1 {\n  buf b0 f32 read noalias\n  buf b1 f32 write noalias\n"
                "  section rows=0 dims=1 extents=i0 vector=cols {\n    cols {\n"
                "      v0 = load.f32 b0 [i1; one]\n      v1 = scalar.f32 s0\n");
  for (int i = 0; i < OPS; i++)
    at += sprintf(at, "      v%d = %s.f32 v%d, v1\n", i + 2, i % 2 ? "sub" : "mul", i ? i + 1 : 0);
  sprintf(at, "      store.f32 b1 [i3; one], v%d\n    }\n    phase cols\n  }\n}\n", OPS + 1);
  float *x = random_f32(N, 14), *out = new_f32(N), *want = new_f32(N);
  for (int i = 0; i < N; i++) {
    volatile float v = x[i];
    for (int j = 0; j < OPS; j++) v = j % 2 ? v - 1.01f : v * 1.01f;
    want[i] = v;
  }
  launch l = {.text = text, .bufs = {x, out}, .ints = {N, 0, 1, 0, 1}, .scalars = {{.f32 = 1.01f}}};
  check_f32(&l, out, want, N);
  kl_kernel kernel = {0};
  kl_code *code = NULL;
  ck_assert_int_eq(kl_kernel_parse(text, strlen(text), &kernel), KL_OK);
  ck_assert_int_eq(kl_block_prepare(&kernel, 0, &code), KL_OK);
  ck_assert_uint_lt(code->scratch_nbytes, 32 * 1024);
  code->destroy(code);
  kl_kernel_finish(&kernel);
  free(text), free(x), free(out), free(want);
}
END_TEST

START_TEST(preparing_survives_every_failed_allocation) {
  kl_kernel kernel = {0};
  kl_code *code = NULL;
  ck_assert_int_eq(kl_kernel_parse(add_text, strlen(add_text), &kernel), KL_OK);
  int n_failed = 0;
  for (long nth = 1; code == NULL; nth++) {
    kl_memory_fail_nth(nth);
    kl_status status = kl_block_prepare(&kernel, 0, &code);
    kl_memory_fail_nth(0);
    if (status != KL_OK) {
      ck_assert_int_eq(status, KL_ERR_OUT_OF_MEMORY);
      ck_assert_ptr_null(code);
      n_failed++;
    }
  }
  ck_assert_int_gt(n_failed, 5);
  code->destroy(code);
  kl_kernel_finish(&kernel);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("block");
  TCase *tc = tcase_create("block");
  tcase_add_test(tc, elementwise_chains_take_any_size_and_stride);
  tcase_add_test(tc, a_computed_uniform_operand_serves_every_strip);
  tcase_add_test(tc, accesses_of_several_dims_are_walked_in_row_major_order);
  tcase_add_test(tc, in_place_results_do_not_disturb_later_uses);
  tcase_add_test(tc, selections_comparisons_and_casts_mix_dtypes);
  tcase_add_test(tc, gathers_take_an_index_a_row_or_an_element);
  tcase_add_test(tc, scatters_run_in_ascending_order_of_columns);
  tcase_add_test(tc, repeats_carry_values_and_step_through_scalars);
  tcase_add_test(tc, nexts_take_their_values_before_any_carry_changes);
  tcase_add_test(tc, a_repeat_of_one_carry_computes_in_place);
  tcase_add_test(tc, a_chain_of_512_instructions_reuses_its_blocks);
  tcase_add_test(tc, preparing_survives_every_failed_allocation);
  suite_add_tcase(suite, tc);
  return kl_test_run(suite);
}
