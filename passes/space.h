/* Affine index maps: how the coordinates of a node follow from those of a loop nest.
 *
 * A map gives each of `n_out` coordinates as origin[j] + sum over dims d of step[j][d] * i[d], the
 * i[d] being the coordinates of a space. Composing maps is how views disappear: a read at a linear
 * address becomes coordinates of the producer (kl_map_from_address), and these the addresses of
 * the producer's own operands (kl_map_address).
 */
#ifndef KL_PASSES_SPACE_H
#define KL_PASSES_SPACE_H

#include "ir/graph.h"

typedef struct kl_space {
  int n_dims;
  int64_t extent[KL_MAX_RANK];
} kl_space;

typedef struct kl_map {
  uint8_t n_out, n_dims;
  int64_t origin[KL_MAX_RANK];
  int64_t step[KL_MAX_RANK][KL_MAX_RANK];
} kl_map;

/* A linear address over a space: offset + sum stride[d] * i[d]. */
typedef struct kl_address {
  int64_t offset;
  int64_t stride[KL_MAX_RANK];
} kl_address;

/* Coordinates = the space's own. */
void kl_map_identity(const kl_space *space, kl_map *out_map);

/* The address of an operand (offset, strides over the map's outputs) over the map's space. */
kl_address kl_map_address(const kl_map *map, int64_t offset, const int64_t *strides);

/* The address in contiguous row-major memory of the first n outputs with these extents. */
kl_address kl_map_memory(const kl_map *map, const int64_t *extents, int n);

typedef enum kl_fit { KL_FIT_NO, KL_FIT_YES, KL_FIT_SPLIT } kl_fit;

/* Coordinates in contiguous row-major memory of shape extents[0..n) that an address walks through;
 * exact, or refused. KL_FIT_SPLIT: it would fit if dim *out_dim of the space were split so that its
 * inner part had extent *out_inner. */
kl_fit kl_map_from_address(const kl_space *space, const kl_address *address, const int64_t *extents,
                           int n, kl_map *out_map, int *out_dim, int64_t *out_inner);

/* Splits dim d of a space into (extent / inner, inner). False when the rank would be too high. */
bool kl_space_split(kl_space *space, int d, int64_t inner);
void kl_map_split(kl_map *map, int d, int64_t inner);
/* Dim order[i] of the old space becomes dim i. */
void kl_space_permute(kl_space *space, const int *order);
void kl_map_permute(kl_map *map, const int *order);

bool kl_map_equal(const kl_map *a, const kl_map *b);
int64_t kl_extent_product(const int64_t *extents, int n);

/* Whether the address meets each of `numel` elements exactly once as the dims [first, end) run
 * (and does not move with the other dims). */
bool kl_address_is_bijective(const kl_space *space, const kl_address *address, int first, int end,
                             int64_t numel);

#endif
