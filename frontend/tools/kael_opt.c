/* kael-opt: runs passes on the text of the IR.
 *
 *   kael-opt [--passes=a,b] [--emit=graph|kernel|cuda] [--threads=N] [--verify-only] file.kir|-
 *
 * Reads one graph or one kernel, verifies it, runs the named graph passes (verified after each) and
 * prints the result. A graph is brought to kernels where they or CUDA are asked for. Exit status 1,
 * with a message, for bad input; 2 for a bad command line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/cuda.h"
#include "ir/graph.h"
#include "ir/kernel.h"
#include "ir/program.h"
#include "ir/support/scan.h"
#include "ir/support/text.h"
#include "passes/pipeline.h"

typedef enum emit_kind { EMIT_INPUT, EMIT_GRAPH, EMIT_KERNEL, EMIT_CUDA } emit_kind;

typedef struct options {
  const char *passes; /* names with commas between; NULL: none */
  const char *file;
  emit_kind emit;
  int n_threads;
  bool verify_only;
} options;

static const char usage[] =
    "usage: kael-opt [--passes=a,b] [--emit=graph|kernel|cuda] [--threads=N] [--verify-only] "
    "file.kir|-\n";

/* ------------------------------------------------------------------ input */

static kl_status read_all(FILE *file, kl_text *out) {
  char block[65536];
  for (size_t n; (n = fread(block, 1, sizeof block, file)) > 0;) kl_text_bytes(out, block, n);
  if (ferror(file)) return kl_fail(KL_ERR_IO, "the file cannot be read");
  return kl_text_status(out);
}

static kl_status read_input(const char *path, kl_text *out) {
  if (strcmp(path, "-") == 0) return read_all(stdin, out);
  FILE *file = fopen(path, "rb");
  if (!file) return kl_fail(KL_ERR_IO, "the file cannot be opened");
  kl_status status = read_all(file, out);
  fclose(file);
  return status;
}

/* ------------------------------------------------------------------ output */

static kl_status emit_kernel(const options *o, const kl_kernel *kernel, kl_text *out) {
  return o->emit == EMIT_CUDA ? kl_cuda_emit(kernel, out) : kl_kernel_print(kernel, out);
}

/* Every kernel on its own is a text that kael-opt reads, or a CUDA unit. */
static kl_status emit_program(const options *o, const kl_program *program, kl_text *out) {
  for (uint32_t k = 0; k < program->kernels.count; k++) {
    kl_text_add(out, "// kernel %u of %u\n", k, program->kernels.count);
    KL_TRY(kl_kernel_verify(&program->kernels.data[k]));
    KL_TRY(emit_kernel(o, &program->kernels.data[k], out));
  }
  return kl_text_status(out);
}

static kl_status lower_and_emit(const options *o, kl_graph *graph, kl_text *out) {
  kl_program program = {0};
  const kl_pass_options pass_options = {.n_threads = o->n_threads, .verify = true};
  KL_TRY(kl_passes_run(graph, &pass_options, &program));
  kl_status status = emit_program(o, &program, out);
  kl_program_finish(&program);
  return status;
}

/* ------------------------------------------------------------------ passes */

static kl_status run_passes(const char *names, kl_graph *graph) {
  while (names && *names) {
    char name[64];
    size_t n = strcspn(names, ",");
    snprintf(name, sizeof name, "%.*s", (int)n, names);
    kl_graph_pass_fn *pass = kl_graph_pass_find(name);
    if (!pass) return kl_fail(KL_ERR_VALUE, "there is no pass '%s'", name);
    kl_status status = pass(graph);
    if (status == KL_OK) status = kl_graph_verify(graph);
    if (status != KL_OK) {
      char prefix[80];
      snprintf(prefix, sizeof prefix, "pass %s: ", name);
      kl_error_prefix(prefix);
      return status;
    }
    names += n + (names[n] == ',');
  }
  return KL_OK;
}

