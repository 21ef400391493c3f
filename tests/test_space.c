/* Affine index maps (passes/space.h): every map found is compared with walking the space. */
#include <string.h>

#include "passes/space.h"
#include "tests/support/runner.h"

#define SPACE(...)                                                                                 \
  {                                                                                                \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), { __VA_ARGS__ }                     \
  }
#define EXTENTS(...)                                                                               \
  (const int64_t[]){__VA_ARGS__}, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* The next point of the space in row-major order; false after the last. */
static bool next_point(const kl_space *space, int64_t *point) {
  for (int d = space->n_dims - 1; d >= 0; d--) {
    if (++point[d] < space->extent[d]) return true;
    point[d] = 0;
  }
  return false;
}

static int64_t address_at(const kl_space *space, const kl_address *address, const int64_t *point) {
  int64_t sum = address->offset;
  for (int d = 0; d < space->n_dims; d++) sum += address->stride[d] * point[d];
  return sum;
}

static int64_t coordinate_at(const kl_map *map, int j, const int64_t *point) {
  int64_t sum = map->origin[j];
  for (int d = 0; d < map->n_dims; d++) sum += map->step[j][d] * point[d];
  return sum;
}

/* At each point the map's coordinates are inside the extents and lie at the address. */
static void check_map(const kl_space *space, const kl_address *address, const int64_t *extents,
                      int n, const kl_map *map) {
  int64_t point[KL_MAX_RANK] = {0};
  ck_assert_int_eq(map->n_out, n);
  ck_assert_int_eq(map->n_dims, space->n_dims);
  do {
    int64_t linear = 0;
    for (int j = 0; j < n; j++) {
      int64_t coordinate = coordinate_at(map, j, point);
      ck_assert(coordinate >= 0 && coordinate < extents[j]);
      linear = linear * extents[j] + coordinate;
    }
    ck_assert_int_eq(linear, address_at(space, address, point));
  } while (next_point(space, point));
}

/* Places the address, splitting the space as told; returns the last answer and the splits made. */
static kl_fit place(kl_space *space, kl_address *address, const int64_t *extents, int n,
                    int *out_splits) {
  kl_map map;
  *out_splits = 0;
  for (;;) {
    int dim = -1;
    int64_t inner = 0;
    kl_fit fit = kl_map_from_address(space, address, extents, n, &map, &dim, &inner);
    if (fit == KL_FIT_YES) check_map(space, address, extents, n, &map);
    if (fit != KL_FIT_SPLIT) return fit;
    ck_assert(space->extent[dim] % inner == 0 && inner > 1 && inner < space->extent[dim]);
    ck_assert(kl_space_split(space, dim, inner));
    for (int d = space->n_dims - 1; d > dim; d--) address->stride[d] = address->stride[d - 1];
    address->stride[dim] *= inner;
    ++*out_splits;
  }
}

typedef struct placing {
  kl_space space;
  kl_address address;
  int64_t extents[3];
  int n;
  kl_fit fit;
  int n_splits;
} placing;

