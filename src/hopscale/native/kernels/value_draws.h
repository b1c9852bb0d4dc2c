// Sites of several values: the values that chosen sites draw, and their probability.
#pragma once

#include "order.h"
#include "values.h"

namespace hopscale {

constexpr uint32_t kValues = 0x76616C75;  // folded into the key, plus the number of the block

// From the end of an order of sites: the weight of each site, and of the value it takes.
struct Along {
  size_t length;
  bool backwards;
  double *totals, *taken;
  bool fine = true;  // single precision represents all of them well

  Along(size_t count, bool is_backwards)
      : length(count),
        backwards(is_backwards),
        totals(room(Scratch::here().along, 2 * count)),
        taken(totals + count) {}

  // Puts those of sites [first, first + count) of the order.
  void put(size_t first, size_t count, const float* total, const float* weight) {
    const size_t begin = backwards ? first : length - first - count;
    int32_t all_fit = 1;
    for (size_t r = 0; r < count; ++r) {
      const size_t from = backwards ? r : count - 1 - r;
      totals[begin + r] = static_cast<double>(total[from]);
      taken[begin + r] = static_cast<double>(weight[from]);
      all_fit &= fits(total[r]) & (weight[r] > 0);
    }
    fine &= all_fit != 0;
  }
};

// Some sites of an order. The weights of their other values are stored value by value, so that
// those of different sites are side by side: the c-th other value of the r-th site is at
// w[c * kBlock + r].
struct Block {
  size_t others;
  float* w;
  int32_t sites[kBlock] = {}, here[kBlock] = {};
  float total[kBlock] = {}, taken[kBlock] = {};

  explicit Block(const Values& of)
      : others(of.values - 1), w(room(Scratch::here().values, kBlock * of.values)) {}

