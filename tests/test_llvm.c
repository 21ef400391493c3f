/*
 * test_llvm.c: code that LLVM made gives the bits of tier 0, for every operation, shape and layout.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu_features.h"
#include "runtime/plugin.h"
#include "tests/support/kernel_case.h"
#include "tests/support/runner.h"

static const int64_t sizes[] = {0, 1, 3, 7, 8, 15, 16, 17, 31, 33, 100, 1023, 1024, 1025, 5000};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

static void show(const kernel_case *c) {
  char *text = case_text(c);
  fprintf(stderr, "%s", text);
  for (int d = 0; d < c->n_dims; d++)
    fprintf(stderr, "extent %d: %lld\n", d, (long long)c->extents[d]);
  free(text);
}

static void print_element(kl_dtype dtype, const char *bytes, int64_t index) {
  uint64_t bits = 0;
  size_t size = kl_dtype_size(dtype);
  memcpy(&bits, bytes + (size_t)index * size, size);
  kl_scalar value = {.bits = bits};
  double real = dtype == KL_F32 ? (double)value.f32 : value.f64;
  fprintf(stderr, " %#llx (%g)", (unsigned long long)bits, real);
}

/* What code is made for: this machine, or a lower level that it has too. */
static const char *target_cpu = "";

static kl_status prepare_tier_1(const kl_kernel *kernel, kl_code **out_code) {
  if (!*target_cpu) return kl_llvm_prepare(kernel, 0, out_code);
  kl_object object = {0};
  kl_compile_options options = {.cpu = target_cpu, .symbol = "kernel"};
  kl_status status = kl_plugin_compile(kernel, 0, &options, &object);
  if (status != KL_OK) return status;
  status = kl_code_from_object(&object, "kernel", out_code);
  kl_plugin_release(&object);
  return status;
}

static void report_difference(const kernel_case *c, const case_run *run, int64_t piece,
                              uint32_t buf, int64_t at, char *const *expected, char *const *found) {
  kl_dtype dtype = (kl_dtype)run->kernel.bufs.data[buf].dtype;
  show(c);
  fprintf(stderr, "code for '%s', pieces of %lld, buffer %u, element %lld: tier 0", target_cpu,
          (long long)piece, buf, (long long)at - 64);
  print_element(dtype, expected[buf], at);
  fprintf(stderr, ", tier 1");
  print_element(dtype, found[buf], at);
  fprintf(stderr, "\n");
  ck_abort_msg("the tiers differ");
}

/* Runs the case on both tiers, whole and in pieces, and compares all bytes of all buffers. */
static void check_case(const kernel_case *c) {
  static const int64_t pieces[] = {INT64_MAX / 2, 3};
  case_run run;
  kl_code *tier_0 = NULL, *tier_1 = NULL;
  char *expected[CASE_MAX_BUFS], *found[CASE_MAX_BUFS];
  if (case_open(c, &run) != KL_OK || kl_block_prepare(&run.kernel, 0, &tier_0) != KL_OK ||
      prepare_tier_1(&run.kernel, &tier_1) != KL_OK) {
    show(c);
    ck_abort_msg("%s", kl_error_message());
  }
  case_execute(c, &run, tier_0, 1, pieces[0], expected);
  for (int p = 0; p < 2; p++) {
    case_execute(c, &run, tier_1, 1, pieces[p], found);
    for (uint32_t b = 0; b < run.kernel.bufs.count; b++) {
      if (!found[b]) continue;
      int64_t at = case_first_difference((kl_dtype)run.kernel.bufs.data[b].dtype, expected[b],
                                         found[b], run.nbytes[b]);
      if (at >= 0) report_difference(c, &run, pieces[p], b, at, expected, found);
      free(found[b]);
    }
  }
  for (uint32_t b = 0; b < run.kernel.bufs.count; b++) free(expected[b]);
  tier_0->destroy(tier_0);
  tier_1->destroy(tier_1);
  case_close(&run);
}

static char *format(const char *pattern, ...) __attribute__((format(printf, 1, 2)));

