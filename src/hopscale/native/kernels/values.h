// Sites of several values: the weight of a site, which is the sum over the values it could take
// instead.
#pragma once

#include "lanes.h"
#include "table.h"

namespace hopscale {

// Sums of weights that single precision represents well.
constexpr float kLeastTotal = 0x1p-60f, kMostTotal = 0x1p60f;

INLINE bool fits(float total) { return (total >= kLeastTotal) & (total <= kMostTotal); }

// log-ratios (sites, values), and the present value of each site.
struct Values {
  const float* s;
  const int8_t* here;
  size_t n, values;
  Balance balance;
  Plain scale = {};
};

// The log of the summed weights of a site, in double precision: small ones are not lost.
inline double log_total_slowly(const Values& of, size_t site) {
  double total = -kInfinity;
  for (size_t c = 0; c < of.values; ++c)
    if (c != static_cast<size_t>(of.here[site]))
      total = log_add(total, log_weight(of.s[site * of.values + c], of.balance));
  return total;
}

template <Balance balance>
INLINE void plain_weights(const Plain& given, const float* s, size_t count, float* w) {
  const Plain scale = given;
#pragma GCC ivdep
  for (size_t j = 0; j < count; ++j) w[j] = weight<balance>(s[j], scale);
}

constexpr size_t kSome = 256;  // sites weighed together: few enough for a cache

// If there are few values, log-ratios of the other values of sites [first, first + count) side by
// side. The last value takes the place of the present one. If the present one is the last itself,
// that place is the next row's first, which is written later: there is room for one more row.
template <size_t values>
INLINE void other_ratios(const Values& of, size_t first, size_t count, float* others) {
  const float* row = of.s + first * values;
  const int8_t* here = of.here + first;
  for (size_t i = 0; i < count; ++i, row += values, others += values - 1) {
    std::memcpy(others, row, (values - 1) * sizeof(float));
    others[here[i]] = row[values - 1];
  }
}

// The weights of the other values of sites [first, first + count), in rows. Returns the length of a
// row.
template <Balance balance, size_t constant>
INLINE size_t weights_of_sites(const Values& of, size_t first, size_t count, float* w) {
  if constexpr (constant != 0) {
    other_ratios<constant>(of, first, count, w);
    plain_weights<balance>(of.scale, w, count * (constant - 1), w);
    return constant - 1;
  }
  const size_t k = of.values;  // with a weight of 0 for the present one
  plain_weights<balance>(of.scale, of.s + first * k, count * k, w);
  for (size_t i = 0; i < count; ++i) w[i * k + static_cast<size_t>(of.here[first + i])] = 0.0f;
  return k;
}

// Sums of rows of four numbers, eight rows at a time. Returns how many rows were summed. Neighbours
// are added, twice. (Picks in inlined functions would be compiled for short vectors first.)
WIDE inline size_t sum_fours(const float* w, size_t count, float* total) {
#define HALVED(a, b) \
  PICK(a, b, 0, 2, 8, 10, 4, 6, 12, 14) + PICK(a, b, 1, 3, 9, 11, 5, 7, 13, 15)
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    Floats8 a, b, c, d;
    std::memcpy(&a, w + 4 * i, sizeof a);
    std::memcpy(&b, w + 4 * i + 8, sizeof b);
    std::memcpy(&c, w + 4 * i + 16, sizeof c);
    std::memcpy(&d, w + 4 * i + 24, sizeof d);
    const Floats8 ab = HALVED(a, b), cd = HALVED(c, d), sums = HALVED(ab, cd);
    const Floats8 in_order = PICK(sums, sums, 0, 4, 1, 5, 2, 6, 3, 7);
    std::memcpy(total + i, &in_order, sizeof in_order);
  }
  return i;
#undef HALVED
}

// The sum of each row of weights. Returns whether single precision represents all of them well.
INLINE bool sum_rows(const float* w, size_t count, size_t length, float* total) {
  for (size_t i = length == 4 ? sum_fours(w, count, total) : 0; i < count; ++i) {
    float sum = 0;
    for (size_t c = 0; c < length; ++c) sum += w[i * length + c];
    total[i] = sum;
  }
  int32_t fine = 1;
  for (size_t i = 0; i < count; ++i) fine &= fits(total[i]);
  return fine != 0;
}