static kl_status process_graph(const options *o, const kl_text *in, kl_text *out) {
  kl_graph graph = {0};
  KL_TRY(kl_graph_parse(kl_text_string(in), in->nbytes, &graph));
  kl_status status = kl_graph_verify(&graph);
  if (status == KL_OK) status = run_passes(o->passes, &graph);
  if (status == KL_OK && !o->verify_only)
    status = o->emit == EMIT_KERNEL || o->emit == EMIT_CUDA ? lower_and_emit(o, &graph, out)
                                                            : kl_graph_print(&graph, out);
  kl_graph_finish(&graph);
  return status;
}

static kl_status process_kernel(const options *o, const kl_text *in, kl_text *out) {
  kl_kernel kernel = {0};
  if (o->passes) return kl_fail(KL_ERR_VALUE, "passes work on graphs, and this is a kernel");
  if (o->emit == EMIT_GRAPH) return kl_fail(KL_ERR_VALUE, "a kernel cannot become a graph");
  KL_TRY(kl_kernel_parse(kl_text_string(in), in->nbytes, &kernel));
  kl_status status = kl_kernel_verify(&kernel);
  if (status == KL_OK && !o->verify_only) status = emit_kernel(o, &kernel, out);
  kl_kernel_finish(&kernel);
  return status;
}

static kl_status process(const options *o, kl_text *in, kl_text *out) {
  kl_scan scan;
  KL_TRY(read_input(o->file, in));
  kl_scan_init(&scan, kl_text_string(in), in->nbytes);
  if (kl_scan_is(&scan, "graph")) return process_graph(o, in, out);
  if (kl_scan_is(&scan, "kernel")) return process_kernel(o, in, out);
  return kl_scan_fail(&scan, "'graph' or 'kernel'");
}

/* ------------------------------------------------------------------ command line */

/* The text after `--name=`, or NULL. */
static const char *value_of(const char *argument, const char *name) {
  size_t n = strlen(name);
  return strncmp(argument, name, n) == 0 && argument[n] == '=' ? argument + n + 1 : NULL;
}

static bool read_emit(const char *text, emit_kind *out_emit) {
  static const char *const names[] = {NULL, "graph", "kernel", "cuda"};
  for (int kind = EMIT_GRAPH; kind <= EMIT_CUDA; kind++) {
    if (strcmp(text, names[kind]) == 0) {
      *out_emit = (emit_kind)kind;
      return true;
    }
  }
  return false;
}

static bool read_options(int argc, char **argv, options *o) {
  for (int i = 1; i < argc; i++) {
    const char *value;
    if ((value = value_of(argv[i], "--passes"))) {
      o->passes = value;
    } else if ((value = value_of(argv[i], "--emit"))) {
      if (!read_emit(value, &o->emit)) return false;
    } else if ((value = value_of(argv[i], "--threads"))) {
      char *end;
      long n = strtol(value, &end, 10);
      if (*end || end == value || n < 1 || n > 4096) return false;
      o->n_threads = (int)n;
    } else if (strcmp(argv[i], "--verify-only") == 0) {
      o->verify_only = true;
    } else if (o->file || (argv[i][0] == '-' && argv[i][1])) {
      return false;
    } else {
      o->file = argv[i];
    }
  }
  return o->file != NULL;
}

int main(int argc, char **argv) {
  options o = {.n_threads = 1};
  if (!read_options(argc, argv, &o)) {
    fputs(usage, stderr);
    return 2;
  }
  kl_text in = {0}, out = {0};
  kl_status status = process(&o, &in, &out);
  if (status == KL_OK)
    fwrite(kl_text_string(&out), 1, out.nbytes, stdout);
  else
    fprintf(stderr, "kael-opt: %s:%s%s\n", o.file,
            strchr("0123456789", *kl_error_message()) ? "" : " ", kl_error_message());
  if (status == KL_OK && fflush(stdout) != 0) status = KL_ERR_IO;
  kl_text_finish(&in);
  kl_text_finish(&out);
  return status == KL_OK ? 0 : 1;
}
