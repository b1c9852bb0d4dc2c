// Choosing without weights.
#pragma once

#include "candidates.h"

namespace hopscale {

WIDE inline size_t words_up_to(Key key, uint32_t bound, size_t n, Scratch& scratch) {
  return draw(key, n, scratch, [=](size_t i, uint32_t word) __attribute__((always_inline)) {
    return (word <= bound) & (i < n);
  });
}

// The sites of the `length` smallest words: nearly all of them lie below a bound known beforehand.
inline void uniform(Key key, size_t n, int32_t asked, int32_t* sites, uint8_t* chosen) {
  Scratch& scratch = Scratch::here(n);
  const size_t length = clamp_length(asked, n);
  const auto least = static_cast<double>(length);
  const double fraction = (least + 4 * std::sqrt(least) + 4) / static_cast<double>(n);
  uint32_t bound = fraction < 0.9 ? static_cast<uint32_t>(fraction * 0x1p32) : ~0u;
  size_t count = words_up_to(key, bound, n, scratch);
  if (count < length) count = words_up_to(key, bound = ~0u, n, scratch);
  const size_t buckets = bucket_count(count);
  for (size_t c = 0; c < count; ++c) {
    const uint32_t word = scratch.words[scratch.site[c]];
    scratch.unsorted[c] = sort_key(word, scratch.site[c]);
    scratch.bucket[c] = static_cast<uint32_t>(word * uint64_t{buckets} / (uint64_t{bound} + 1));
  }
  sort_keys(scratch, count, buckets);
  write_choice(scratch.sorted.data(), n, length, sites, chosen);
}

}  // namespace hopscale