static char *format(const char *pattern, ...) {
  static char text[8192];
  va_list args;
  va_start(args, pattern);
  vsnprintf(text, sizeof text, pattern, args);
  va_end(args);
  return text;
}

/* ------------------------------------------------------------------ elementwise */

START_TEST(chain_of_elementwise_operations_equals_tier_0) {
  static const char text[] =
      "buf b0 f32 read noalias\n buf b1 f32 read noalias\n buf b2 f32 write noalias\n"
      "section rows=1 dims=1 extents=i0 vector=cols {\n row {\n"
      "v0 = load.f32 @0\n v1 = load.f32 @1\n v2 = scalar.f32 s0\n v3 = mul.f32 v0, v1\n"
      "v4 = add.f32 v3, v2\n v5 = exp.f32 v4\n v6 = neg.f32 v5\n v7 = sub.f32 v6, v0\n"
      "v8 = fma.f32 v7, v1, v4\n v9 = tanh.f32 v8\n v10 = max.f32 v9, v0\n v11 = div.f32 v10, v1\n"
      "v12 = lt.bool v11, v0\n v13 = select.f32 v12, v11, v5\n store.f32 @2, v13\n }\n phase "
      "rows\n}\n";
  static const char *const layouts[][3] = {{"1", "1", "1"}, {"2", "0", "1"}, {"r", "n", "2"}};
  for (int l = 0; l < 3; l++) {
    for (int s = 0; s < N_SIZES; s++) {
      kernel_case c = {.text = text,
                       .n_dims = 1,
                       .n_rows = 1,
                       .extents = {sizes[s]},
                       .accesses = {layouts[l][0], layouts[l][1], layouts[l][2]},
                       .access_buf = {0, 1, 2},
                       .scalars = {{.f32 = 1.5f}},
                       .specials = true};
      check_case(&c);
    }
  }
}
END_TEST

/* Every dtype that the operation takes, each with results of its own dtype. */
static void check_elem(int op, kl_dtype from, kl_dtype to, const char *layout) {
  const kl_op_info *info = &kl_op_table[op];
  char loads[512] = "", operands[64] = "";
  for (int a = 0; a < info->arity; a++) {
    bool condition = op == KL_OP_SELECT && a == 0;
    kl_dtype dtype = condition ? KL_BOOL : from;
    int buf = condition ? 3 : a;
    snprintf(loads + strlen(loads), sizeof loads - strlen(loads), "v%d = load.%s @%d\n", a,
             kl_dtype_name(dtype), buf);
    snprintf(operands + strlen(operands), sizeof operands - strlen(operands), "%sv%d",
             a ? ", " : "", a);
  }
  const char *name = kl_dtype_name(from);
  kernel_case c = {
      .text = format("buf b0 %s read\n buf b1 %s read\n buf b2 %s read\n buf b3 bool read\n"
                     "buf b4 %s write noalias\n section rows=1 dims=1 extents=i0 vector=cols {\n"
                     "row {\n%s v8 = %s.%s %s\n store.%s @4, v8\n}\n phase rows\n}\n",
                     name, name, name, kl_dtype_name(to), loads, info->text, kl_dtype_name(to),
                     operands, kl_dtype_name(to)),
      .n_dims = 1,
      .n_rows = 1,
      .extents = {333},
      .specials = true,
      .accesses = {layout, layout, layout, layout, layout},
      .access_buf = {0, 1, 2, 3, 4}};
  check_case(&c);
}

static kl_dtype result_of(int op, kl_dtype from) {
  switch (kl_op_table[op].result) {
    case KL_RESULT_BOOL:
      return KL_BOOL;
    case KL_RESULT_I64:
      return KL_I64;
    case KL_RESULT_I32:
      return KL_I32;
    default:
      return from;
  }
}

static bool takes(int op, kl_dtype dtype) {
  bool half = dtype == KL_F16 || dtype == KL_BF16;
  if (op == KL_OP_SELECT) return true;
  if (op == KL_OP_RANDOM || op == KL_OP_RANDOM_HIGH) return dtype == KL_I64;
  return kl_op_takes((kl_op)op, dtype) && !(half && op != KL_OP_COPY);
}

