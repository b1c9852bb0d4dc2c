// Drawing a random word for every site, and sorting the few sites that matter.
#pragma once

#include "scratch.h"

namespace hopscale {

// Keys hold what to sort by in the high half and the site in the low one, which settles ties.
INLINE uint64_t sort_key(uint32_t by, uint32_t site) { return uint64_t{by} << 32 | site; }

INLINE size_t bucket_count(size_t keys) {
  size_t buckets = 64;
  while (buckets < keys) buckets *= 2;
  return buckets;
}

// scratch.unsorted[0, count) into scratch.sorted, by way of scratch.bucket, which should grow with
// the key and spread the keys about evenly. That makes it quick; the order is that of the keys.
inline void sort_keys(Scratch& scratch, size_t count, size_t buckets) {
  uint32_t* start = scratch.start.data();
  std::fill(start, start + buckets + 1, 0);
  for (size_t c = 0; c < count; ++c) ++start[scratch.bucket[c] + 1];
  uint32_t fullest = 0;
  for (size_t b = 1; b <= buckets; ++b) {
    fullest = std::max(fullest, start[b]);
    start[b] += start[b - 1];
  }
  uint64_t* keys = scratch.sorted.data();
  for (size_t c = 0; c < count; ++c) keys[start[scratch.bucket[c]]++] = scratch.unsorted[c];
  if (fullest > 32) return std::sort(keys, keys + count);
  for (size_t c = 1; c < count; ++c) {
    const uint64_t key = keys[c];
    size_t to = c;
    for (; to > 0 && keys[to - 1] > key; --to) keys[to] = keys[to - 1];
    keys[to] = key;
  }
}

// The choice is the first `length` of the sorted keys.
inline void write_choice(const uint64_t* keys, size_t n, size_t length, int32_t* sites,
                         uint8_t* chosen) {
  std::memset(chosen, 0, n);
  for (size_t r = 0; r < length; ++r) {
    sites[r] = static_cast<int32_t>(keys[r] & 0xFFFFFFFFu);
    chosen[sites[r]] = 1;
  }
  std::fill(sites + length, sites + n, 0);
}

// Appends `first` + k for every bit k of `bits` and returns the new count. Six at a time whether
// or not there are as many: what is too much is overwritten, and the processor need not guess.
INLINE size_t append_set_bits(uint32_t bits, uint32_t first, uint32_t* out, size_t count) {
  const size_t end = count + static_cast<size_t>(__builtin_popcount(bits));
  do {
#pragma GCC unroll 6
    for (int k = 0; k < 6; ++k) {
      out[count++] = first + static_cast<uint32_t>(__builtin_ctz(bits | 1u << 31));
      bits &= bits - 1;
    }
  } while (bits);
  return end;
}

// Draws a word for every site and lists, in order, the sites whose word passes the test.
template <typename Test>
INLINE size_t draw(Key key, size_t n, Scratch& scratch, Test passes) {
  size_t count = 0;
  uint32_t bit[32];
  for (uint32_t j = 0; j < 32; ++j) bit[j] = 1u << j;
  for (size_t i = 0; i < n; i += kBlock) {
    uint32_t* words = scratch.words.data() + i;
    const auto first = static_cast<uint32_t>(i);
#pragma GCC ivdep
    for (uint32_t j = 0; j < kBlock / 4; ++j)
      random_words<4>(key, first + j, kBlock / 4, words + j);
    for (uint32_t r = 0; r < kBlock; r += 32) {
      uint32_t hits = 0;
      for (size_t j = 0; j < 32; ++j) hits |= passes(i + r + j, words[r + j]) ? bit[j] : 0u;
      count = append_set_bits(hits, first + r, scratch.site.data(), count);
    }
  }
  return count;
}

}  // namespace hopscale
