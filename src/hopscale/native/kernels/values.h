// Sites of several values: the weight of a site, which is the sum over the values it could take
// instead; the values that chosen sites draw; and their probability.
#pragma once

#include "order.h"
#include "table.h"

namespace hopscale {

constexpr uint32_t kValues = 0x76616C75;  // folded into the key; blocks of draws follow on

// Sums of weights that single precision holds well.
constexpr float kLeastTotal = 0x1p-60f, kMostTotal = 0x1p60f;

// log-ratios (sites, values), and the present value of each site.
struct Values {
  const float* s;
  const int8_t* here;
  size_t n, values;
  Balance balance;
};

// The log of the summed weights of a site, in double precision: small ones are not lost.
inline double log_total_slowly(const Values& of, size_t site) {
  double total = -kInfinity;
  for (size_t c = 0; c < of.values; ++c)
    if (c != static_cast<size_t>(of.here[site]))
      total = log_add(total, log_weight(of.s[site * of.values + c], of.balance));
  return total;
}

// The sum of each row of weights; whether all of them are within bounds. For few values the number
// of them is a constant, so that nothing is looped over.
template <size_t constant>
INLINE bool sum_rows(const float* w, size_t count, size_t values, float* total) {
  const size_t k = constant == 0 ? values : constant;
  for (size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (size_t c = 0; c < k; ++c) sum += w[i * k + c];
    total[i] = sum;
  }
  int32_t fine = 1;
  for (size_t i = 0; i < count; ++i) fine &= (total[i] >= kLeastTotal) & (total[i] <= kMostTotal);
  return fine != 0;
}

INLINE bool sum_rows_of(const float* w, size_t count, size_t values, float* total) {
  HOPSCALE_BY_VALUES(values, return sum_rows<constant>(w, count, values, total))
}

// The weights of log-ratios one by one, as they are: not relative to the largest.
template <Balance balance>
INLINE void plain_weights(const float* s, size_t count, float* w) {
  constexpr float largest = balance == kSqrt ? 160.0f : 80.0f;  // of which a weight can be had
  const Scale scale(0.0f, balance);
#pragma GCC ivdep
  for (size_t j = 0; j < count; ++j)
    w[j] = weight<balance>(balance != kBarker && s[j] > largest ? largest : s[j], scale);
}

constexpr size_t kSome = 256;  // sites whose weights are had together: few enough for a cache

// The weights of the values of sites [first, first + count), none for their present ones.
template <Balance balance>
INLINE void weights_of_sites(const Values& of, size_t first, size_t count, float* w) {
  const size_t k = of.values;
  plain_weights<balance>(of.s + first * k, count * k, w);
  for (size_t i = 0; i < count; ++i) w[i * k + static_cast<size_t>(of.here[first + i])] = 0.0f;
}

// The weight of each of the sites [begin, end), a few at a time; whether all are within bounds.
template <Balance balance>
INLINE bool totals_of(const Values& given, size_t begin, size_t end, float* w, float* totals) {
  const Values of = given;
  bool fine = true;
  for (size_t first = begin; first < end; first += kSome) {
    const size_t count = std::min(kSome, end - first);
    weights_of_sites<balance>(of, first, count, w);
    fine &= sum_rows_of(w, count, of.values, totals + first);
  }
  return fine;
}

WIDE inline bool totals_in(const Values& of, size_t begin, size_t end, float* w, float* totals) {
  HOPSCALE_BY_BALANCE(of.balance, return totals_of<balance>(of, begin, end, w, totals))
}

// The same as logarithms. Those of sums that single precision does not hold well are had slowly.
template <Balance balance>
INLINE void log_totals_of(const Values& given, size_t begin, size_t end, float* w, float* totals) {
  const Values of = given;
  for (size_t first = begin; first < end; first += kSome) {
    const size_t last = std::min(end, first + kSome);
    if (totals_of<balance>(of, first, last, w, totals)) {
      for (size_t i = first; i < last; ++i) totals[i] = logarithm(totals[i]);
    } else {
      for (size_t i = first; i < last; ++i) totals[i] = static_cast<float>(log_total_slowly(of, i));
    }
  }
}

WIDE inline void log_totals_in(const Values& of, size_t begin, size_t end, float* w,
                               float* totals) {
  HOPSCALE_BY_BALANCE(of.balance, log_totals_of<balance>(of, begin, end, w, totals))
}

constexpr size_t kPieceOfSites = 32 * kRun;

INLINE size_t pieces_of_sites(const Values& of) {
  return (of.n + kPieceOfSites - 1) / kPieceOfSites;
}

// body(begin, end, room for the weights of some sites, piece) for pieces of the sites.
template <typename Body>
INLINE void in_pieces_of_sites(const Values& of, const Team& team, Body body) {
  team.share(pieces_of_sites(of), of.n * of.values, [=](size_t p) {
    float* w = room(Scratch::here().values, kSome * of.values);
    body(p * kPieceOfSites, std::min(of.n, (p + 1) * kPieceOfSites), w, p);
  });
}

inline void log_totals(const Values& of, float* totals, const Team& team) {
  in_pieces_of_sites(of, team, [=](size_t begin, size_t end, float* w, size_t) {
    log_totals_in(of, begin, end, w, totals);
  });
}

// The weight of each site as it is where single precision holds all of them, else its logarithm.
inline Balance totals_or_logs(const Values& of, float* totals, const Team& team) {
  std::atomic<bool> fine{true};
  in_pieces_of_sites(of, team, [=, &fine](size_t begin, size_t end, float* w, size_t) {
    if (!totals_in(of, begin, end, w, totals)) fine = false;
  });
  if (fine && sum_of(totals, of.n) >= kPlenty) return kWeight;
  log_totals(of, totals, team);
  return kLogWeight;
}

// The value at a level between 0 and 1 of a row of weights; where these are too small or too large
// to be summed, the weights are taken relative to the largest. Where rounding leaves no value at the
// level, or nothing has weight: the heaviest.
INLINE int8_t value_at(const Values& of, size_t site, float level, float* w) {
  const float* s = of.s + site * of.values;
  const auto here = static_cast<size_t>(of.here[site]);
  float total = 0;
  w[here] = 0.0f;
  for (size_t c = 0; c < of.values; ++c) w[c] = total += w[c];
  if (!(total >= kLeastTotal && total <= kMostTotal)) {
    double most = -kInfinity;
    for (size_t c = 0; c < of.values; ++c)
      if (c != here) most = std::max(most, log_weight(s[c], of.balance));
    total = 0;
    for (size_t c = 0; c < of.values; ++c) {
      const double own = c == here ? -kInfinity : log_weight(s[c], of.balance) - most;
      w[c] = total += own > -100 ? static_cast<float>(std::exp(own)) : 0.0f;
    }
  }
  const float goal = level * total;
  size_t value = 0;
  for (size_t c = 0; c < of.values; ++c) value += w[c] <= goal ? 1 : 0;
  if (value < of.values) return static_cast<int8_t>(value);
  value = here == 0 ? 1 : 0;
  for (size_t c = 0; c < of.values; ++c)
    if (c != here && s[c] > s[value]) value = c;
  return static_cast<int8_t>(value);
}

INLINE size_t site_at(const Values& of, const int32_t* sites, size_t r) {
  return static_cast<size_t>(std::clamp<int64_t>(sites[r], 0, static_cast<int64_t>(of.n) - 1));
}

// The weights of the values of these sites: log-ratios side by side, so that they are had together.
template <Balance balance>
INLINE void weights_of_listed(const Values& of, const int32_t* sites, size_t count, float* s,
                              float* w) {
  const size_t k = of.values;
  for (size_t r = 0; r < count; ++r) {
    const float* row = of.s + site_at(of, sites, r) * k;
    for (size_t c = 0; c < k; ++c) s[r * k + c] = row[c];
  }
  plain_weights<balance>(s, count * k, w);
}

// A block of draws.
template <Balance balance>
INLINE void draw_block(const Values& given, Key key, const int32_t* sites, size_t count, float* s,
                       float* w, int8_t* drawn) {
  const Values of = given;
  uint32_t words[kBlock];
  block_of_words(key, 0, words);
  weights_of_listed<balance>(of, sites, count, s, w);
  for (size_t r = 0; r < count; ++r) {
    const size_t site = site_at(of, sites, r);
    drawn[site] = value_at(of, site, uniform_number(words[r]), w + r * of.values);
  }
}

WIDE inline void draw_block_of(const Values& of, Key key, const int32_t* sites, size_t count,
                               float* s, float* w, int8_t* drawn) {
  HOPSCALE_BY_BALANCE(of.balance, draw_block<balance>(of, key, sites, count, s, w, drawn))
}

// A new value for each of the first `length` sites, by weight; the others keep theirs.
inline void draw_values(const Values& of, Key key, const int32_t* sites, int32_t asked,
                        int8_t* drawn) {
  const size_t length = clamp_length(asked, of.n);
  float* s = room(Scratch::here().values, 2 * kBlock * of.values);
  float* w = s + kBlock * of.values;
  std::copy(of.here, of.here + of.n, drawn);
  for (size_t r = 0; r < length; r += kBlock)
    draw_block_of(of, fold_in(key, kValues + static_cast<uint32_t>(r / kBlock)), sites + r,
                  std::min(kBlock, length - r), s, w, drawn);
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
  // A value without weight has probability 0, also where no other has any (-inf - -inf).
  return static_cast<float>(log_prob == -kInfinity ? log_prob : log_prob - all);
}

}  // namespace hopscale
