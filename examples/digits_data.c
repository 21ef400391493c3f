/* The reader of digits.csv: one image a line, 64 pixels from 0 to 16, then the digit. */
#include "examples/digits_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_CAPACITY = 1024 };

/* One number and the separator after it; -1 where there is none, or it is above `most`. */
static long next_number(const char **text, long most) {
  char *end;
  long value = strtol(*text, &end, 10);
  if (end == *text || value < 0 || value > most) return -1;
  *text = *end == ',' ? end + 1 : end;
  return value;
}

static int read_line(const char *line, float *pixels, int64_t *label) {
  for (int i = 0; i < DIGITS_PIXELS; i++) {
    long value = next_number(&line, 16);
    if (value < 0) return -1;
    pixels[i] = (float)value / 16.0f;
  }
  *label = next_number(&line, DIGITS_CLASSES - 1);
  return *label < 0 ? -1 : 0;
}

static int make_room(digits_data *data, int64_t n_images) {
  float *pixels = realloc(data->pixels, sizeof *pixels * DIGITS_PIXELS * (size_t)n_images);
  if (!pixels) return -1;
  data->pixels = pixels;
  int64_t *labels = realloc(data->labels, sizeof *labels * (size_t)n_images);
  if (!labels) return -1;
  data->labels = labels;
  return 0;
}

int digits_data_read(const char *path, digits_data *out_data) {
  FILE *file = fopen(path, "r");
  if (!file) {
    perror(path);
    return -1;
  }
  digits_data data = {0};
  int64_t capacity = 0;
  char line[LINE_CAPACITY];
  int failed = 0;
  while (!failed && fgets(line, sizeof line, file)) {
    if (data.n_images == capacity) {
      capacity = capacity ? 2 * capacity : 1024;
      failed = make_room(&data, capacity);
    }
    if (!failed) {
      int64_t i = data.n_images++;
      failed = read_line(line, data.pixels + i * DIGITS_PIXELS, data.labels + i);
    }
  }
  fclose(file);
  if (failed || data.n_images == 0) {
    fprintf(stderr, "%s: line %lld is not an image\n", path, (long long)data.n_images);
    digits_data_free(&data);
    return -1;
  }
  *out_data = data;
  return 0;
}

void digits_data_free(digits_data *data) {
  free(data->pixels);
  free(data->labels);
  *data = (digits_data){0};
}
