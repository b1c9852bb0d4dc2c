// Cumulative weights, from which sites are drawn by weight.
//
// The sites of a chain are laid out in rows of `columns_of(n)`, so that site i is in column i mod
// that number. A draw takes two random words: the first chooses a column, the second a row of it.
// Column sums run down at most 16 rows in single precision. Over the columns, sums are whole
// numbers, parts of about 2^31, which do not depend on the order of addition. `reference.py` and
// the kernels for GPUs do the same and therefore draw the same sites, except where a level and a
// sum tie within rounding.
#pragma once

#include "weights.h"

namespace hopscale {

constexpr size_t kRows = 16;                    // at most
constexpr size_t kPiece = 2048;                 // columns summed at a time, a task of their own
constexpr float kParts = 0x1p31f - 0x1p19f;     // the total weight: under 2^31 despite rounding

INLINE size_t columns_of(size_t n) {
  size_t columns = 128;
  while (columns * kRows < n) columns *= 2;
  return columns;
}

// Rows lie slightly further apart than they are long, so that a column's sums do not compete for a
// few lines of cache.
struct Table {
  const float* upto;     // summed down each column
  const int32_t* edges;  // whole sums over the columns
  size_t columns, rows, stride;
};

// Sums down columns [begin, end). Sites that are `taken`, if that is given, weigh nothing.
template <Balance balance, bool some_taken>
INLINE void sum_down(const Scale& given, const float* s, const uint8_t* taken, size_t n,
                     size_t columns, size_t begin, size_t end, float* upto) {
  const Scale scale = given;  // a copy, which no store can change
  const size_t rows = (n + columns - 1) / columns, stride = columns + 16;
  for (size_t r = 0; r < rows; ++r) {
    const float* row = s + r * columns;
    const uint8_t* row_taken = some_taken ? taken + r * columns : nullptr;
    float* sums = upto + r * stride;
    const float* before = r == 0 ? nullptr : sums - stride;
    const size_t real = std::clamp(n - r * columns, begin, end);
#pragma GCC ivdep
    for (size_t c = begin; c < real; ++c) {
      float w = weight<balance>(row[c], scale);
      if (some_taken) w = row_taken[c] ? 0.0f : w;
      sums[c] = r == 0 ? w : before[c] + w;
    }
    for (size_t c = real; c < end; ++c) sums[c] = r == 0 ? 0.0f : before[c];
  }
}

WIDE inline void sum_down_all(const Scale& scale, const float* s, size_t n, size_t columns,
                              size_t begin, size_t end, float* upto) {
  HOPSCALE_BY_BALANCE(scale.balance, return (sum_down<balance, false>(scale, s, nullptr, n, columns,
                                                                      begin, end, upto)))
}

WIDE inline void sum_down_left(const Scale& scale, const float* s, const uint8_t* taken, size_t n,
                               size_t columns, size_t begin, size_t end, float* upto) {
  HOPSCALE_BY_BALANCE(scale.balance, return (sum_down<balance, true>(scale, s, taken, n, columns,
                                                                     begin, end, upto)))
}

WIDE inline double sum_of(const float* x, size_t count) {
  double total = 0;
#pragma omp simd reduction(+ : total)
  for (size_t i = 0; i < count; ++i) total += static_cast<double>(x[i]);
  return total;
}

WIDE inline void whole_parts(const float* x, size_t count, float factor, int32_t* parts) {
  for (size_t i = 0; i < count; ++i) parts[i] = static_cast<int32_t>(x[i] * factor);
}

// The sum of the weights at this scale, of all sites or of those not taken; and their table.
inline double tabulate(const Scale& scale, const float* s, const uint8_t* taken, size_t n,
                       const Team& team, Scratch& scratch, Table& table) {
  const size_t columns = columns_of(n), stride = columns + 16, rows = (n + columns - 1) / columns;
  float* upto = room(scratch.upto, rows * stride);
  team.share((columns + kPiece - 1) / kPiece, n, [=, &scale](size_t piece) {
    const size_t begin = piece * kPiece, end = std::min(columns, begin + kPiece);
    if (taken == nullptr)
      sum_down_all(scale, s, n, columns, begin, end, upto);
    else
      sum_down_left(scale, s, taken, n, columns, begin, end, upto);
  });
  const float* sums = upto + (rows - 1) * stride;
  const double total = sum_of(sums, columns);
  int32_t* edges = room(scratch.edges, columns);
  if (total >= kPlenty && total < kInfinity) {  // else the scale does not suit: see `scaled`
    whole_parts(sums, columns, kParts / static_cast<float>(total), edges);
    for (size_t c = 1; c < columns; ++c) edges[c] += edges[c - 1];
  }
  table = {upto, edges, columns, rows, stride};
  return total;
}

// The sites of the draws [first, first + count) of this key, by binary search: the column first,
// then the row. Several searches run abreast, without branches, so that none waits for another's
// memory.
WIDE inline void draw_sites(const Table& given, Key key, uint32_t first, size_t count,
                            int32_t* sites) {
  constexpr uint32_t abreast = kBlock / 2;
  const Table table = given;
  const auto columns = static_cast<uint32_t>(table.columns);
  const auto rows = static_cast<uint32_t>(table.rows), stride = static_cast<uint32_t>(table.stride);
  const int32_t* edges = table.edges;
  const float* upto = table.upto;
  const auto top = static_cast<uint64_t>(edges[columns - 1]);
  uint32_t words[kBlock], place[abreast], row[abreast];
  int32_t level[abreast];
  float goal[abreast];
  for (size_t i = 0; i < count; i += abreast) {
    block_of_words(key, 2 * (first + static_cast<uint32_t>(i)), words);
    const auto some = static_cast<uint32_t>(std::min<size_t>(abreast, count - i));
    const uint32_t lanes = (some + 15) / 16 * 16;
    for (uint32_t j = 0; j < lanes; ++j) {
      level[j] = static_cast<int32_t>(words[2 * j] * top >> 32);
      place[j] = 0;
    }
    for (uint32_t half = columns / 2; half > 0; half /= 2)
      for (uint32_t j = 0; j < lanes; ++j)
        place[j] += edges[place[j] + half - 1] <= level[j] ? half : 0;
    for (uint32_t j = 0; j < lanes; ++j) {
      goal[j] = uniform_number(words[2 * j + 1]) * upto[(rows - 1) * stride + place[j]];
      row[j] = 0;
    }
    for (uint32_t left = rows; left > 1;) {
      const uint32_t half = left / 2;
      for (uint32_t j = 0; j < lanes; ++j)
        row[j] += upto[(row[j] + half - 1) * stride + place[j]] <= goal[j] ? half : 0;
      left -= half;
    }
    for (size_t j = 0; j < some; ++j)
      sites[i + j] = static_cast<int32_t>(row[j] * columns + place[j]);
  }
}

}  // namespace hopscale