// The weight of each of the sites [begin, end), a few at a time. Returns whether single precision
// represents all of them well.
template <Balance balance, size_t constant>
INLINE bool totals_of(const Values& given, size_t begin, size_t end, float* w, float* totals) {
  const Values of = given;
  bool fine = true;
  for (size_t first = begin; first < end; first += kSome) {
    const size_t count = std::min(kSome, end - first);
    const size_t length = weights_of_sites<balance, constant>(of, first, count, w);
    fine &= sum_rows(w, count, length, totals + first);
  }
  return fine;
}

// The weight of all of them together.
template <Balance balance, size_t constant>
INLINE double sum_of_sites(const Values& given, size_t begin, size_t end, float* w) {
  const Values of = given;
  double total = 0;
  for (size_t first = begin; first < end; first += kSome) {
    const size_t count = std::min(kSome, end - first);
    if constexpr (constant != 0) {
      other_ratios<constant>(of, first, count, w);
      total += add_weights<balance>(of.scale, w, nullptr, count * (constant - 1));
    } else {
      const size_t length = weights_of_sites<balance, constant>(of, first, count, w);
      total += add_weights<kWeight>(of.scale, w, nullptr, count * length);
    }
  }
  return total;
}

// The call with the kind of weights and the number of values as constants.
#define HOPSCALE_BY_KIND(of, call) \
  HOPSCALE_BY_BALANCE((of).balance, HOPSCALE_BY_VALUES((of).values, call))

WIDE inline bool totals_in(const Values& of, size_t begin, size_t end, float* w, float* totals) {
  HOPSCALE_BY_KIND(of, return (totals_of<balance, constant>(of, begin, end, w, totals)))
}

WIDE inline double sum_of_sites_in(const Values& of, size_t begin, size_t end, float* w) {
  HOPSCALE_BY_KIND(of, return (sum_of_sites<balance, constant>(of, begin, end, w)))
}

WIDE inline void logarithms(const float* x, size_t count, float* logs) {
  for (size_t i = 0; i < count; ++i) logs[i] = logarithm(x[i]);
}

// The same as logarithms. Sums that single precision does not represent well are computed slowly.
inline void log_totals_in(const Values& of, size_t begin, size_t end, float* w, float* totals) {
  for (size_t first = begin; first < end; first += kSome) {
    const size_t last = std::min(end, first + kSome);
    if (totals_in(of, first, last, w, totals)) {
      logarithms(totals + first, last - first, totals + first);
    } else {
      for (size_t i = first; i < last; ++i) totals[i] = static_cast<float>(log_total_slowly(of, i));
    }
  }
}

constexpr size_t kPieceOfSites = 32 * kRun;

INLINE size_t pieces_of_sites(const Values& of) {
  return (of.n + kPieceOfSites - 1) / kPieceOfSites;
}

// Calls body(begin, end, room for the weights of some sites, piece) for pieces of the sites.
template <typename Body>
INLINE void in_pieces_of_sites(const Values& of, const Team& team, Body body) {
  team.share(pieces_of_sites(of), of.n * of.values, [=](size_t p) {
    float* w = room(Scratch::here().values, (kSome + 1) * of.values);
    body(p * kPieceOfSites, std::min(of.n, (p + 1) * kPieceOfSites), w, p);
  });
}

inline void log_totals(const Values& of, float* totals, const Team& team) {
  in_pieces_of_sites(of, team, [=](size_t begin, size_t end, float* w, size_t) {
    log_totals_in(of, begin, end, w, totals);
  });
}

// The unscaled weight of each site. Returns whether single precision represents all of them well.
inline bool plain_totals(const Values& of, float* totals, const Team& team) {
  std::atomic<bool> fine{true};
  in_pieces_of_sites(of, team, [=, &fine](size_t begin, size_t end, float* w, size_t) {
    if (!totals_in(of, begin, end, w, totals)) fine = false;
  });
  return fine;
}

// The weight of all sites.
inline double sum_of_totals(const Values& of, const Team& team) {
  double* sums = room(Scratch::here().sums, pieces_of_sites(of));
  in_pieces_of_sites(of, team, [=](size_t begin, size_t end, float* w, size_t piece) {
    sums[piece] = sum_of_sites_in(of, begin, end, w);
  });
  double total = 0;
  for (size_t piece = 0; piece < pieces_of_sites(of); ++piece) total += sums[piece];
  return total;
}

}  // namespace hopscale