START_TEST(every_elementwise_operation_equals_tier_0) {
  for (int op = 0; op < KL_OP_COUNT; op++) {
    if (!kl_op_is_elem(op) || op == KL_OP_CAST || op == KL_OP_BITCAST || op == KL_OP_INDEX)
      continue;
    for (int dtype = 0; dtype < KL_DTYPE_COUNT; dtype++)
      if (takes(op, (kl_dtype)dtype)) {
        check_elem(op, (kl_dtype)dtype, result_of(op, (kl_dtype)dtype), dtype % 2 ? "1" : "2");
      }
  }
}
END_TEST

START_TEST(every_cast_equals_tier_0) {
  for (int from = 0; from < KL_DTYPE_COUNT; from++)
    for (int to = 0; to < KL_DTYPE_COUNT; to++)
      check_elem(KL_OP_CAST, (kl_dtype)from, (kl_dtype)to, "1");
}
END_TEST

START_TEST(every_bitcast_equals_tier_0) {
  for (int from = 0; from < KL_DTYPE_COUNT; from++)
    for (int to = 1; to < KL_DTYPE_COUNT; to++)
      if (kl_dtype_size((kl_dtype)from) == kl_dtype_size((kl_dtype)to))
        check_elem(KL_OP_BITCAST, (kl_dtype)from, (kl_dtype)to, "1");
}
END_TEST

START_TEST(layouts_of_several_dims_equal_tier_0) {
  static const char text[] =
      "buf b0 f32 read\n buf b1 f64 read\n buf b2 f64 write noalias\n buf b3 i64 write noalias\n"
      "section rows=3 dims=3 extents=i0 vector=cols {\n row {\n"
      "v0 = load.f32 @0\n v1 = load.f64 @1\n v2 = cast.f64 v0\n v3 = add.f64 v1, v2\n"
      "v4 = index.i64 d0\n v5 = index.i64 d2\n v6 = mul.i64 v4, v5\n v7 = int.i64 $0\n"
      "v8 = add.i64 v6, v7\n store.f64 @2, v3\n store.i64 @3, v8\n }\n phase rows\n}\n";
  static const char *const layouts[][2] = {
      {"nn1", "nn1"}, {"0n1", "n0n"}, {"n2r", "000"}, {"nn0", "rr2"}};
  static const int64_t shapes[][3] = {{2, 3, 5}, {1, 4, 17}, {3, 2, 100}, {0, 2, 2}, {5, 1, 1}};
  for (int l = 0; l < 4; l++) {
    for (int s = 0; s < 5; s++) {
      kernel_case c = {.text = text,
                       .n_dims = 3,
                       .n_rows = 3,
                       .extents = {shapes[s][0], shapes[s][1], shapes[s][2]},
                       .accesses = {layouts[l][0], layouts[l][1], "nn1", "nn2"},
                       .access_buf = {0, 1, 2, 3},
                       .own_ints = {-7}};
      check_case(&c);
    }
  }
}
END_TEST

/* Past a number of costly operations each of them is a call within the object. */
START_TEST(long_chain_of_costly_operations_equals_tier_0) {
  static const char *const ops[] = {"sin", "exp", "tanh", "erf", "cos"};
  char text[4096];
  size_t at = (size_t)snprintf(text, sizeof text,
                               "buf b0 f32 read\n buf b1 f32 write\n buf b2 f64 read write\n"
                               "section rows=1 dims=1 extents=i0 vector=cols {\n row {\n"
                               "v0 = load.f32 @0\n v1 = load.f64 @2\n");
  for (int i = 1; i <= 24; i++)
    at += (size_t)snprintf(text + at, sizeof text - at, "v%d = %s.f32 v%d\n v%d = %s.f64 v%d\n",
                           2 * i, ops[i % 5], 2 * i - 2, 2 * i + 1, ops[i % 5], 2 * i - 1);
  snprintf(text + at, sizeof text - at,
           "store.f32 @1, v48\n store.f64 @2, v49\n }\n phase rows\n}\n");
  for (int s = 0; s < N_SIZES; s++) {
    kernel_case c = {.text = text,
                     .n_dims = 1,
                     .n_rows = 1,
                     .extents = {sizes[s]},
                     .specials = true,
                     .accesses = {"1", "2", "1"},
                     .access_buf = {0, 1, 2}};
    check_case(&c);
  }
}
END_TEST