static const placing placings[] = {
    /* contiguous, transposed, a row, a column, backwards, one element for all */
    {SPACE(4, 6), {0, {6, 1}}, {4, 6}, 2, KL_FIT_YES, 0},
    {SPACE(6, 4), {0, {1, 6}}, {4, 6}, 2, KL_FIT_YES, 0},
    {SPACE(6), {12, {1}}, {4, 6}, 2, KL_FIT_YES, 0},
    {SPACE(4), {5, {6}}, {4, 6}, 2, KL_FIT_YES, 0},
    {SPACE(6), {5, {-1}}, {1, 6}, 2, KL_FIT_YES, 0},
    {SPACE(3, 5), {7, {0, 0}}, {4, 6}, 2, KL_FIT_YES, 0},
    /* a diagonal goes down in both coordinates; every second column */
    {SPACE(4), {0, {7}}, {4, 6}, 2, KL_FIT_YES, 0},
    {SPACE(4, 3), {1, {6, 2}}, {4, 6}, 2, KL_FIT_YES, 0},
    /* a flat walk of a matrix splits, and so does that of a cube, twice */
    {SPACE(24), {0, {1}}, {4, 6}, 2, KL_FIT_SPLIT, 1},
    {SPACE(24), {0, {1}}, {2, 3, 4}, 3, KL_FIT_SPLIT, 2},
    {SPACE(3, 8), {0, {8, 1}}, {6, 4}, 2, KL_FIT_SPLIT, 1},
    /* a row across rows, starting in the middle, is no affine map; nor are rows of another length
     */
    {SPACE(6), {3, {1}}, {4, 6}, 2, KL_FIT_NO, 0},
    {SPACE(6, 4), {0, {4, 1}}, {4, 6}, 2, KL_FIT_NO, 0},
    /* memory of one element, of size 1 dims, and past the end */
    {SPACE(5), {0, {0}}, {0}, 0, KL_FIT_YES, 0},
    {SPACE(5), {0, {1}}, {0}, 0, KL_FIT_NO, 0},
    {SPACE(1, 5), {0, {99, 1}}, {5}, 1, KL_FIT_YES, 0},
    {SPACE(6), {0, {1}}, {5}, 1, KL_FIT_NO, 0},
    {SPACE(5), {3, {-1}}, {5}, 1, KL_FIT_NO, 0},
};

START_TEST(an_address_becomes_coordinates_exactly_or_is_refused) {
  const placing *p = &placings[_i];
  kl_space space = p->space;
  kl_address address = p->address;
  int n_splits;
  kl_fit fit = place(&space, &address, p->extents, p->n, &n_splits);
  ck_assert_int_eq(fit, p->fit == KL_FIT_NO ? KL_FIT_NO : KL_FIT_YES);
  if (fit == KL_FIT_YES) ck_assert_int_eq(n_splits, p->n_splits);
}
END_TEST

/* All addresses with small strides over a small space: whatever fits is right, and what walks
 * memory in order fits. */
START_TEST(no_small_address_is_placed_wrongly) {
  int n_yes = 0, n_no = 0;
  for (int64_t offset = 0; offset < 4; offset++)
    for (int64_t a = -1; a <= 12; a++)
      for (int64_t b = -1; b <= 12; b++) {
        kl_space space = SPACE(2, 6);
        kl_address address = {offset, {a, b}};
        int n_splits;
        kl_fit fit = place(&space, &address, EXTENTS(2, 3, 4), &n_splits);
        (fit == KL_FIT_YES ? &n_yes : &n_no)[0]++;
      }
  ck_assert_int_gt(n_yes, 40);
  ck_assert_int_gt(n_no, 40);
}
END_TEST

START_TEST(the_identity_is_a_spaces_own_coordinates) {
  kl_space space = SPACE(2, 3, 5);
  kl_map map;
  kl_map_identity(&space, &map);
  kl_address address = kl_map_memory(&map, space.extent, 3);
  ck_assert_int_eq(address.offset, 0);
  ck_assert_int_eq(address.stride[0], 15);
  ck_assert_int_eq(address.stride[1], 5);
  ck_assert_int_eq(address.stride[2], 1);
  check_map(&space, &address, space.extent, 3, &map);
}
END_TEST

START_TEST(maps_compose_by_addresses) {
  /* columns 1, 3, 5 of a (4, 6) matrix, transposed, read where its own operand is a (6) row */
  kl_space space = SPACE(3, 4);
  kl_address address = {1, {2, 6}};
  kl_map map;
  int dim;
  int64_t inner;
  ck_assert_int_eq(kl_map_from_address(&space, &address, EXTENTS(4, 6), &map, &dim, &inner),
                   KL_FIT_YES);
  kl_address row = kl_map_address(&map, 100, (const int64_t[]){0, 10});
  ck_assert_int_eq(row.offset, 110);
  ck_assert_int_eq(row.stride[0], 20);
  ck_assert_int_eq(row.stride[1], 0);
}
END_TEST

