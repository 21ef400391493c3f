/* Affine index maps: composition by mixed-radix decomposition of linear addresses. */
#include "passes/space.h"

#include <string.h>

int64_t kl_extent_product(const int64_t *extents, int n) {
  int64_t product = 1;
  for (int i = 0; i < n; i++) product *= extents[i];
  return product;
}

void kl_map_identity(const kl_space *space, kl_map *out_map) {
  memset(out_map, 0, sizeof *out_map);
  out_map->n_out = out_map->n_dims = (uint8_t)space->n_dims;
  for (int d = 0; d < space->n_dims; d++) out_map->step[d][d] = 1;
}

kl_address kl_map_address(const kl_map *map, int64_t offset, const int64_t *strides) {
  kl_address address = {.offset = offset};
  for (int j = 0; j < map->n_out; j++) {
    if (strides[j] == 0) continue;
    address.offset += strides[j] * map->origin[j];
    for (int d = 0; d < map->n_dims; d++) address.stride[d] += strides[j] * map->step[j][d];
  }
  return address;
}

kl_address kl_map_memory(const kl_map *map, const int64_t *extents, int n) {
  int64_t strides[KL_MAX_RANK] = {0};
  int64_t stride = 1;
  for (int j = n - 1; j >= 0; j--) {
    strides[j] = stride;
    stride *= extents[j];
  }
  return kl_map_address(map, 0, strides);
}

/* Adds to each coordinate the part of `amount` (which may be negative) that its radix takes. */
static void decompose(int64_t amount, const int64_t *radix, int n, int64_t *out_parts) {
  for (int p = 0; p < n; p++) {
    out_parts[p] = amount / radix[p];
    amount %= radix[p];
  }
}

/* Looks for the dim whose walk along coordinate p carries into p - 1 and could be split there. */
static kl_fit find_split(const kl_space *space, const kl_map *map, int p, int64_t extent,
                         int *out_dim, int64_t *out_inner) {
  for (int d = 0; d < space->n_dims; d++) {
    int64_t step = map->step[p][d];
    if (step <= 0 || space->extent[d] <= 1 || extent % step != 0) continue;
    int64_t inner = extent / step;
    if (inner < 2 || inner >= space->extent[d] || space->extent[d] % inner != 0) continue;
    *out_dim = d;
    *out_inner = inner;
    return KL_FIT_SPLIT;
  }
  return KL_FIT_NO;
}

kl_fit kl_map_from_address(const kl_space *space, const kl_address *address, const int64_t *extents,
                           int n, kl_map *out_map, int *out_dim, int64_t *out_inner) {
  memset(out_map, 0, sizeof *out_map);
  out_map->n_out = (uint8_t)n;
  out_map->n_dims = (uint8_t)space->n_dims;
  if (n == 0) { /* one element: every dim must stay on it */
    for (int d = 0; d < space->n_dims; d++)
      if (space->extent[d] > 1 && address->stride[d] != 0) return KL_FIT_NO;
    return address->offset == 0 ? KL_FIT_YES : KL_FIT_NO;
  }
  int64_t radix[KL_MAX_RANK];
  radix[n - 1] = 1;
  for (int p = n - 1; p > 0; p--) radix[p - 1] = radix[p] * (extents[p] ? extents[p] : 1);

  int64_t parts[KL_MAX_RANK];
  decompose(address->offset, radix, n, out_map->origin);
  for (int d = 0; d < space->n_dims; d++) {
    if (space->extent[d] <= 1) continue;
    decompose(address->stride[d], radix, n, parts);
    for (int p = 0; p < n; p++) out_map->step[p][d] = parts[p];
  }
  for (int p = 0; p < n; p++) {
    int64_t low = out_map->origin[p], high = low;
    for (int d = 0; d < space->n_dims; d++) {
      int64_t reach = out_map->step[p][d] * (space->extent[d] - 1);
      *(reach < 0 ? &low : &high) += reach;
    }
    if (low < 0) return KL_FIT_NO;
    if (high >= extents[p])
      return p > 0 ? find_split(space, out_map, p, extents[p], out_dim, out_inner) : KL_FIT_NO;
  }
  return KL_FIT_YES;
}

bool kl_space_split(kl_space *space, int d, int64_t inner) {
  if (space->n_dims == KL_MAX_RANK) return false;
  for (int i = space->n_dims; i > d + 1; i--) space->extent[i] = space->extent[i - 1];
  space->extent[d + 1] = inner;
  space->extent[d] /= inner;
  space->n_dims++;
  return true;
}

void kl_map_split(kl_map *map, int d, int64_t inner) {
  for (int j = 0; j < map->n_out; j++) {
    for (int i = map->n_dims; i > d + 1; i--) map->step[j][i] = map->step[j][i - 1];
    map->step[j][d + 1] = map->step[j][d];
    map->step[j][d] *= inner;
  }
  map->n_dims++;
}

void kl_space_permute(kl_space *space, const int *order) {
  kl_space old = *space;
  for (int i = 0; i < old.n_dims; i++) space->extent[i] = old.extent[order[i]];
}

void kl_map_permute(kl_map *map, const int *order) {
  for (int j = 0; j < map->n_out; j++) {
    int64_t old[KL_MAX_RANK];
    memcpy(old, map->step[j], sizeof old);
    for (int i = 0; i < map->n_dims; i++) map->step[j][i] = old[order[i]];
  }
}

bool kl_map_equal(const kl_map *a, const kl_map *b) {
  if (a->n_out != b->n_out || a->n_dims != b->n_dims) return false;
  for (int j = 0; j < a->n_out; j++) {
    if (a->origin[j] != b->origin[j]) return false;
    if (memcmp(a->step[j], b->step[j], sizeof(int64_t) * a->n_dims) != 0) return false;
  }
  return true;
}

bool kl_address_is_bijective(const kl_space *space, const kl_address *address, int first, int end,
                             int64_t numel) {
  if (address->offset != 0) return false;
  int64_t reached = 1; /* elements [0, reached) are met exactly once by the dims used so far */
  bool used[KL_MAX_RANK] = {false};
  for (int d = 0; d < space->n_dims; d++)
    if ((d < first || d >= end) && space->extent[d] > 1 && address->stride[d] != 0) return false;
  for (;;) {
    int next = -1;
    for (int d = first; d < end; d++)
      if (!used[d] && space->extent[d] != 1 && address->stride[d] == reached) next = d;
    if (next < 0) break;
    used[next] = true;
    reached *= space->extent[next];
    if (reached == 0) return numel == 0;
  }
  for (int d = first; d < end; d++)
    if (!used[d] && space->extent[d] != 1) return false;
  return reached == numel;
}
