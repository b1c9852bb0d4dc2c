// Sweeps over the sites of a Potts model, sixteen chains together.
#pragma once

#include "sweep.h"

namespace hopscale {

constexpr size_t kMostValues = 128;  // of an int8

// log pi = beta (sum_pairs J [x_i = x_j] + sum_i h_i(x_i)).
struct Potts {
  Rows rows;
  const float* field;  // (sites, values)
  size_t values;
  bool metropolis;
  float keep;
};

constexpr bool sites_as_lanes(const Potts&, size_t) { return false; }

INLINE Floats8 uniform_numbers(Words8 words) {
  // An unsigned word as a float, by way of its halves, which are exact.
  const Floats8 high = __builtin_convertvector((Ints8)(words >> 16), Floats8);
  const Floats8 low = __builtin_convertvector((Ints8)(words & 0xFFFFu), Floats8);
  return smaller((high * 65536.0f + low + 0.5f) * 0x1p-32f, 1.0f - 0x1p-24f);
}

// Visits positions [begin, end) of the blocks. A site with value x goes to c with probability
// w_c / Z (Gibbs) or keep w_c / max(Z - w_x, Z - w_c) (Metropolis), and otherwise stays.
WIDE inline void visit(const Potts& model, const Lanes& lanes, const Keys& key, size_t begin,
                       size_t end, double* gain) {
  const Rows& rows = model.rows;
  Floats8 energy[kMostValues][kVectors], weight[kMostValues][kVectors];
  for (size_t position = begin; position < end; ++position) {
    const auto site = static_cast<size_t>(rows.blocks[position]);
    if (site >= rows.n) continue;
    Words8 words[kVectors];
    words_of_lanes(key, equal_counts(position).i, words);
    for (size_t c = 0; c < model.values; ++c)
      LANES energy[c][v] = all(model.field[site * model.values + c]);
    for (int32_t e = rows.start[site]; e < rows.start[site + 1]; ++e) {
      const int32_t* other = lanes.values + kLanes * static_cast<size_t>(rows.neighbour[e]);
      const auto* there = reinterpret_cast<const Ints8*>(other);
      const Floats8 coupling = all(rows.weight[e]);
      for (size_t c = 0; c < model.values; ++c)
        LANES energy[c][v] += masked(there[v] == static_cast<int32_t>(c), coupling);
    }
    auto* here = reinterpret_cast<Ints8*>(lanes.values + kLanes * site);
    Floats8 largest[kVectors], others[kVectors] = {}, mine[kVectors] = {}, now[kVectors] = {};
    LANES largest[v] = energy[0][v];
    for (size_t c = 1; c < model.values; ++c)
      LANES largest[v] = choose(energy[c][v] > largest[v], energy[c][v], largest[v]);
    for (size_t c = 0; c < model.values; ++c) {
      LANES {
        const Ints8 same = here[v] == static_cast<int32_t>(c);
        weight[c][v] =
            exponential(larger(lanes.beta[v] * (energy[c][v] - largest[v]), -80.0f));
        others[v] += masked(~same, weight[c][v]);
        mine[v] += masked(same, weight[c][v]);
        now[v] += masked(same, energy[c][v]);
      }
    }
    Floats8 upto[kVectors] = {}, after[kVectors], level[kVectors];
    Ints8 open[kVectors], next[kVectors];
    LANES {
      level[v] = uniform_numbers(words[v]);
      open[v] = ~Ints8{};
      next[v] = here[v];
      after[v] = now[v];
    }
    for (size_t c = 0; c < model.values; ++c) {
      LANES {
        const Ints8 differs = here[v] != static_cast<int32_t>(c);
        const Floats8 total = others[v] + mine[v];
        Floats8 of = total;
        if (model.metropolis) {
          const Floats8 without = total - weight[c][v];
          of = choose(without > others[v], without, others[v]) / model.keep;
        }
        upto[v] += masked(differs, weight[c][v] / of);
        const Ints8 taken = open[v] & differs & (level[v] < upto[v]);
        next[v] = (taken & static_cast<int32_t>(c)) | (~taken & next[v]);
        after[v] = choose(taken, energy[c][v], after[v]);
        open[v] &= ~taken;
      }
    }
    LANES {
      const Floats8 gained = after[v] - now[v];
      for (size_t l = 0; l < kVector; ++l) gain[v * kVector + l] += double{gained[l]};
      here[v] = next[v];
    }
  }
}

// Writes the log-ratios: the energies e_i(c) = h_i(c) + sum_j J_ij [x_j = c] of every site and
// value, less those of the present values. Returns the log-probability, in which each pair counts
// once.
template <size_t constant>
INLINE float potts_by(const int8_t* x, const float* field, size_t given, const Rows& rows,
                      float* ratios) {
  const size_t values = constant == 0 ? given : constant;
  constexpr size_t some = 64;  // sites: vectors are not read just after their numbers were written
  double twice = 0;
  for (size_t first = 0; first < rows.n; first += some) {
    const size_t last = std::min(rows.n, first + some);
    std::copy(field + first * values, field + last * values, ratios + first * values);
    for (size_t i = first; i < last; ++i)
      for (int32_t e = rows.start[i]; e < rows.start[i + 1]; ++e)
        ratios[i * values + static_cast<size_t>(x[rows.neighbour[e]])] += rows.weight[e];
    for (size_t i = first; i < last; ++i) {
      float* row = ratios + i * values;
      const float own = row[static_cast<size_t>(x[i])];
      twice += static_cast<double>(own + field[i * values + static_cast<size_t>(x[i])]);
      for (size_t c = 0; c < values; ++c) row[c] -= own;
    }
  }
  return static_cast<float>(0.5 * twice);
}

inline float potts(const int8_t* x, const float* field, size_t values, const Rows& rows,
                   float* ratios) {
  HOPSCALE_BY_VALUES(values, return potts_by<constant>(x, field, values, rows, ratios))
}

WIDE inline void load_values(const int8_t* const* x, size_t n, int32_t* values) {
  for (size_t i = 0; i < n; ++i)
    for (size_t l = 0; l < kLanes; ++l) values[i * kLanes + l] = x[l][i];
}

WIDE inline void store_values(const int32_t* values, size_t n, int8_t* const* y, size_t chains) {
  for (size_t l = 0; l < chains; ++l)
    for (size_t i = 0; i < n; ++i) y[l][i] = static_cast<int8_t>(values[i * kLanes + l]);
}

}  // namespace hopscale
