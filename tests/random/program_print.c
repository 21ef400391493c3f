/* Programs as C. See program.h. */
#include <inttypes.h>
#include <math.h>

#include "tests/random/program.h"

static const char *const names[S_KIND_COUNT] = {[S_FROM_DATA] = "from_data",
                                                [S_FULL] = "full",
                                                [S_ARANGE] = "arange",
                                                [S_RAND] = "rand",
                                                [S_RANDN] = "randn",
                                                [S_UNARY] = "unary",
                                                [S_UNARY_INPLACE] = "unary_",
                                                [S_BINARY] = "binary",
                                                [S_BINARY_INPLACE] = "binary_",
                                                [S_SCALAR] = "scalar",
                                                [S_SCALAR_INPLACE] = "scalar_",
                                                [S_POW] = "pow",
                                                [S_POW_INPLACE] = "pow_",
                                                [S_WHERE] = "where",
                                                [S_MASKED_FILL] = "masked_fill",
                                                [S_MASKED_FILL_INPLACE] = "masked_fill_",
                                                [S_TO_DTYPE] = "to_dtype",
                                                [S_CLONE] = "clone",
                                                [S_CONTIGUOUS] = "contiguous",
                                                [S_FILL_INPLACE] = "fill_",
                                                [S_ZERO_INPLACE] = "zero_",
                                                [S_COPY_INPLACE] = "copy_",
                                                [S_SUM] = "sum_dims",
                                                [S_MEAN] = "mean_dims",
                                                [S_AMAX] = "amax",
                                                [S_ARGMAX] = "argmax_dim",
                                                [S_ANY] = "any_dims",
                                                [S_ALL] = "all_dims",
                                                [S_SOFTMAX] = "softmax",
                                                [S_LOG_SOFTMAX] = "log_softmax",
                                                [S_MATMUL] = "matmul",
                                                [S_LINEAR] = "linear",
                                                [S_CAT] = "cat",
                                                [S_INDEX_SELECT] = "index_select",
                                                [S_GATHER] = "gather",
                                                [S_SCATTER_ADD] = "scatter_add",
                                                [S_SCATTER_ADD_INPLACE] = "scatter_add_",
                                                [S_NLL_LOSS] = "nll_loss",
                                                [S_CROSS_ENTROPY] = "cross_entropy",
                                                [S_VIEW] = "view",
                                                [S_RESHAPE] = "reshape",
                                                [S_TRANSPOSE] = "transpose",
                                                [S_PERMUTE] = "permute",
                                                [S_SLICE] = "slice",
                                                [S_SELECT] = "select",
                                                [S_EXPAND] = "expand",
                                                [S_SQUEEZE] = "squeeze",
                                                [S_UNSQUEEZE] = "unsqueeze",
                                                [S_AS_STRIDED] = "as_strided",
                                                [S_DIAGONAL] = "diagonal",
                                                [S_DETACH] = "detach",
                                                [S_UNBIND_FIRST] = "unbind",
                                                [S_SPLIT_FIRST] = "split",
                                                [S_ALIAS] = "retain",
                                                [S_RELEASE] = "release",
                                                [S_REQUIRES_GRAD] = "requires_grad_",
                                                [S_DETACH_INPLACE] = "detach_",
                                                [S_GRAD_MODE] = "set_grad_enabled",
                                                [S_RETAIN_GRAD] = "retain_grad",
                                                [S_BACKWARD] = "backward",
                                                [S_GRAD] = "grad",
                                                [S_READ] = "copy_to_host",
                                                [S_ITEM] = "item",
                                                [S_EVAL] = "eval",
                                                [S_POINTER] = "data_ptr",
                                                [S_POKE] = "mutable_data_ptr"};

const char *statement_name(const statement *s) {
  bool elementwise = s->kind >= S_UNARY && s->kind <= S_SCALAR_INPLACE;
  return elementwise ? program_fns[s->fn].name : names[s->kind];
}

/* 2, (int64_t[]){3, 4} */
static void print_shape(const statement *s, int first, kl_text *out) {
  kl_text_add(out, "%d, (int64_t[]){", s->n_ints - first);
  for (int d = first; d < s->n_ints; d++)
    kl_text_add(out, "%s%" PRId64, d > first ? ", " : "", s->ints[d]);
  kl_text_add(out, s->n_ints == first ? "0}" : "}");
}

static void print_number(kael_scalar number, kl_text *out) {
  if (number.kind == KAEL_SCALAR_FLOAT)
    kl_text_add(out, "kael_f(%.17g)", number.as.f);
  else if (number.kind == KAEL_SCALAR_INT)
    kl_text_add(out, "kael_i(%" PRId64 ")", number.as.i);
  else
    kl_text_add(out, "kael_b(%s)", number.as.b ? "true" : "false");
}

static const char *dtype_text(const statement *s) {
  static const char *const texts[] = {"KAEL_BOOL", "KAEL_U8",  "KAEL_I8",   "KAEL_I16", "KAEL_I32",
                                      "KAEL_I64",  "KAEL_F16", "KAEL_BF16", "KAEL_F32", "KAEL_F64"};
  return texts[s->dtype];
}

