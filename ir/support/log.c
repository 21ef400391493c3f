/* Formats a message and hands it to the callback or to stderr. */
#include "ir/support/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "ir/support/fork.h"
#include "ir/support/memory.h"
#include "ir/support/options.h"

enum { SHORT_MESSAGE = 1024 };

static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
static kl_log_fn sink_callback;
static void *sink_user;

__attribute__((constructor)) static void keep_lock(void) {
  kl_fork_keep(KL_LOCK_LOG, &sink_lock, NULL);
}

static kl_log_fn current_sink(void **out_user) {
  pthread_mutex_lock(&sink_lock);
  kl_log_fn callback = sink_callback;
  *out_user = sink_user;
  pthread_mutex_unlock(&sink_lock);
  return callback;
}

void kl_log_set_callback(kl_log_fn callback, void *user) {
  pthread_mutex_lock(&sink_lock);
  sink_callback = callback;
  sink_user = user;
  pthread_mutex_unlock(&sink_lock);
}

/* Who set KAEL_DEBUG or KAEL_DUMP wants to see what they give. */
static bool to_stderr(const kl_options *options) { return options->debug_is_set || options->dump; }

bool kl_log_enabled(int level) {
  const kl_options *options = kl_options_get();
  if (level > options->debug) return false;
  if (to_stderr(options)) return true;
  void *user;
  return current_sink(&user) != NULL;
}

static void deliver(int level, const char *message) {
  void *user;
  kl_log_fn callback = current_sink(&user);
  if (callback) {
    callback(level, message, user);
  } else if (to_stderr(kl_options_get())) {
    fprintf(stderr, "kael: %s\n", message);
  }
}

void kl_log_message(int level, const char *format, ...) {
  if (!kl_log_enabled(level)) return;
  char brief[SHORT_MESSAGE];
  va_list args;
  va_start(args, format);
  int length = vsnprintf(brief, sizeof brief, format, args);
  va_end(args);
  if (length < 0) return;
  char *whole = length < SHORT_MESSAGE ? NULL : kl_malloc((size_t)length + 1);
  if (whole) {
    va_start(args, format);
    vsnprintf(whole, (size_t)length + 1, format, args);
    va_end(args);
  }
  deliver(level, whole ? whole : brief); /* without memory the message is cut, not lost */
  kl_free(whole);
}