/* ------------------------------------------------------------------ reductions */

enum { SHAPE_ROWS, SHAPE_VECTOR_ROWS, SHAPE_CHUNKS };

static void check_reduce(int op, kl_dtype dtype, int shape, int64_t rows, int64_t cols,
                         const char *layout) {
  kl_dtype result = result_of(op, dtype);
  const char *phases =
      shape == SHAPE_CHUNKS ? "phase cols 0..1\n phase combine 1..2\n" : "phase rows\n";
  kernel_case c = {
      .text = format("buf b0 %s read noalias\n buf b1 %s write noalias\n"
                     "section rows=1 dims=2 extents=i0 vector=%s {\n"
                     "cols {\n v0 = load.%s @0\n v1 = %s.%s v0\n }\n"
                     "row {\n store.%s @1, v1\n }\n %s}\n",
                     kl_dtype_name(dtype), kl_dtype_name(result),
                     shape == SHAPE_VECTOR_ROWS ? "rows" : "cols", kl_dtype_name(dtype),
                     kl_op_table[op].text, kl_dtype_name(result), kl_dtype_name(result), phases),
      .n_dims = 2,
      .n_rows = 1,
      .extents = {rows, cols},
      .accesses = {layout, "10"},
      .access_buf = {0, 1},
      .specials = (rows + cols) % 2 == 1};
  check_case(&c);
}

START_TEST(every_reduction_equals_tier_0) {
  for (int op = KL_OP_REDUCE_SUM; op <= KL_OP_REDUCE_ARGMIN; op++) {
    for (int dtype = 0; dtype < KL_DTYPE_COUNT; dtype++) {
      if (!takes(op, (kl_dtype)dtype)) continue;
      check_reduce(op, (kl_dtype)dtype, SHAPE_ROWS, 3, 1100, "n1");
      check_reduce(op, (kl_dtype)dtype, SHAPE_ROWS, 2, 45, "12");
      check_reduce(op, (kl_dtype)dtype, SHAPE_VECTOR_ROWS, 77, 40, "1n");
      check_reduce(op, (kl_dtype)dtype, SHAPE_CHUNKS, 2, 3000, "n1");
    }
  }
}
END_TEST

START_TEST(reductions_of_every_size_equal_tier_0) {
  static const int ops[] = {KL_OP_REDUCE_SUM, KL_OP_REDUCE_MAX, KL_OP_REDUCE_ARGMAX};
  for (int o = 0; o < 3; o++) {
    for (int s = 0; s < N_SIZES; s++) {
      if (sizes[s] == 0 && ops[o] == KL_OP_REDUCE_ARGMAX) continue;
      check_reduce(ops[o], KL_F32, SHAPE_ROWS, 2, sizes[s], "n1");
      check_reduce(ops[o], KL_F32, SHAPE_CHUNKS, 2, sizes[s], "n1");
      check_reduce(ops[o], KL_F32, SHAPE_VECTOR_ROWS, 35, sizes[s], "n1");
      check_reduce(ops[o], KL_F64, SHAPE_VECTOR_ROWS, sizes[s], 33, "1n");
      check_reduce(ops[o], KL_F64, SHAPE_ROWS, 1, sizes[s], "nr");
    }
  }
}
END_TEST

