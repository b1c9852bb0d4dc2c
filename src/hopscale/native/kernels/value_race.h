// Sites of several values, chosen without replacement, and the values they take: all at once.
//
// A site u with weight W_u takes value v with probability w_uv / W_u, so that W_u cancels from the
// probability of a choice: log q = sum_r log w_{u_r v_r} - log(what was left to choose from at r).
#pragma once

#include "race.h"
#include "values.h"

namespace hopscale {

// The weights of the sites along an order, from its end, and of the values `to` they take; whether
// all of them are within bounds.
template <Balance balance>
INLINE bool weigh_along(const Values& given, const int8_t* to, const int32_t* sites, size_t length,
                        bool backwards, double* totals, double* taken) {
  const Values of = given;
  const size_t k = of.values;
  float* s = room(Scratch::here().values, 2 * kBlock * k);
  float* w = s + kBlock * k;
  bool fine = true;
  for (size_t first = 0; first < length; first += kBlock) {
    const size_t count = std::min(kBlock, length - first);
    weights_of_listed<balance>(of, sites + first, count, s, w);
    for (size_t r = 0; r < count; ++r) {
      const size_t site = site_at(of, sites, first + r);
      const size_t place = backwards ? first + r : length - 1 - first - r;
      float* row = w + r * k;
      float total = 0;
      row[static_cast<size_t>(of.here[site])] = 0.0f;
      for (size_t c = 0; c < k; ++c) total += row[c];
      totals[place] = static_cast<double>(total);
      const auto value = std::clamp<int64_t>(to[site], 0, static_cast<int64_t>(k) - 1);
      taken[place] = static_cast<double>(row[value]);
      fine &= total >= kLeastTotal && total <= kMostTotal && row[value] > 0;
    }
  }
  return fine;
}

WIDE inline bool weigh_along_of(const Values& of, const int8_t* to, const int32_t* sites,
                                size_t length, bool backwards, double* totals, double* taken) {
  HOPSCALE_BY_BALANCE(of.balance, return weigh_along<balance>(of, to, sites, length, backwards,
                                                              totals, taken))
}

// With logarithms of all weights.
inline double order_values_slowly(const Values& of, const int8_t* to, const int32_t* sites,
                                  const uint8_t* chosen, size_t length, bool backwards,
                                  const Team& team) {
  float* totals = room(Scratch::here().totals, of.n);
  log_totals(of, totals, team);
  const auto asked = static_cast<int32_t>(length);
  const double order =
      order_log_prob(totals, of.n, kLogWeight, sites, chosen, asked, backwards, team);
  return order + static_cast<double>(values_log_prob(of, totals, to, chosen));
}

// The log-probability of an order of sites and of the values they take, where all weights together
// are `sum`.
inline float order_values_from(const Values& of, double sum, const int8_t* to, const int32_t* sites,
                               const uint8_t* chosen, size_t length, bool backwards,
                               const Team& team) {
  if (length == 0) return 0.0f;
  double* totals = room(Scratch::here().along, 2 * length);
  double* taken = totals + length;
  if (sum > 0 && sum < 0x1p100 &&
      weigh_along_of(of, to, sites, length, backwards, totals, taken)) {
    double left = sum;
    for (size_t r = 0; r < length; ++r) left -= totals[r];
    if (left >= 0.25 * sum) {  // else too little would remain of a difference
      accumulate(totals, length, left);
      return static_cast<float>(sum_of_logs(taken, length) - sum_of_logs(totals, length));
    }
  }
  return static_cast<float>(
      order_values_slowly(of, to, sites, chosen, length, backwards, team));
}

template <Balance balance>
INLINE double sum_of_sites(const Values& given, size_t begin, size_t end, float* w) {
  const Values of = given;
  double total = 0;
  for (size_t first = begin; first < end; first += kSome) {
    const size_t count = std::min(kSome, end - first);
    weights_of_sites<balance>(of, first, count, w);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < count * of.values; ++j) sum += w[j];
    total += static_cast<double>(sum);
  }
  return total;
}

WIDE inline double sum_of_sites_in(const Values& of, size_t begin, size_t end, float* w) {
  HOPSCALE_BY_BALANCE(of.balance, return sum_of_sites<balance>(of, begin, end, w))
}

// The same, given nothing but the log-ratios: of the sites that are not in the order, only the sum
// of their weights is needed.
inline float order_values(const Values& of, const int8_t* to, const int32_t* sites,
                          const uint8_t* chosen, int32_t asked, bool backwards, const Team& team) {
  double* sums = room(Scratch::here().sums, pieces_of_sites(of));
  in_pieces_of_sites(of, team, [=](size_t begin, size_t end, float* w, size_t piece) {
    sums[piece] = sum_of_sites_in(of, begin, end, w);
  });
  double total = 0;
  for (size_t piece = 0; piece < pieces_of_sites(of); ++piece) total += sums[piece];
  return order_values_from(of, total, to, sites, chosen, clamp_length(asked, of.n), backwards,
                           team);
}

// Sites without replacement in order, the values they take, and the log-probability of all that.
inline float race_values(Key key, const Values& of, int32_t asked, int32_t* sites, uint8_t* chosen,
                         int8_t* drawn, const Team& team) {
  Scratch& scratch = Scratch::here();
  const size_t length = clamp_length(asked, of.n);
  float* totals = room(scratch.totals, of.n);
  const Balance kind = totals_or_logs(of, totals, team);
  Table table{};
  const Weights weights = scaled(totals, of.n, kind, [&](const Scale& scale) {
    return tabulate(scale, totals, nullptr, of.n, team, scratch, table);
  });
  choose(table, key, totals, of.n, kind, length, weights.usable, sites, chosen, team, scratch);
  draw_values(of, key, sites, asked, drawn);
  const double sum = kind == kWeight ? weights.sum : 0;  // else it is relative to the largest
  return order_values_from(of, sum, drawn, sites, chosen, length, false, team);
}

}  // namespace hopscale
