/* Random programs in two modes, side by side. See program_check.h. */
#include "tests/random/program_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/random/isolate.h"
#include "tests/random/program_make.h"
#include "tests/random/program_model.h"

typedef struct job {
  uint64_t seed;
  long count;
  kael_jit_mode mode;
  program_check_totals *totals; /* shared with the child */
  tape *t; /* where new programs come from; NULL: the program of the totals runs again */
  bool explain;
} job;

/* ------------------------------------------------------------------ coverage */

static int layout_of(kael_tensor *t) {
  int64_t expected = 1;
  bool dense = true, descends = true;
  if (kael_numel(t) == 0) return 4;
  for (int d = kael_ndim(t) - 1; d >= 0; d--) {
    if (kael_size(t, d) == 1) continue;
    if (kael_stride(t, d) == 0) return 3;
    dense &= kael_stride(t, d) == expected;
    for (int e = d + 1; e < kael_ndim(t); e++)
      descends &= kael_size(t, e) == 1 || kael_stride(t, e) <= kael_stride(t, d);
    expected *= kael_size(t, d);
  }
  return dense ? 0 : descends ? 2 : 1;
}

static int alias_of(const machine *m, int r) {
  int alias = 0;
  for (int q = 0; q < PROGRAM_REGISTERS; q++) {
    if (q == r || !m->t[q]) continue;
    if (kael_is_same(m->t[q], m->t[r])) return 2;
    if (kael_shares_storage(m->t[q], m->t[r])) alias = 1;
  }
  return alias;
}

static void count_statement(job *j, const machine *m, const statement *s) {
  if (m->t[s->a]) j->totals->covered[s->kind][layout_of(m->t[s->a])][alias_of(m, s->a)]++;
  j->totals->statements++;
}

/* ------------------------------------------------------------------ one program */

static void print_statement(const statement *s) {
  kl_text line = {0};
  statement_print(s, &line);
  printf("%s\n", kl_text_string(&line));
  fflush(stdout);
  kl_text_finish(&line);
}

/* One statement with the model beside it. False: the model disagrees. */
static bool run_beside(job *j, machine *m, program_model *model, const statement *s,
                       kl_text *trace) {
  count_statement(j, m, s);
  if (j->explain) print_statement(s);
  model_before(model, m, s);
  kael_status status = machine_run(m, s, trace);
  j->totals->failures += status != KAEL_OK;
  return model_after(model, m, s, status);
}

/* Runs the program eagerly, or makes it on the way. */
static bool run_eagerly(job *j, kl_text *trace) {
  machine m;
  program *p = &j->totals->program;
  program_model *model = model_create();
  bool agrees = true;
  machine_start(&m, KAEL_JIT_EAGER);
  if (j->t) p->n = 0;
  for (int i = 0; agrees && (j->t ? program_goes_on(j->t, i) : i < p->n); i++) {
    if (j->t) p->statements[p->n++] = program_next(j->t, &m);
    agrees = run_beside(j, &m, model, &p->statements[i], trace);
  }
  if (!agrees && j->explain) printf("the model disagrees: %s\n", model_fault(model));
  if (agrees) machine_describe(&m, trace);
  j->totals->model_values += model_values(model);
  model_destroy(model);
  machine_finish(&m);
  return agrees;
}

static void run_again(job *j, kl_text *trace) {
  machine m;
  const program *p = &j->totals->program;
  if (j->explain) printf("and in the other mode:\n"), fflush(stdout);
  machine_start(&m, j->mode);
  for (int i = 0; i < p->n; i++) machine_run(&m, &p->statements[i], trace);
  machine_describe(&m, trace);
  machine_finish(&m);
}

/* The first line in which the traces differ. */
static void print_difference(const char *a, const char *b) {
  int line = 1;
  const char *line_a = a, *line_b = b;
  for (; *a && *a == *b; a++, b++)
    if (*a == '\n') line_a = a + 1, line_b = b + 1, line++;
  printf("line %d of what can be seen differs:\n eager: %.*s\n other: %.*s\n", line,
         (int)strcspn(line_a, "\n"), line_a, (int)strcspn(line_b, "\n"), line_b);
}