/* The arguments after the opening parenthesis, by the shape of the declaration. */
static void print_arguments(const statement *s, kl_text *out) {
  const int64_t *i = s->ints;
  switch (s->kind) {
    case S_FROM_DATA:
      kl_text_add(out, "data(%s, %" PRId64 ", ", dtype_text(s), i[0]);
      for (int d = 1; d < s->n_ints; d++) kl_text_add(out, "%" PRId64 " * ", i[d]);
      kl_text_add(out, "1), ");
      print_shape(s, 1, out);
      kl_text_add(out, ", %s", dtype_text(s));
      break;
    case S_FULL:
      print_shape(s, 0, out);
      kl_text_add(out, ", ");
      print_number(s->number, out);
      kl_text_add(out, ", %s", dtype_text(s));
      break;
    case S_ARANGE:
      kl_text_add(out, "kael_i(%" PRId64 "), kael_i(%" PRId64 "), kael_i(%" PRId64 "), %s", i[0],
                  i[1], i[2], dtype_text(s));
      break;
    case S_RAND:
    case S_RANDN:
      print_shape(s, 0, out);
      kl_text_add(out, ", %s", dtype_text(s));
      break;
    case S_SCALAR:
    case S_SCALAR_INPLACE:
    case S_POW:
    case S_POW_INPLACE:
    case S_FILL_INPLACE:
      kl_text_add(out, "t[%d], ", s->a);
      print_number(s->number, out);
      break;
    case S_MASKED_FILL:
    case S_MASKED_FILL_INPLACE:
      kl_text_add(out, "t[%d], t[%d], ", s->a, s->b);
      print_number(s->number, out);
      break;
    case S_BINARY:
    case S_BINARY_INPLACE:
    case S_COPY_INPLACE:
    case S_MATMUL:
      kl_text_add(out, "t[%d], t[%d]", s->a, s->b);
      break;
    case S_LINEAR:
      kl_text_add(out, s->flag ? "t[%d], t[%d], t[%d]" : "t[%d], t[%d], KAEL_NONE", s->a, s->b,
                  s->c);
      break;
    case S_WHERE:
      kl_text_add(out, "t[%d], t[%d], t[%d]", s->a, s->b, s->c);
      break;
    case S_CAT:
      kl_text_add(out, "(kael_tensor *[]){t[%d], t[%d]}, 2, %" PRId64, s->a, s->b, i[0]);
      break;
    case S_INDEX_SELECT:
    case S_GATHER:
      kl_text_add(out, "t[%d], %" PRId64 ", t[%d]", s->a, i[0], s->b);
      break;
    case S_SCATTER_ADD:
    case S_SCATTER_ADD_INPLACE:
      kl_text_add(out, "t[%d], %" PRId64 ", t[%d], t[%d]", s->a, i[0], s->b, s->c);
      break;
    case S_NLL_LOSS:
    case S_CROSS_ENTROPY:
      kl_text_add(out, "t[%d], t[%d], %" PRId64, s->a, s->b, i[0]);
      break;
    case S_TO_DTYPE:
      kl_text_add(out, "t[%d], %s", s->a, dtype_text(s));
      break;
    case S_ARGMAX:
      kl_text_add(out, "t[%d], %" PRId64 ", %d", s->a, s->n_ints ? i[0] : -1, s->flag);
      break;
    case S_SUM:
    case S_MEAN:
    case S_AMAX:
    case S_ANY:
    case S_ALL:
      kl_text_add(out, "t[%d], ", s->a);
      print_shape(s, 0, out);
      kl_text_add(out, ", %s", s->flag ? "true" : "false");
      break;
    case S_VIEW:
    case S_RESHAPE:
    case S_EXPAND:
    case S_PERMUTE:
      kl_text_add(out, "t[%d], ", s->a);
      print_shape(s, 0, out);
      break;
    case S_AS_STRIDED:
      kl_text_add(out,
                  "t[%d], 2, (int64_t[]){%" PRId64 ", %" PRId64 "}, (int64_t[]){%" PRId64
                  ", %" PRId64 "}, %" PRId64,
                  s->a, i[0], i[1], i[2], i[3], i[4]);
      break;
    case S_SOFTMAX:
    case S_LOG_SOFTMAX:
    case S_UNSQUEEZE:
      kl_text_add(out, "t[%d], %" PRId64, s->a, i[0]);
      break;
    case S_TRANSPOSE:
    case S_SELECT:
      kl_text_add(out, "t[%d], %" PRId64 ", %" PRId64, s->a, i[0], i[1]);
      break;
    case S_UNBIND_FIRST:
      kl_text_add(out, "t[%d], %" PRId64 ", views", s->a, i[0]);
      break;
    case S_SPLIT_FIRST:
      kl_text_add(out, "t[%d], %" PRId64 ", %" PRId64 ", views", s->a, i[1], i[0]);
      break;
    case S_SLICE:
      kl_text_add(out, "t[%d], %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64, s->a, i[0], i[1],
                  i[2], i[3]);
      break;
    case S_DIAGONAL:
      kl_text_add(out, "t[%d], %" PRId64 ", %" PRId64 ", %" PRId64, s->a, i[0], i[1], i[2]);
      break;
    case S_REQUIRES_GRAD:
      kl_text_add(out, "t[%d], %s", s->a, s->flag ? "true" : "false");
      break;
    case S_GRAD_MODE:
      kl_text_add(out, "%s", s->flag ? "true" : "false");
      break;
    case S_BACKWARD:
      kl_text_add(out, "t[%d], KAEL_NONE, %s, %s", s->a, s->flag ? "true" : "false",
                  s->flag2 ? "true" : "false");
      break;
    case S_EVAL:
      kl_text_add(out, "&t[%d], 1", s->a);
      break;
    case S_ITEM:
      kl_text_add(out, "t[%d], &item", s->a);
      break;
    default:
      kl_text_add(out, "t[%d]", s->a);
      break;
  }
}