START_TEST(sum_of_many_chunks_equals_tier_0) {
  static const int64_t counts[] = {2, 3, 5, 7, 8, 11, 16, 23};
  for (int i = 0; i < 8; i++) {
    check_reduce(KL_OP_REDUCE_SUM, KL_F32, SHAPE_ROWS, 1, counts[i] * KL_CHUNK - 5, "n1");
    check_reduce(KL_OP_REDUCE_SUM, KL_F32, SHAPE_CHUNKS, 1, counts[i] * KL_CHUNK - 5, "n1");
    check_reduce(KL_OP_REDUCE_SUM, KL_F32, SHAPE_VECTOR_ROWS, 19, counts[i] * KL_CHUNK - 5, "n1");
  }
}
END_TEST

START_TEST(reductions_over_several_dims_equal_tier_0) {
  static const char text[] =
      "buf b0 f32 read noalias\n buf b1 f32 write noalias\n buf b2 i64 write noalias\n"
      "section rows=1 dims=3 extents=i0 vector=%s {\n"
      "cols {\n v0 = load.f32 @0\n v1 = mul.f32 v0, v0\n v2 = reduce_sum.f32 v1\n"
      "v3 = reduce_argmin.i64 v0\n }\n row {\n store.f32 @1, v2\n store.i64 @2, v3\n }\n phase "
      "rows\n}\n";
  static const int64_t shapes[][3] = {{2, 3, 5},  {1, 40, 32}, {3, 5, 333},
                                      {20, 9, 7}, {4, 70, 64}, {2, 2000, 3}};
  static const char *const layouts[] = {"nn1", "n1n", "rn2", "1nn"};
  for (int v = 0; v < 2; v++) {
    for (int s = 0; s < 6; s++) {
      for (int l = 0; l < 4; l++) {
        kernel_case c = {.text = format(text, v ? "rows" : "cols"),
                         .n_dims = 3,
                         .n_rows = 1,
                         .extents = {shapes[s][0], shapes[s][1], shapes[s][2]},
                         .accesses = {layouts[l], "n00", "n00"},
                         .access_buf = {0, 1, 2}};
        check_case(&c);
      }
    }
  }
}
END_TEST

/* ------------------------------------------------------------------ rows of several loops */

static void check_softmax(int64_t rows, int64_t cols, const char *layout, bool specials) {
  static const char text[] =
      "buf b0 f32 read noalias\n buf b1 f32 write noalias\n buf b2 f32 scratch\n"
      "section rows=1 dims=2 extents=i0 vector=cols {\n"
      "cols {\n v0 = load.f32 @0\n v1 = reduce_max.f32 v0\n }\n"
      "cols {\n v2 = load.f32 @0\n v3 = sub.f32 v2, v1\n v4 = exp.f32 v3\n store.f32 @2, v4\n"
      "v5 = reduce_sum.f32 v4\n }\n"
      "row {\n v6 = reciprocal.f32 v5\n }\n"
      "cols {\n v7 = load.f32 @2\n v8 = mul.f32 v7, v6\n store.f32 @1, v8\n }\n phase rows\n}\n";
  kernel_case c = {.text = text,
                   .n_dims = 2,
                   .n_rows = 1,
                   .extents = {rows, cols},
                   .accesses = {layout, "n1", "01"},
                   .access_buf = {0, 1, 2},
                   .specials = specials};
  check_case(&c);
}

START_TEST(softmax_equals_tier_0) {
  for (int s = 0; s < N_SIZES; s++) {
    check_softmax(4, sizes[s], "n1", false);
    check_softmax(2, sizes[s], "1n", true);
  }
}
END_TEST

