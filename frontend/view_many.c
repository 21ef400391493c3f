/* Views that come several at a time: unbind, split, chunk. */
#include "frontend/ops.h"
#include "kael/view.h"

/* Views made so far of one call. */
typedef struct view_list {
  kael_tensor **views;
  int64_t count, capacity;
} view_list;

static kl_status list_init(view_list *list, int64_t capacity) {
  *list = (view_list){.capacity = capacity};
  bool fits = (uint64_t)capacity <= PTRDIFF_MAX / sizeof *list->views;
  list->views = fits ? kl_malloc(sizeof *list->views * (size_t)capacity) : NULL;
  if (list->views) return KL_OK;
  return kl_fail(KL_ERR_OUT_OF_MEMORY, "%s: out of memory: a list of %lld views", kl_thread.site,
                 (long long)capacity);
}

static void list_drop(view_list *list) {
  for (int64_t i = 0; i < list->count; i++) kl_tensor_release(list->views[i]);
  kl_free(list->views);
}

/* Tells autograd of all views and hands them out; drops them on failure. */
static kl_status list_finish(view_list *list, kl_status status, kl_fn fn, kael_tensor *self,
                             const kl_fn_attrs *attrs, kael_tensor **out_views) {
  if (!status) status = kl_autograd_track_view(fn, self, list->views, (int)list->count, attrs);
  if (status) {
    list_drop(list);
    return status;
  }
  /* A scope that has no memory for a handle releases it: the others then go too. */
  int64_t handed = 0;
  while (handed < list->count && kl_hand_out(KL_OK, list->views[handed])) handed++;
  if (handed < list->count) {
    for (int64_t i = handed + 1; i < list->count; i++) kl_tensor_release(list->views[i]);
    kl_free(list->views);
    return kl_error_code();
  }
  for (int64_t i = 0; i < list->count; i++) out_views[i] = list->views[i];
  kl_free(list->views);
  return KL_OK;
}

static kl_status unbind(kael_tensor *self, int64_t dim, kael_tensor **out_views) {
  kl_fn_attrs attrs = {0};
  kl_set_site("unbind");
  if (self->ndim == 0)
    return kl_fail(KL_ERR_INDEX, "unbind: Dimension specified as %lld but tensor has no dimensions",
                   (long long)dim);
  KL_TRY(kl_dim_check(dim, self->ndim, &attrs.dim));
  int64_t shape[KL_MAX_RANK], strides[KL_MAX_RANK];
  int ndim = 0;
  for (int d = 0; d < self->ndim; d++) {
    if (d == attrs.dim) continue;
    shape[ndim] = self->shape[d];
    strides[ndim++] = self->strides[d];
  }
  view_list list;
  KL_TRY(list_init(&list, self->shape[attrs.dim]));
  kl_status status = KL_OK;
  for (int64_t i = 0; i < list.capacity && !status; i++) {
    int64_t offset = self->offset + i * self->strides[attrs.dim];
    status = kl_tensor_view(self, ndim, shape, strides, offset, &list.views[i]);
    list.count += !status;
  }
  return list_finish(&list, status, KL_FN_UNBIND, self, &attrs, out_views);
}

/* Ranges of `size` positions (sizes NULL), or of the sizes given. */
static kl_status split(kael_tensor *self, int64_t n_ranges, int64_t size, const int64_t *sizes,
                       int dim, kael_tensor **out_views) {
  int64_t shape[KL_MAX_RANK], start = 0, left = self->shape[dim];
  for (int d = 0; d < self->ndim; d++) shape[d] = self->shape[d];
  view_list list;
  KL_TRY(list_init(&list, n_ranges));
  kl_status status = KL_OK;
  for (int64_t i = 0; i < n_ranges && !status; i++) {
    shape[dim] = sizes ? sizes[i] : size < left ? size : left;
    int64_t offset = self->offset + start * self->strides[dim];
    status = kl_tensor_view(self, self->ndim, shape, self->strides, offset, &list.views[i]);
    list.count += !status;
    start += shape[dim];
    left -= shape[dim];
  }
  kl_fn_attrs attrs = {.dim = dim};
  return list_finish(&list, status, KL_FN_SPLIT, self, &attrs, out_views);
}