static bool check_program(job *j) {
  kl_text eager = {0}, other = {0};
  bool same = run_eagerly(j, &eager);
  if (same) {
    run_again(j, &other);
    same = strcmp(kl_text_string(&eager), kl_text_string(&other)) == 0;
    if (!same && j->explain) print_difference(kl_text_string(&eager), kl_text_string(&other));
  }
  j->totals->programs++;
  kl_text_finish(&eager);
  kl_text_finish(&other);
  return same;
}

/* ------------------------------------------------------------------ many programs */

static bool check_one(void *user) { return check_program(user); }

static bool check_many(void *user) {
  job *j = user;
  bool same = true;
  tape t = {0};
  j->t = &t;
  for (long i = 0; i < j->count && same; i++) {
    j->totals->seed = j->seed + (uint64_t)i;
    tape_start(&t, j->totals->seed);
    same = check_program(j);
  }
  tape_finish(&t);
  return same;
}

/* Statements are concrete and may fail, so that any of them can be left out. */
static bool fails_without(job *j, int first, int n) {
  program *p = &j->totals->program, whole = *p;
  memmove(p->statements + first, p->statements + first + n,
          sizeof *p->statements * (size_t)(p->n - first - n));
  p->n -= n;
  if (!isolate(check_one, j, ISOLATE_QUIET)) return true;
  *p = whole;
  return false;
}

static void shrink(job *j) {
  program *p = &j->totals->program;
  for (bool progress = true; progress;) {
    progress = false;
    for (int n = p->n / 2; n >= 1; n /= 2)
      for (int first = p->n - n; first >= 0; first--)
        if (first + n <= p->n && fails_without(j, first, n)) progress = true;
  }
}

static void explain(job *j) {
  kl_text text = {0};
  shrink(j);
  printf("seed %llu differs; what is left of its program:\n", (unsigned long long)j->totals->seed);
  j->explain = true;
  isolate(check_one, j, ISOLATE_LOUD);
  program_print(&j->totals->program, j->mode, &text);
  printf("\n%s", kl_text_string(&text));
  kl_text_finish(&text);
}

bool program_check_range(uint64_t first, long count, kael_jit_mode mode,
                         program_check_totals *totals) {
  program_check_totals *shared = isolate_share(sizeof *shared);
  *shared = *totals;
  job j = {.seed = first, .count = count, .mode = mode, .totals = shared};
  bool same = isolate(check_many, &j, ISOLATE_QUIET);
  *totals = *shared;
  j.t = NULL;
  if (!same) explain(&j);
  isolate_unshare(shared, sizeof *shared);
  return same;
}

void program_check_print(const program_check_totals *totals, bool coverage) {
  static const char *const layouts[] = {"contiguous", "permuted", "gapped", "broadcast", "empty"};
  static const char *const aliases[] = {"", "+shared", "+same"};
  long n_cells = 0;
  for (int k = 0; k < S_KIND_COUNT; k++) {
    statement s = {.kind = (uint8_t)k};
    long total = 0;
    for (int l = 0; l < PROGRAM_LAYOUTS * PROGRAM_ALIASES; l++) {
      long n = totals->covered[k][l / PROGRAM_ALIASES][l % PROGRAM_ALIASES];
      n_cells += n > 0;
      if (n && coverage && total == 0)
        printf("  %-16s",
               k >= S_UNARY && k <= S_SCALAR_INPLACE ? "elementwise" : statement_name(&s));
      total += n;
      if (n && coverage)
        printf(" %s%s:%ld", layouts[l / PROGRAM_ALIASES], aliases[l % PROGRAM_ALIASES], n);
    }
    if (coverage && total) printf("\n");
  }
  printf(
      "%ld programs of %ld statements (%ld of them failed), %ld values by the model, %ld cells "
      "(statement, layout, alias); no difference\n",
      totals->programs, totals->statements, totals->failures, totals->model_values, n_cells);
}