START_TEST(normalization_in_phases_equals_tier_0) {
  static const char text[] =
      "buf b0 f32 read noalias\n buf b1 f32 write noalias\n buf b2 f32 read noalias\n"
      "buf b3 f32 write noalias\n section rows=2 dims=3 extents=i0 vector=cols {\n"
      "row {\n v0 = load.f32 @2\n v1 = exp.f32 v0\n }\n"
      "cols {\n v2 = load.f32 @0\n v3 = mul.f32 v2, v1\n v4 = reduce_sum.f32 v3\n"
      "v5 = reduce_max.f32 v2\n }\n"
      "row {\n v6 = mul.f32 v4, v5\n v7 = add.f32 v6, v1\n }\n"
      "cols {\n v8 = load.f32 @0\n v9 = sub.f32 v8, v7\n v10 = mul.f32 v9, v9\n"
      "v11 = reduce_sum.f32 v10\n }\n"
      "row {\n v12 = sqrt.f32 v11\n store.f32 @3, v12\n }\n"
      "cols {\n v13 = load.f32 @0\n v14 = sub.f32 v13, v7\n v15 = div.f32 v14, v12\n"
      "store.f32 @1, v15\n }\n"
      "phase cols 1..2\n phase combine 2..3\n phase cols 3..4\n phase combine 4..5\n"
      "phase cols 5..6\n}\n";
  for (int s = 0; s < N_SIZES; s++) {
    kernel_case c = {.text = text,
                     .n_dims = 3,
                     .n_rows = 2,
                     .extents = {2, 3, sizes[s]},
                     .accesses = {"nn1", "nn1", "nn0", "nn0"},
                     .access_buf = {0, 1, 2, 3}};
    check_case(&c);
  }
}
END_TEST

/* The same by rows, in place, with a second result: what a column-wise normalization does. */
START_TEST(normalization_of_columns_equals_tier_0) {
  static const char text[] =
      "buf b0 f32 read write noalias\n buf b1 f64 write noalias\n"
      "section rows=2 dims=4 extents=i0 vector=rows {\n"
      "cols {\n v0 = load.f32 @0\n v1 = reduce_sum.f32 v0\n v2 = reduce_max.f32 v0\n }\n"
      "row {\n v3 = sub.f32 v1, v2\n v4 = index.i64 d1\n v5 = cast.f32 v4\n"
      "v6 = add.f32 v3, v5\n v7 = cast.f64 v6\n store.f64 @1, v7\n }\n"
      "seq {\n v8 = load.f32 @0\n v9 = index.i64 d3\n v10 = cast.f32 v9\n v11 = mul.f32 v8, v6\n"
      "v12 = sub.f32 v11, v10\n store.f32 @0, v12\n }\n phase rows\n}\n";
  static const int64_t shapes[][4] = {{1, 1, 1, 1},     {2, 33, 3, 5}, {3, 7, 40, 9},
                                      {1, 100, 600, 2}, {2, 0, 3, 3},  {2, 16, 0, 4}};
  static const char *const layouts[] = {"n1nn", "nnn1", "rnn2"};
  for (int s = 0; s < 6; s++) {
    for (int l = 0; l < 3; l++) {
      kernel_case c = {.text = text,
                       .n_dims = 4,
                       .n_rows = 2,
                       .accesses = {layouts[l], "n100"},
                       .access_buf = {0, 1}};
      memcpy(c.extents, shapes[s], sizeof shapes[s]);
      check_case(&c);
    }
  }
}
END_TEST

START_TEST(kernels_without_dims_equal_tier_0) {
  static const char scalar[] =
      "buf b0 f32 read noalias\n buf b1 f32 write noalias\n"
      "section rows=0 dims=0 extents=i0 vector=cols {\n row {\n v0 = load.f32 @0\n"
      "v1 = exp.f32 v0\n store.f32 @1, v1\n }\n phase rows\n}\n";
  kernel_case c = {.text = scalar, .accesses = {"", ""}, .access_buf = {0, 1}};
  check_case(&c);
  static const char total[] =
      "buf b0 f32 read noalias\n buf b1 f32 write noalias\n"
      "section rows=0 dims=1 extents=i0 vector=cols {\n cols {\n v0 = load.f32 @0\n"
      "v1 = reduce_prod.f32 v0\n }\n row {\n store.f32 @1, v1\n }\n %s}\n";
  for (int s = 0; s < N_SIZES; s++) {
    kernel_case t = {
        .text = format(total, s % 2 ? "phase rows\n" : "phase cols 0..1\n phase combine 1..2\n"),
        .n_dims = 1,
        .extents = {sizes[s]},
        .accesses = {"1", "0"},
        .access_buf = {0, 1}};
    check_case(&t);
  }
}
END_TEST