START_TEST(splits_and_permutations_change_no_coordinate) {
  kl_space space = SPACE(6, 4), split = space;
  kl_map map, moved;
  kl_map_identity(&space, &map);
  moved = map;
  ck_assert(kl_map_equal(&map, &moved));
  ck_assert(kl_space_split(&split, 0, 3));
  kl_map_split(&moved, 0, 3);
  ck_assert(!kl_map_equal(&map, &moved));
  const int order[] = {2, 0, 1};
  kl_space_permute(&split, order);
  kl_map_permute(&moved, order);
  ck_assert_int_eq(split.extent[0], 4);
  ck_assert_int_eq(split.extent[1], 2);
  ck_assert_int_eq(split.extent[2], 3);
  int64_t point[KL_MAX_RANK] = {0};
  do {
    ck_assert_int_eq(coordinate_at(&moved, 0, point), point[1] * 3 + point[2]);
    ck_assert_int_eq(coordinate_at(&moved, 1, point), point[0]);
  } while (next_point(&split, point));
}
END_TEST

START_TEST(a_space_of_full_rank_is_not_split) {
  kl_space space = {.n_dims = KL_MAX_RANK};
  for (int d = 0; d < KL_MAX_RANK; d++) space.extent[d] = 4;
  kl_space before = space;
  ck_assert(!kl_space_split(&space, 0, 2));
  ck_assert_mem_eq(&space, &before, sizeof space);
}
END_TEST

/* By counting how often each element is met. */
static bool meets_each_once(const kl_space *space, const kl_address *address, int first, int end,
                            int64_t numel) {
  int met[64] = {0};
  int64_t point[KL_MAX_RANK] = {0};
  do {
    bool inside = true; /* the walk of the other dims stands still */
    for (int d = 0; d < space->n_dims; d++) {
      if (d >= first && d < end) continue;
      if (space->extent[d] > 1 && address->stride[d] != 0) return false;
      if (point[d] != 0) inside = false;
    }
    int64_t at = address_at(space, address, point);
    if (at < 0 || at >= numel) return false;
    met[at] += inside;
  } while (next_point(space, point));
  for (int64_t i = 0; i < numel; i++)
    if (met[i] != 1) return false;
  return true;
}

START_TEST(bijective_means_that_each_element_is_met_once) {
  int n_yes = 0;
  kl_space space = SPACE(2, 3, 1, 2);
  for (int64_t a = 0; a <= 6; a++)
    for (int64_t b = 0; b <= 6; b++)
      for (int64_t c = 0; c <= 6; c++)
        for (int first = 0; first < 2; first++)
          for (int64_t offset = 0; offset < 2; offset++) {
            kl_address address = {offset, {a, b, 5, c}};
            int64_t numel = first == 0 ? 12 : 6;
            bool expected = meets_each_once(&space, &address, first, 4, numel);
            ck_assert_int_eq(kl_address_is_bijective(&space, &address, first, 4, numel), expected);
            n_yes += expected;
          }
  ck_assert_int_eq(n_yes, 6 + 2); /* the orders of three dims, and of two */
}
END_TEST

START_TEST(of_nothing_the_product_is_one) {
  ck_assert_int_eq(kl_extent_product(NULL, 0), 1);
  ck_assert_int_eq(kl_extent_product(EXTENTS(2, 3, 4)), 24);
  ck_assert_int_eq(kl_extent_product(EXTENTS(2, 0, 4)), 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("space");
  TCase *tests = tcase_create("space");
  tcase_add_loop_test(tests, an_address_becomes_coordinates_exactly_or_is_refused, 0,
                      sizeof placings / sizeof *placings);
  tcase_add_test(tests, no_small_address_is_placed_wrongly);
  tcase_add_test(tests, the_identity_is_a_spaces_own_coordinates);
  tcase_add_test(tests, maps_compose_by_addresses);
  tcase_add_test(tests, splits_and_permutations_change_no_coordinate);
  tcase_add_test(tests, a_space_of_full_rank_is_not_split);
  tcase_add_test(tests, bijective_means_that_each_element_is_met_once);
  tcase_add_test(tests, of_nothing_the_product_is_one);
  suite_add_tcase(suite, tests);
  return kl_test_run(suite);
}
