// Choosing without weights: the sites of the smallest random words.
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

// Draws a word for every site and lists, in order, the sites with words up to a bound.
WIDE inline size_t words_up_to(Key key, uint32_t bound, size_t n, uint32_t* words, uint32_t* sites) {
  size_t count = 0;
  uint32_t bit[32];
  for (uint32_t j = 0; j < 32; ++j) bit[j] = 1u << j;
  for (size_t i = 0; i < n; i += kBlock) {
    block_of_words(key, static_cast<uint32_t>(i), words + i);
    for (size_t r = i; r < i + kBlock; r += 32) {
      uint32_t hits = 0;
      for (size_t j = 0; j < 32; ++j)
        hits |= (words[r + j] <= bound) & (r + j < n) ? bit[j] : 0u;
      count = append_set_bits(hits, static_cast<uint32_t>(r), sites, count);
    }
  }
  return count;
}

// The sites of the `length` smallest words: nearly all of them lie below a bound known beforehand.
inline void uniform(Key key, size_t n, int32_t asked, int32_t* sites, uint8_t* chosen) {
  Scratch& scratch = Scratch::here();
  const size_t length = clamp_length(asked, n), all = whole_blocks(n) + kBlock;
  for (auto* x : {&scratch.words, &scratch.site, &scratch.bucket}) room(*x, all);
  for (auto* x : {&scratch.unsorted, &scratch.sorted}) room(*x, all);
  room(scratch.start, 2 * all + 1);
  uint32_t *words = scratch.words.data(), *found = scratch.site.data();
  const auto least = static_cast<double>(length);
  const double fraction = (least + 4 * std::sqrt(least) + 4) / static_cast<double>(n);
  uint32_t bound = fraction < 0.9 ? static_cast<uint32_t>(fraction * 0x1p32) : ~0u;
  size_t count = words_up_to(key, bound, n, words, found);
  if (count < length) count = words_up_to(key, bound = ~0u, n, words, found);
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