static kl_status check_split(const char *name, kael_tensor *self, int64_t dim, int *out_dim) {
  kl_set_site(name);
  if (self->ndim == 0)
    return kl_fail(KL_ERR_RUNTIME, "%s: expects at least a 1-dimensional tensor", name);
  return kl_dim_check(dim, self->ndim, out_dim);
}

static kl_status split_sizes(kael_tensor *self, int n_sizes, const int64_t *sizes, int64_t dim,
                             kael_tensor **out_views) {
  int at = 0;
  KL_TRY(check_split("split_sizes", self, dim, &at));
  if (n_sizes < 0 || (n_sizes > 0 && !sizes))
    return kl_fail(KL_ERR_VALUE, "split_sizes: the list of sizes is NULL, or its length negative");
  int64_t left = self->shape[at];
  for (int i = 0; i < n_sizes; i++) {
    if (sizes[i] < 0)
      return kl_fail(KL_ERR_RUNTIME,
                     "split_with_sizes expects split_sizes have only non-negative entries");
    left = sizes[i] > left ? -1 : left - sizes[i];
    if (left < 0) break;
  }
  if (left != 0)
    return kl_fail(
        KL_ERR_RUNTIME,
        "split_with_sizes expects split_sizes to sum exactly to %lld (input tensor's size "
        "at dimension %d)",
        (long long)self->shape[at], at);
  return split(self, n_sizes, 0, sizes, at, out_views);
}

/* How many ranges of `size` cover `extent`; one where there is nothing. */
static int64_t count_ranges(int64_t extent, int64_t size) {
  return extent == 0 ? 1 : (extent - 1) / size + 1;
}

static kl_status split_evenly(kael_tensor *self, int64_t size, int64_t dim,
                              kael_tensor **out_views) {
  int at = 0;
  KL_TRY(check_split("split", self, dim, &at));
  if (size < 0 || (size == 0 && self->shape[at] != 0))
    return kl_fail(KL_ERR_RUNTIME,
                   "split: split expects split_size be non-negative, and 0 only for an empty dim, "
                   "but got split_size=%lld",
                   (long long)size);
  return split(self, count_ranges(self->shape[at], size), size, NULL, at, out_views);
}

static kl_status chunk(kael_tensor *self, int64_t n, int64_t dim, kael_tensor **out_views,
                       int64_t *out_count) {
  int at = 0;
  KL_TRY(check_split("chunk", self, dim, &at));
  if (n < 1)
    return kl_fail(KL_ERR_RUNTIME, "chunk expects `chunks` to be greater than 0, got: %lld",
                   (long long)n);
  int64_t extent = self->shape[at];
  int64_t size = extent == 0 ? 0 : (extent - 1) / n + 1;
  /* An empty dim gives as many empty ranges as were asked for, as PyTorch has it. */
  int64_t count = extent == 0 ? n : count_ranges(extent, size);
  KL_TRY(split(self, count, size, NULL, at, out_views));
  *out_count = count;
  return KL_OK;
}

static bool out_is_missing(const void *out) {
  if (!out) kl_fail(KL_ERR_VALUE, "the place for the results is NULL");
  return !out;
}

kael_status kael_unbind(kael_tensor *self, int64_t dim, kael_tensor **out_views) {
  if (KL_MISSING(self) || out_is_missing(out_views)) return kael_last_error().code;
  return (kael_status)unbind(self, dim, out_views);
}

kael_status kael_split_sizes(kael_tensor *self, int n_sizes, const int64_t *sizes, int64_t dim,
                             kael_tensor **out_views) {
  if (KL_MISSING(self) || out_is_missing(out_views)) return kael_last_error().code;
  return (kael_status)split_sizes(self, n_sizes, sizes, dim, out_views);
}

kael_status kael_split(kael_tensor *self, int64_t size, int64_t dim, kael_tensor **out_views) {
  if (KL_MISSING(self) || out_is_missing(out_views)) return kael_last_error().code;
  return (kael_status)split_evenly(self, size, dim, out_views);
}

kael_status kael_chunk(kael_tensor *self, int64_t n, int64_t dim, kael_tensor **out_views,
                       int64_t *out_count) {
  if (KL_MISSING(self) || out_is_missing(out_views) || out_is_missing(out_count))
    return kael_last_error().code;
  return (kael_status)chunk(self, n, dim, out_views, out_count);
}
