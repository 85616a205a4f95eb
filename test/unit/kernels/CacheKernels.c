// Kernels of a toy model for EngineTest, written to the kernel ABI by hand. With e = embedding
// rows:
//   y[t]      = sum of (l + 1) * e[l] over the window, read from a ring cache's k lane
//             + sum of e[l] over all l <= p, read from a paged cache's v lane
//   logits[r] = head * y[logit_rows[r]]
// So every input of a step, both caches, scratch and a packed weight have a part in the result.
#include <stdint.h>

enum {
  hidden = 80,
  heads = 2,
  dim = 40,
  page = 16,
  window = 11,
  ringPages = 2,
  pagesPerRow = 7,
  vocab = 515
};

struct Sizes {
  int64_t tokens, sequences, longestRun, longestSeq, logitRows;
};
struct Args {
  const struct Sizes *sizes;
  void *const *arguments;
};

// (tokens, positions, ring_pages, pages, embed [V, H], ring k, ring v, paged k, paged v)
void toy_append(const struct Args *args, uint64_t begin, uint64_t end, void *scratch) {
  const int32_t *tokens = args->arguments[0], *positions = args->arguments[1];
  const int32_t *pages[2] = {args->arguments[2], args->arguments[3]};
  const double *embed = args->arguments[4];
  for (uint64_t t = begin; t < end; ++t)
    for (int cache = 0; cache < 2; ++cache)
      for (int h = 0; h < heads; ++h)
        for (int d = 0; d < dim; ++d) {
          double *k = args->arguments[5 + 2 * cache], *v = args->arguments[6 + 2 * cache];
          double value = embed[tokens[t] * hidden + h * dim + d];
          int64_t base = ((int64_t)pages[cache][t] * heads + h) * dim * page;
          k[base + d * page + positions[t] % page] = value;
          v[base + positions[t] % page * dim + d] = value;
        }
}

// (row_starts, seq_lens, slots, page_table, ring k, paged v, y)
void toy_attend(const struct Args *args, uint64_t begin, uint64_t end, void *scratch) {
  const int32_t *rowStarts = args->arguments[0], *seqLens = args->arguments[1];
  const int32_t *slots = args->arguments[2], *table = args->arguments[3];
  const double *ring = args->arguments[4], *paged = args->arguments[5];
  double *y = args->arguments[6], *sum = scratch;
  for (uint64_t t = begin; t < end; ++t) {
    int64_t b = 0;
    while (rowStarts[b + 1] <= (int64_t)t)
      ++b;
    int64_t p = seqLens[b] - (rowStarts[b + 1] - (int64_t)t);
    for (int i = 0; i < hidden; ++i)
      sum[i] = 0;
    for (int64_t l = 0; l <= p; ++l)
      for (int h = 0; h < heads; ++h)
        for (int d = 0; d < dim; ++d) {
          int64_t at = table[b * pagesPerRow + l / page];
          sum[h * dim + d] += paged[((at * heads + h) * page + l % page) * dim + d];
          at = slots[b] * ringPages + l / page % ringPages;
          if (l > p - window)
            sum[h * dim + d] +=
                (double)(l + 1) * ring[((at * heads + h) * dim + d) * page + l % page];
        }
    for (int i = 0; i < hidden; ++i)
      y[t * hidden + i] = sum[i];
  }
}

// (y, logit_rows, head [ceil(V/16)][H/2][16][2], logits)
void toy_logits(const struct Args *args, uint64_t begin, uint64_t end, void *scratch) {
  const double *y = args->arguments[0], *head = args->arguments[2];
  const int32_t *rows = args->arguments[1];
  double *logits = args->arguments[3];
  for (uint64_t r = begin; r < end; ++r)
    for (int v = 0; v < vocab; ++v) {
      double sum = 0;
      for (int k = 0; k < hidden; ++k)
        sum += y[rows[r] * hidden + k] *
               head[((v / 16 * (hidden / 2) + k / 2) * 16 + v % 16) * 2 + k % 2];
      logits[r * vocab + v] = sum;
    }
}
