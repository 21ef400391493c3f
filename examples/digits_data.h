/* Reads the digits of examples/data: images and their labels, as plain arrays. */
#ifndef EXAMPLES_DIGITS_DATA_H
#define EXAMPLES_DIGITS_DATA_H

#include <stdint.h>

enum { DIGITS_PIXELS = 64, DIGITS_CLASSES = 10 };

typedef struct digits_data {
  int64_t n_images;
  float *pixels;   /* n_images rows of DIGITS_PIXELS, from 0 (white) to 1 (black) */
  int64_t *labels; /* n_images, from 0 to 9 */
} digits_data;

/* 0, or -1 after a message on stderr. */
int digits_data_read(const char *path, digits_data *out_data);
void digits_data_free(digits_data *data);

#endif