static void *compile_often(void *user) {
  const kernel_case *c = user;
  case_run run;
  if (case_open(c, &run) != KL_OK) return "parse";
  for (int i = 0; i < 5; i++) {
    kl_code *code;
    if (kl_llvm_prepare(&run.kernel, 0, &code) != KL_OK) return "compile";
    code->destroy(code);
  }
  case_close(&run);
  return NULL;
}

START_TEST(several_threads_compile_at_once) {
  kernel_case c = {.n_dims = 1, .n_rows = 1, .extents = {5}, .accesses = {"1", "1"}};
  c.text =
      "buf b0 f32 read write\n section rows=1 dims=1 extents=i0 vector=cols {\n row {\n"
      "v0 = load.f32 @0\n v1 = sin.f32 v0\n store.f32 @1, v1\n }\n phase rows\n}\n";
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, compile_often, &c), 0);
  for (int i = 0; i < 4; i++) {
    void *failure;
    pthread_join(threads[i], &failure);
    ck_assert_ptr_null(failure);
  }
}
END_TEST

START_TEST(gather_and_scatter_equal_tier_0) {
  /* A row gathered by number, a column by column, and what is added in order. */
  static const char text[] =
      "buf b0 f32 read noalias\n buf b1 i64 read noalias\n buf b2 f32 read write noalias\n"
      "buf b3 f32 read write noalias\n buf b4 i64 read noalias\n"
      "section rows=1 dims=2 extents=i0 vector=cols {\n"
      "row {\n v0 = load.i64 @1\n }\n"
      "cols {\n v1 = load.f32 @0 v0\n v2 = load.i64 @4\n v3 = load.f32 @5 v2\n v4 = add.f32 v1, "
      "v3\n"
      "store.f32 @2, v4\n }\n"
      "seq {\n v5 = load.f32 @2\n v6 = load.i64 @4\n store_add.f32 @3 v6, v5\n }\n phase rows\n}\n";
  for (int s = 0; s < N_SIZES; s++) {
    kernel_case c = {.text = text,
                     .n_dims = 2,
                     .n_rows = 1,
                     .extents = {5, sizes[s]},
                     .accesses = {"01*", "10", "n1", "00*", "01", "00*"},
                     .access_buf = {0, 1, 2, 3, 4, 0},
                     .index_limit = 9,
                     .dynamic_extent = 9};
    check_case(&c);
  }
}
END_TEST

START_TEST(repeated_pattern_equals_tier_0) {
  static const char text[] =
      "buf b0 f32 read noalias\n buf b1 f32 write noalias\n"
      "section rows=1 dims=1 extents=i0 vector=cols {\n row {\n"
      "v0 = load.f32 @0\n v1 = scalar.f32 s0\n"
      "repeat $0 carries 2 {\n v3 = carry.f32 v0\n v4 = carry.f32 v1\n"
      "v5 = scalar.f32 s1 step 2\n v6 = mul.f32 v3, v5\n v7 = add.f32 v6, v4\n"
      "v8 = sub.f32 v4, v0\n next.f32 v3, v7\n next.f32 v4, v8\n }\n"
      "v12 = add.f32 v3, v4\n store.f32 @1, v12\n }\n phase rows\n}\n";
  for (int64_t count = 0; count < 5; count++) {
    kernel_case c = {.text = text,
                     .n_dims = 1,
                     .n_rows = 1,
                     .extents = {101},
                     .accesses = {"1", "1"},
                     .access_buf = {0, 1},
                     .own_ints = {count}};
    for (int i = 0; i < 16; i++) c.scalars[i].f32 = 0.25f * (float)i;
    check_case(&c);
  }
}
END_TEST

