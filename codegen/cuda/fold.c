/* Reductions as structs of CUDA C++: what a lane holds, where it starts, how two are joined.
 * The trees that join them are in prelude.c. */
#include <stdio.h>

#include "codegen/cuda/emit.h"

static bool is_arg(int op) { return op == KL_OP_REDUCE_ARGMAX || op == KL_OP_REDUCE_ARGMIN; }
static bool is_greatest(int op) { return op == KL_OP_REDUCE_MAX || op == KL_OP_REDUCE_ARGMAX; }

static int operand_dtype(const kl_section *section, uint32_t reduce) {
  return section->instrs.data[section->instrs.data[reduce].arg[0]].dtype;
}

void kl_cuda_fold_name(const kl_section *section, uint32_t reduce, char name[48]) {
  snprintf(name, 48, "kl_%s_%s", kl_op_table[section->instrs.data[reduce].op].text,
           kl_cuda_token(operand_dtype(section, reduce)));
}

/* The value that every other beats, or equals. */
static const char *weakest(int op, int dtype) {
  static const struct {
    const char *least, *greatest;
  } bounds[KL_DTYPE_COUNT] = {
      [KL_BOOL] = {"0", "1"},
      [KL_U8] = {"0", "255"},
      [KL_I8] = {"-128", "127"},
      [KL_I16] = {"-32768", "32767"},
      [KL_I32] = {"-2147483647 - 1", "2147483647"},
      [KL_I64] = {"-9223372036854775807LL - 1", "9223372036854775807LL"},
      [KL_F32] = {"__int_as_float((int)0xff800000u)", "__int_as_float(0x7f800000)"},
      [KL_F64] = {"__longlong_as_double((long long)0xfff0000000000000ull)",
                  "__longlong_as_double(0x7ff0000000000000ll)"},
  };
  return is_greatest(op) ? bounds[dtype].least : bounds[dtype].greatest;
}

static const char *identity(int op, int dtype) {
  switch (op) {
    case KL_OP_REDUCE_SUM:
    case KL_OP_REDUCE_ANY:
      return "0";
    case KL_OP_REDUCE_PROD:
    case KL_OP_REDUCE_ALL:
      return "1";
    default:
      return weakest(op, dtype);
  }
}

static const char *join(int op) {
  switch (op) {
    case KL_OP_REDUCE_SUM:
      return "add";
    case KL_OP_REDUCE_PROD:
      return "mul";
    case KL_OP_REDUCE_MAX:
      return "max";
    case KL_OP_REDUCE_MIN:
      return "min";
    case KL_OP_REDUCE_ANY:
      return "or";
    default:
      return "and";
  }
}

static void plain_fold(kl_cuda_emit_state *e, int op, int dtype) {
  const char *t = kl_cuda_ctype(dtype), *token = kl_cuda_token(dtype);
  kl_cuda_line(e, "  typedef %s value;", t);
  kl_cuda_line(e, "  static __device__ value identity() { return %s; }", identity(op, dtype));
  kl_cuda_line(e, "  static __device__ value leaf(%s x, long long) { return x; }", t);
  kl_cuda_line(e,
               "  static __device__ value join(value a, value b) { return kl_math_%s_%s(a, b); }",
               join(op), token);
  kl_cuda_line(e, "  static __device__ %s result(value a) { return a; }", t);
  kl_cuda_line(e, "  static __device__ void put(union kl_scalar *at, value a) { at->%s = a; }",
               token);
  kl_cuda_line(e, "  static __device__ value get(const union kl_scalar *at) { return at->%s; }",
               token);
}

/* NaN beats every number; of equals the first column wins. */
static void arg_fold(kl_cuda_emit_state *e, int op, int dtype) {
  const char *t = kl_cuda_ctype(dtype), *token = kl_cuda_token(dtype);
  const char *beats = kl_dtype_is_float((kl_dtype)dtype) ? " || (x != x && y == y)" : "";
  kl_cuda_line(e, "  typedef kl_at<%s> value;", t);
  kl_cuda_line(e, "  static __device__ value identity() { return {%s, 9223372036854775807LL}; }",
               weakest(op, dtype));
  kl_cuda_line(e, "  static __device__ value leaf(%s x, long long k) { return {x, k}; }", t);
  kl_cuda_line(e, "  static __device__ bool beats(%s x, %s y) { return x %c y%s; }", t, t,
               is_greatest(op) ? '>' : '<', beats);
  kl_cuda_line(e, "  static __device__ value join(value a, value b) {");
  kl_cuda_line(e, "    if (beats(b.value, a.value)) return b;");
  kl_cuda_line(e, "    return !beats(a.value, b.value) && b.column < a.column ? b : a;");
  kl_cuda_line(e, "  }");
  kl_cuda_line(e, "  static __device__ long long result(value a) { return a.column; }");
  kl_cuda_line(e, "  static __device__ void put(union kl_scalar *at, value a) {");
  kl_cuda_line(e, "    at[0].%s = a.value;", token);
  kl_cuda_line(e, "    at[1].i64 = a.column;");
  kl_cuda_line(e, "  }");
  kl_cuda_line(e, "  static __device__ value get(const union kl_scalar *at) {");
  kl_cuda_line(e, "    return {at[0].%s, at[1].i64};", token);
  kl_cuda_line(e, "  }");
}

void kl_cuda_fold_types(kl_cuda_emit_state *e) {
  bool made[KL_OP_COUNT][KL_DTYPE_COUNT] = {{false}};
  for (uint32_t s = 0; s < e->kernel->sections.count; s++) {
    const kl_section *section = &e->kernel->sections.data[s];
    for (uint32_t id = 0; id < section->instrs.count; id++) {
      int op = section->instrs.data[id].op;
      if (!kl_op_is_reduce(op)) continue;
      int dtype = operand_dtype(section, id);
      if (made[op][dtype]) continue;
      made[op][dtype] = true;
      char name[48];
      kl_cuda_fold_name(section, id, name);
      kl_cuda_line(e, "struct %s {", name);
      (is_arg(op) ? arg_fold : plain_fold)(e, op, dtype);
      kl_cuda_line(e, "};");
      kl_cuda_line(e, "%s", "");
    }
  }
}
