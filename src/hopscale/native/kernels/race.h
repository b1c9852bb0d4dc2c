// Choosing without replacement, by weight.
//
// Drawing with replacement, and skipping sites drawn before, amounts to drawing without
// replacement, one site after another. It takes only a few more draws than sites are wanted, unless
// a few sites have most of the weight: then, after a bounded number of draws, another round begins
// with a table of the remaining sites. If eight rounds are not enough, a race of exponential clocks
// chooses the rest at once: -log(1 - v) / w for each remaining site, in the order in which they
// ring.
#pragma once

#include "order.h"
#include "table.h"

namespace hopscale {

constexpr int kRounds = 8;
constexpr uint32_t kClocks = 0x72616365;  // folded into the key; later rounds add their number

INLINE size_t most_draws(size_t wanted) { return 2 * wanted + 32; }

// A round: draws until `length` sites are chosen or the round is over. Returns how many are chosen.
inline size_t draw_round(const Table& table, Key key, size_t n, size_t length, size_t count,
                         int32_t* sites, uint8_t* chosen, const Team& team, Scratch& scratch) {
  constexpr size_t piece = 1024;  // draws
  const size_t most = most_draws(length - count);
  for (size_t first = 0; first < most && count < length;) {
    const size_t wanted = length - count;
    const size_t some = std::min(most - first, wanted + wanted * length / n + 8);
    int32_t* drawn = room(scratch.drawn, some);
    team.share((some + piece - 1) / piece, 8 * some, [=, &table](size_t p) {
      draw_sites(table, key, static_cast<uint32_t>(first + p * piece),
                 std::min(piece, some - p * piece), drawn + p * piece);
    });
    for (size_t j = 0; j < some && count < length; ++j) {
      sites[count] = drawn[j];
      count += 1 - chosen[drawn[j]];
      chosen[drawn[j]] = 1;
    }
    first += some;
  }
  return count;
}

// The remaining sites in the order in which their clocks ring; those without weight come last, in
// order.
inline void race_of_clocks(Key key, const float* s, size_t n, Balance balance, size_t length,
                           size_t count, int32_t* sites, uint8_t* chosen, Scratch& scratch) {
  auto* clocks = room(scratch.clocks, n);
  size_t left = 0;
  for (size_t i = 0; i < n; ++i) {
    if (chosen[i]) continue;
    const double v = uniform_number(random_word(key, i));
    const double time = std::log(-std::log1p(-v)) - log_weight(s[i], balance);
    clocks[left++] = {time != time ? kInfinity : time, static_cast<int32_t>(i)};
  }
  std::sort(clocks, clocks + left);
  for (size_t r = 0; count < length; ++r, ++count) {
    sites[count] = clocks[r].second;
    chosen[sites[count]] = 1;
  }
}

// Draws from the table of all sites; if draws repeat too often, from tables of the remaining sites.
inline void choose(Table table, Key key, const float* s, size_t n, Balance balance, size_t length,
                   bool usable, int32_t* sites, uint8_t* chosen, const Team& team,
                   Scratch& scratch) {
  std::memset(chosen, 0, n);
  size_t count = 0;
  for (int round = 0; round < kRounds && usable && count < length; ++round) {
    if (round > 0) {
      const Scale scale(largest(s, chosen, n), balance);
      const double left = scale.usable ? tabulate(scale, s, chosen, n, team, scratch, table) : 0;
      if (!(left >= kPlenty && left < kInfinity)) break;  // there is no table then
    }
    const Key own = round == 0 ? key : fold_in(key, kClocks + static_cast<uint32_t>(round));
    count = draw_round(table, own, n, length, count, sites, chosen, team, scratch);
  }
  if (count < length)
    race_of_clocks(fold_in(key, kClocks), s, n, balance, length, count, sites, chosen, scratch);
  std::fill(sites + length, sites + n, 0);
}

inline float race(Key key, const float* s, size_t n, Balance balance, int32_t asked, int32_t* sites,
                  uint8_t* chosen, const Team& team) {
  Scratch& scratch = Scratch::here();
  const size_t length = clamp_length(asked, n);
  Table table{};
  const Weights weights = scaled(s, n, balance, [&](const Scale& scale) {
    return tabulate(scale, s, nullptr, n, team, scratch, table);
  });
  choose(table, key, s, n, balance, length, weights.usable, sites, chosen, team, scratch);
  return static_cast<float>(
      order_log_prob_from(weights, s, n, sites, chosen, length, false, team, scratch));
}

// A choice in which all sites weigh the same. Their table depends only on n: each thread keeps it.
inline void uniform(Key key, size_t n, int32_t asked, int32_t* sites, uint8_t* chosen,
                    const Team& team) {
  struct Equal {
    size_t n = 0;
    std::vector<float> zeros;
    Scratch scratch;
    Table table;
  };
  thread_local Equal equal;
  if (equal.n != n) {
    equal.zeros.assign(n, 0.0f);
    tabulate(Scale(0.0f, kLogWeight), equal.zeros.data(), nullptr, n, team, equal.scratch,
             equal.table);
    equal.n = n;
  }
  choose(equal.table, key, equal.zeros.data(), n, kLogWeight, clamp_length(asked, n), true, sites,
         chosen, team, Scratch::here());
}

}  // namespace hopscale