START_TEST(code_for_lower_levels_equals_tier_0) {
#ifdef __x86_64__
  static const char *const levels[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
  static const int ops[] = {KL_OP_EXP, KL_OP_FLOOR, KL_OP_ERF,       KL_OP_MAX,   KL_OP_SIN,
                            KL_OP_FMA, KL_OP_POW,   KL_OP_REMAINDER, KL_OP_SELECT};
  for (int l = 0; l < 3; l++) {
    if ((int)kl_cpu_level_host() < (int)KL_CPU_V2 + l) {
      kl_test_skip(levels[l], "this CPU is below that level");
      break;
    }
    target_cpu = levels[l];
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
      check_elem(ops[o], KL_F32, KL_F32, "1");
      check_elem(ops[o], KL_F64, KL_F64, "2");
    }
    check_elem(KL_OP_MUL, KL_U8, KL_U8, "1");
    check_elem(KL_OP_FLOOR_DIV, KL_I32, KL_I32, "2");
    for (int to = 0; to < KL_DTYPE_COUNT; to++) {
      check_elem(KL_OP_CAST, KL_F32, (kl_dtype)to, "1");
      check_elem(KL_OP_CAST, KL_F16, (kl_dtype)to, "1");
    }
    for (int shape = SHAPE_ROWS; shape <= SHAPE_CHUNKS; shape++) {
      check_reduce(KL_OP_REDUCE_SUM, KL_F32, shape, 9, 2077, "n1");
      check_reduce(KL_OP_REDUCE_SUM, KL_F64, shape, 9, 45, "1n");
      check_reduce(KL_OP_REDUCE_ARGMAX, KL_U8, shape, 37, 1111, "n1");
      check_reduce(KL_OP_REDUCE_ALL, KL_BOOL, shape, 5, 100, "n1");
    }
    check_softmax(3, 777, "n1", false);
  }
  target_cpu = "";
#else
  KL_TEST_SKIP("levels are known for x86-64 only");
#endif
}
END_TEST

START_TEST(error_of_the_plugin_reaches_the_caller) {
  kl_object object = {0};
  kl_kernel kernel = {0};
  kl_compile_options options = {.symbol = "f"};
  ck_assert_int_ne(kl_plugin_compile(&kernel, 3, &options, &object), KL_OK);
  ck_assert_ptr_nonnull(strstr(kl_error_message(), "section 3"));
}
END_TEST

int main(void) {
  const kl_llvm_plugin *plugin;
  if (kl_plugin_get(&plugin) != KL_OK) {
    kl_test_skip("llvm", kl_error_message());
    return 0;
  }
  printf("LLVM %s\n", plugin->llvm_version);
  Suite *suite = suite_create("llvm");
  TCase *tests = tcase_create("tier 1");
  tcase_add_test(tests, chain_of_elementwise_operations_equals_tier_0);
  tcase_add_test(tests, every_elementwise_operation_equals_tier_0);
  tcase_add_test(tests, every_cast_equals_tier_0);
  tcase_add_test(tests, every_bitcast_equals_tier_0);
  tcase_add_test(tests, layouts_of_several_dims_equal_tier_0);
  tcase_add_test(tests, long_chain_of_costly_operations_equals_tier_0);
  tcase_add_test(tests, every_reduction_equals_tier_0);
  tcase_add_test(tests, reductions_of_every_size_equal_tier_0);
  tcase_add_test(tests, sum_of_many_chunks_equals_tier_0);
  tcase_add_test(tests, reductions_over_several_dims_equal_tier_0);
  tcase_add_test(tests, softmax_equals_tier_0);
  tcase_add_test(tests, normalization_in_phases_equals_tier_0);
  tcase_add_test(tests, normalization_of_columns_equals_tier_0);
  tcase_add_test(tests, kernels_without_dims_equal_tier_0);
  tcase_add_test(tests, several_threads_compile_at_once);
  tcase_add_test(tests, gather_and_scatter_equal_tier_0);
  tcase_add_test(tests, repeated_pattern_equals_tier_0);
  tcase_add_test(tests, code_for_lower_levels_equals_tier_0);
  tcase_add_test(tests, error_of_the_plugin_reaches_the_caller);
  suite_add_tcase(suite, tests);
  return kl_test_run(suite);
}
