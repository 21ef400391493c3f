/* Diagnostics. The library prints nothing by itself: a message goes to the callback where one is
 * set, else to stderr, and there only when KAEL_DEBUG or KAEL_DUMP is set.
 *
 * Level 0 is a warning; 1..4 are the levels of KAEL_DEBUG. Messages above it are dropped.
 */
#ifndef KL_IR_SUPPORT_LOG_H
#define KL_IR_SUPPORT_LOG_H

#include <stdbool.h>

/* `message` ends without a newline and is valid during the call, which any thread may make. */
typedef void (*kl_log_fn)(int level, const char *message, void *user);

void kl_log_message(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Whether a message of this level would reach anyone: ask before preparing a costly one. */
bool kl_log_enabled(int level);
/* NULL brings the default back. `user` is handed on and must outlive the callback. */
void kl_log_set_callback(kl_log_fn callback, void *user);

#endif