  INLINE void take(size_t r, int32_t value) {
    const auto c = static_cast<size_t>(value - (value > here[r]));
    taken[r] = value == here[r] ? 0.0f : w[c * kBlock + r];
  }
};

INLINE size_t vectors_of(size_t count) { return (count + 15) / 16 * 16; }

template <Balance balance, size_t constant>
INLINE void weigh_sites(const Values& given, const int32_t* sites, size_t count, Block& block) {
  const Values of = given;
  const size_t others = (constant == 0 ? of.values : constant) - 1, lanes = vectors_of(count);
  float *w = block.w, *total = block.total;
  for (size_t r = 0; r < count; ++r) {
    const int32_t site = std::clamp(sites[r], 0, static_cast<int32_t>(of.n) - 1);
    const float* row = of.s + static_cast<size_t>(site) * (others + 1);
    const auto here = static_cast<size_t>(of.here[site]);
    block.sites[r] = site;
    block.here[r] = of.here[site];
    for (size_t c = 0; c < others; ++c) w[c * kBlock + r] = row[c + (c >= here)];
  }
  std::fill(total, total + lanes, 0.0f);
  for (size_t c = 0; c < others; ++c) {
    float* own = w + c * kBlock;
    plain_weights<balance>(of.scale, own, lanes, own);
#pragma GCC ivdep
    for (size_t r = 0; r < lanes; ++r) total[r] += own[r];
  }
}

WIDE inline void weigh_block(const Values& of, const int32_t* sites, size_t count, Block& block) {
  HOPSCALE_BY_KIND(of, return (weigh_sites<balance, constant>(of, sites, count, block)))
}

// The value of each site at a level between 0 and 1 of its weights. Levels are at most 1 - 2^-24,
// so that some value is above the level if single precision represents the total well.
WIDE inline void values_at(const Block& block, const uint32_t* words, size_t count,
                           int32_t* values) {
  const size_t others = block.others, lanes = vectors_of(count);
  const float *w = block.w, *total = block.total;
  const int32_t* here = block.here;
  float goal[kBlock], upto[kBlock];
  for (size_t r = 0; r < lanes; ++r) {
    goal[r] = uniform_number(words[r]) * total[r];
    upto[r] = 0;
    values[r] = 0;
  }
  for (size_t c = 0; c < others; ++c) {
#pragma GCC ivdep
    for (size_t r = 0; r < lanes; ++r) {
      upto[r] += w[c * kBlock + r];
      values[r] += upto[r] <= goal[r];
    }
  }
  for (size_t r = 0; r < lanes; ++r) values[r] += values[r] >= here[r];
}

// The same with weights relative to the largest, if they are too small or too large to be summed.
// If rounding leaves no value at the level, or nothing has weight: the heaviest.
inline int32_t value_slowly(const Values& of, size_t site, float level) {
  const float* s = of.s + site * of.values;
  const auto here = static_cast<size_t>(of.here[site]);
  double most = -kInfinity;
  for (size_t c = 0; c < of.values; ++c)
    if (c != here) most = std::max(most, log_weight(s[c], of.balance));
  const auto relative = [&](size_t c) {
    const double own = c == here ? -kInfinity : log_weight(s[c], of.balance) - most;
    return own > -100 ? static_cast<float>(std::exp(own)) : 0.0f;
  };
  float total = 0, upto = 0;
  for (size_t c = 0; c < of.values; ++c) total += relative(c);
  for (size_t c = 0; c < of.values; ++c)
    if ((upto += relative(c)) > level * total) return static_cast<int32_t>(c);
  size_t heaviest = here == 0 ? 1 : 0;
  for (size_t c = 0; c < of.values; ++c)
    if (c != here && s[c] > s[heaviest]) heaviest = c;
  return static_cast<int32_t>(heaviest);
}

// A new value for each of the first `length` sites, by weight; the others keep theirs.
inline Along draw_values(const Values& of, Key key, const int32_t* sites, int32_t asked,
                         int8_t* drawn) {
  Along along(clamp_length(asked, of.n), false);
  Block block(of);
  uint32_t words[kBlock];
  int32_t values[kBlock];
  std::copy(of.here, of.here + of.n, drawn);
  for (size_t first = 0; first < along.length; first += kBlock) {
    const size_t count = std::min(kBlock, along.length - first);
    block_of_words(fold_in(key, kValues + static_cast<uint32_t>(first / kBlock)), 0, words);
    weigh_block(of, sites + first, count, block);
    values_at(block, words, count, values);
    for (size_t r = 0; r < count; ++r) {
      const auto site = static_cast<size_t>(block.sites[r]);
      if (!fits(block.total[r])) values[r] = value_slowly(of, site, uniform_number(words[r]));
      drawn[site] = static_cast<int8_t>(values[r]);
      block.take(r, values[r]);
    }
    along.put(first, count, block.total, block.taken);
  }
  return along;
}

// The weights along an order, given the values `to` that its sites take.
inline Along weigh_along(const Values& of, const int8_t* to, const int32_t* sites, size_t length,
                         bool backwards) {
  Along along(length, backwards);
  Block block(of);
  for (size_t first = 0; first < length; first += kBlock) {
    const size_t count = std::min(kBlock, length - first);
    weigh_block(of, sites + first, count, block);
    for (size_t r = 0; r < count; ++r)
      block.take(r, std::clamp<int32_t>(to[block.sites[r]], 0, block.others));
    along.put(first, count, block.total, block.taken);
  }
  return along;
}

// The log-probability of the values `to` of the sites that moved, given each site's log-total.
inline float values_log_prob(const Values& of, const float* totals, const int8_t* to,
                             const uint8_t* moved) {
  Scratch& scratch = Scratch::here();
  float* own = room(scratch.values, of.n);
  double* w = room(scratch.along, of.n);
  size_t count = 0;
  double all = 0;
  const auto add = [&](size_t i) {
    const auto value = std::clamp<int64_t>(to[i], 0, static_cast<int64_t>(of.values) - 1);
    own[count++] = of.s[i * of.values + static_cast<size_t>(value)];
    all += static_cast<double>(totals[i]);
  };
  size_t i = 0;
  for (; i + 8 <= of.n; i += 8) {  // most sites stay: eight flags are read at once
    uint64_t flags;
    std::memcpy(&flags, moved + i, 8);
    for (; flags != 0; flags &= flags - 1)
      add(i + static_cast<size_t>(__builtin_ctzll(flags)) / 8);
  }
  for (; i < of.n; ++i)
    if (moved[i]) add(i);
  if (of.balance == kBarker) {
    weights_of(Scale(0.0f, kBarker), own, count, w);
    bool fine = true;
    for (size_t r = 0; r < count; ++r) fine &= w[r] > 0;
    if (fine) return static_cast<float>(sum_of_logs(w, count) - all);
  }
  double log_prob = 0;
  for (size_t r = 0; r < count; ++r) log_prob += log_weight(own[r], of.balance);
  // A value without weight has probability 0, even if no other has any (-inf - -inf).
  return static_cast<float>(log_prob == -kInfinity ? log_prob : log_prob - all);
}

}  // namespace hopscale