static bool makes_tensor(const statement *s) {
  switch (s->kind) {
    case S_UNARY_INPLACE:
    case S_BINARY_INPLACE:
    case S_SCALAR_INPLACE:
    case S_POW_INPLACE:
    case S_MASKED_FILL_INPLACE:
    case S_FILL_INPLACE:
    case S_ZERO_INPLACE:
    case S_COPY_INPLACE:
    case S_SCATTER_ADD_INPLACE:
    case S_UNBIND_FIRST:
    case S_SPLIT_FIRST:
      return false;
    default:
      return s->kind < S_RELEASE || s->kind == S_GRAD;
  }
}

void statement_print(const statement *s, kl_text *out) {
  bool scalar = s->kind == S_SCALAR || s->kind == S_SCALAR_INPLACE;
  bool inplace =
      s->kind == S_UNARY_INPLACE || s->kind == S_BINARY_INPLACE || s->kind == S_SCALAR_INPLACE;
  if (s->kind == S_READ) {
    kl_text_add(out, "show(t[%d]);", s->a);
    return;
  }
  if (s->kind == S_POKE) {
    kl_text_add(out, "poke(t[%d], ", s->a);
    print_number(s->number, out);
    kl_text_add(out, ");");
    return;
  }
  if (makes_tensor(s)) kl_text_add(out, "set(t, %d, ", s->dst);
  kl_text_add(out, "kael_%s%s%s(", statement_name(s), scalar ? "_scalar" : "", inplace ? "_" : "");
  print_arguments(s, out);
  kl_text_add(out, makes_tensor(s) ? "));" : ");");
  if (s->kind == S_UNBIND_FIRST || s->kind == S_SPLIT_FIRST)
    kl_text_add(out, " set(t, %d, views[0]); views[0] = NULL;", s->dst);
  if (s->kind == S_RELEASE) kl_text_add(out, " t[%d] = NULL;", s->a);
}

/* What the printed program needs around its statements. */
static const char prologue[] =
    "#include <kael/kael.h>\n#include <stdio.h>\n#include <stdlib.h>\n\n"
    "/* data: tests/random/program_run.c, program_data */\n"
    "void program_data(kael_dtype dtype, int64_t pattern, int64_t n, void *out);\n"
    "static const void *data(kael_dtype dtype, int64_t pattern, int64_t n) {\n"
    "  void *bytes = malloc((size_t)n * 8 + 1);\n  program_data(dtype, pattern, n, bytes);\n"
    "  return bytes;\n}\n"
    "static void set(kael_tensor **t, int r, kael_tensor *made) {\n"
    "  if (!made) { printf(\"%s\\n\", kael_last_error().message); kael_clear_error(); return; }\n"
    "  kael_release(t[r]);\n  t[r] = made;\n}\n"
    "static void show(kael_tensor *t) {\n  char *text = kael_to_string(t);\n"
    "  printf(\"%s\\n\", text ? text : kael_last_error().message);\n  kael_string_free(text);\n}\n"
    "static void poke(kael_tensor *t, kael_scalar value) {\n  void *bytes = "
    "kael_mutable_data_ptr(t);\n"
    "  if (!bytes) return;\n"
    "  if (kael_dtype_of(t) == KAEL_F32) *(float *)bytes = (float)value.as.f;\n"
    "  else if (kael_dtype_of(t) == KAEL_F64) *(double *)bytes = value.as.f;\n"
    "  else *(unsigned char *)bytes = 1;\n}\n\n"
    "int main(void) {\n  kael_tensor *t[12] = {0}, *views[64];\n  double item;\n  (void)item, "
    "(void)views;\n";

void program_print(const program *p, kael_jit_mode mode, kl_text *out) {
  kl_text_add(out, "%s  kael_set_jit(%d); /* 0: eager */\n  kael_manual_seed(7);\n", prologue,
              (int)mode);
  for (int i = 0; i < p->n; i++) {
    kl_text_add(out, "  ");
    statement_print(&p->statements[i], out);
    kl_text_add(out, "\n");
  }
  kl_text_add(out, "  for (int r = 0; r < 12; r++)\n    if (t[r]) show(t[r]);\n}\n");
}
