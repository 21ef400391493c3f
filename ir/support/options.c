/* The only reader of the environment: parses every option of the table once. */
#include "ir/support/options.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "ir/support/log.h"

enum { TEXT_CAPACITY = 4096 };

enum option_index {
#define X(kind, field, variable, fallback, doc) OPTION_##field,
  KL_OPTIONS(X)
#undef X
      OPTION_COUNT
};

typedef struct option_choice {
  enum option_index option;
  const char *word;
  int value;
} option_choice;

static const option_choice choices[] = {
    {OPTION_jit, "0", KL_JIT_OFF},
    {OPTION_jit, "1", KL_JIT_ON},
    {OPTION_jit, "sync", KL_JIT_SYNC},
    {OPTION_matmul, "kael", KL_MATMUL_KAEL},
    {OPTION_matmul, "openblas", KL_MATMUL_OPENBLAS},
    {OPTION_isa, "", 0},
    {OPTION_isa, "v2", 2},
    {OPTION_isa, "v3", 3},
    {OPTION_isa, "v4", 4},
};

static const int64_t count_max[OPTION_COUNT] = {
    [OPTION_debug] = 4,
    [OPTION_threads] = 1024,
    [OPTION_omp_threads] = 1024,
    [OPTION_flush_nodes] = INT64_C(1) << 40,
};

static kl_options options;
static pthread_once_t options_once = PTHREAD_ONCE_INIT;
static atomic_bool options_ready;

/* Complaints wait here until the options are complete, because logging asks for them. */
static bool option_is_bad[OPTION_COUNT];
static atomic_bool complaints_wait;

static bool parse_number(const char *text, bool with_suffix, int64_t max, int64_t *out_value) {
  if (text[0] < '0' || text[0] > '9') return false;
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (errno != 0) return false;
  int shift = 0;
  if (with_suffix && *end != '\0') {
    const char *suffix = strchr("KMG", *end & ~0x20);
    if (!suffix || *suffix == '\0') return false;
    shift = 10 * (int)(suffix - "KMG" + 1);
    end++;
  }
  if (*end != '\0' || value > (max >> shift)) return false;
  *out_value = (int64_t)value << shift;
  return true;
}

static bool parse_choice(enum option_index option, const char *text, int *out_value) {
  for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
    if (choices[i].option == option && strcmp(choices[i].word, text) == 0) {
      *out_value = choices[i].value;
      return true;
    }
  }
  return false;
}

static bool parse_text(enum option_index option, const char *text, const char **out_value) {
  /* Copied, since setenv may later free the environment's string. */
  static char copies[OPTION_COUNT][TEXT_CAPACITY];
  size_t length = strlen(text);
  if (length >= TEXT_CAPACITY) return false;
  memcpy(copies[option], text, length + 1);
  *out_value = length ? copies[option] : NULL;
  return true;
}

#define PARSE_CHOICE(option, text, out) parse_choice(option, text, out)
#define PARSE_COUNT(option, text, out) parse_number(text, false, count_max[option], out)
#define PARSE_BYTES(option, text, out) parse_number(text, true, INT64_MAX, out)
#define PARSE_TEXT(option, text, out) parse_text(option, text, out)

static const char *environment(const char *variable, bool ignore_it) {
  return ignore_it ? NULL : getenv(variable);
}

/* OMP_NUM_THREADS may be a list, one number a nesting level; only the first concerns us. */
static const char *first_of_list(const char *text, char *room, size_t capacity) {
  if (!text) return NULL;
  size_t length = strcspn(text, ",");
  if (length >= capacity) return text;
  memcpy(room, text, length);
  room[length] = '\0';
  return room;
}

static void read_options(void) {
  bool secure = getauxval(AT_SECURE) != 0;
  char room[32];
#define X(kind, field, variable, fallback, doc)                                                    \
  {                                                                                                \
    const char *standard = fallback;                                                               \
    if (standard) (void)PARSE_##kind(OPTION_##field, standard, &options.field);                    \
    const char *text = environment(variable, secure);                                              \
    if (OPTION_##field == OPTION_omp_threads) text = first_of_list(text, room, sizeof room);       \
    if (text && !PARSE_##kind(OPTION_##field, text, &options.field))                               \
      option_is_bad[OPTION_##field] = true;                                                        \
  }
  KL_OPTIONS(X)
#undef X
  options.debug_is_set = environment("KAEL_DEBUG", secure) != NULL;
  atomic_store(&complaints_wait, true);
  atomic_store_explicit(&options_ready, true, memory_order_release);
}

static void log_complaints(void) {
  for (size_t i = 0; i < OPTION_COUNT; i++) {
    if (!option_is_bad[i]) continue;
    const kl_option_doc *row = kl_option_doc_at(i);
    kl_log_message(0, "%s has a value that cannot be used; it keeps its default '%s' (%s)",
                   row->variable, row->fallback ? row->fallback : "", row->doc);
  }
}

const kl_options *kl_options_get(void) {
  if (!atomic_load_explicit(&options_ready, memory_order_acquire)) {
    pthread_once(&options_once, read_options);
    if (atomic_exchange(&complaints_wait, false)) log_complaints();
  }
  return &options;
}

const kl_option_doc *kl_option_doc_at(size_t index) {
  static const kl_option_doc rows[OPTION_COUNT] = {
#define X(kind, field, variable, fallback, doc) {variable, fallback, doc},
      KL_OPTIONS(X)
#undef X
  };
  return index < OPTION_COUNT ? &rows[index] : NULL;
}
