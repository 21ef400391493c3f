/* Reports: what each launch of a program is, in words. A report is made once, while the graph is
 * there, kept with the executable, and shown by kael_explain, KAEL_DEBUG=2 and tests. */
#ifndef KL_FRONTEND_REPORT_H
#define KL_FRONTEND_REPORT_H

#include "frontend/extract.h"
#include "ir/program.h"

struct kl_text;
typedef struct kl_report kl_report;

/* `graph` as the passes left it, `program` before its kernels are given away. One reference. */
kl_status kl_report_create(const kl_extraction *extraction, const kl_graph *graph,
                           const kl_program *program, kl_report **out_report) KL_MUST_CHECK;
kl_report *kl_report_retain(kl_report *report);
void kl_report_release(kl_report *report); /* NULL is fine */

/* Launches, in the order in which they run. */
int kl_report_count(const kl_report *report);
/* One launch, as "kernel f32 [32 | 10]: max sub exp sum log (log_softmax)": the index space, rows
 * before the bar where there are reductions, the primitives, and the public operations that
 * recorded them. Borrowed. */
const char *kl_report_line(const kl_report *report, int launch);
/* All of them, a line each, with the bytes that they read and write. */
void kl_report_print(const kl_report *report, struct kl_text *out);
/* Logs them at level 2, each with the time it took (in ns), GB/s and GFLOP/s. */
void kl_report_log(const kl_report *report, const int64_t *launch_ns);

/* The report of the last run, of whichever thread. Setting it takes a reference; the caller of the
 * other gets one, or NULL before the first run. */
void kl_report_set_last(kl_report *report);
kl_report *kl_report_last(void);

#endif
