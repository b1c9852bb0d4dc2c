// The posterior of a factorial hidden Markov model: L readings of K bits each.
#pragma once

#include "chains.h"
#include "scratch.h"

namespace hopscale {

INLINE float half_logit(float p) { return 0.5f * (std::log(p) - std::log1p(-p)); }

struct Fhmm {
  const float *readings, *weights;  // L and K
  size_t length, factors;
  float bias, precision;  // precision: 1 / sigma^2
  float bond, start;      // in spins the prior is an Ising chain with a field at its first link
  bool by_time;           // hidden chains run along the readings, else along the factors
  bool exact;             // ratios, else their gradient form

  size_t stride() const { return by_time ? factors : 1; }  // from a site to the next link
};

// Some rows at a time, as one flat run of sites: numbers that are the same in every row are
// repeated for all of these rows, so that loops run over sites even if a row has few.
struct FhmmTable {
  static constexpr size_t kSites = 256, kVector = 8;

  size_t rows = 0;
  std::vector<float> weight, curve;   // w_k, and w_k^2 / (2 sigma^2) if ratios are exact
  std::vector<int8_t> before, after;  // masks: whether a neighbour is of the same hidden chain
  std::vector<int8_t> spins;          // with room for a row's neighbours on either side
  std::vector<float> residual;        // of the row of each site, over sigma^2

  // The table of this thread, for this model. It only grows.
  static FhmmTable& of(const Fhmm& model) {
    thread_local FhmmTable table;
    table.fill(model);
    return table;
  }

 private:
  void fill(const Fhmm& model) {
    const size_t k = model.factors;
    rows = std::max<size_t>(1, kSites / k);
    const size_t n = rows * k;
    room(spins, n + 2 * k);
    room(residual, n + kVector);
    float *w = room(weight, n), *c = room(curve, n);
    int8_t *b = room(before, n), *a = room(after, n);
    const float half = model.exact ? 0.5f * model.precision : 0.0f;
    for (size_t row = 0; row < rows; ++row, w += k, c += k, b += k, a += k) {
      for (size_t i = 0; i < k; ++i) {
        w[i] = model.weights[i];
        c[i] = half * w[i] * w[i];
        a[i] = b[i] = -1;
      }
      if (!model.by_time) b[0] = a[k - 1] = 0;
    }
  }
};

INLINE float fhmm_residual(const Fhmm& model, const int8_t* x, size_t row) {
  const int8_t* bits = x + row * model.factors;
  float mean = model.bias;
  for (size_t k = 0; k < model.factors; ++k)
    mean += static_cast<float>(bits[k]) * model.weights[k];
  return model.readings[row] - mean;
}

// The sum of squared residuals of rows [begin, end), and each residual over sigma^2 at all sites of
// its row. A row is written in vectors; the next one overwrites the excess.
INLINE float fhmm_fit(const Fhmm& model, const int8_t* x, size_t begin, size_t end,
                      float* residual) {
  constexpr size_t wide = FhmmTable::kVector;
  float squares = 0;
  for (size_t row = begin; row < end; ++row, residual += model.factors) {
    const float r = fhmm_residual(model, x, row), scaled = r * model.precision;
    squares += r * r;
    for (size_t k = 0; k < model.factors; k += wide)
      for (size_t j = 0; j < wide; ++j) residual[k + j] = scaled;
  }
  return squares;
}

// The spins of rows [begin, end), and of their neighbours if there are any.
INLINE const int8_t* fhmm_spins(const Fhmm& model, const int8_t* x, size_t begin, size_t end,
                                int8_t* spins) {
  const size_t k = model.factors, all = model.length * k, n = (end - begin) * k;
  const size_t left = begin == 0 ? 0 : k, right = std::min(k, all - end * k);
  std::memset(spins, 0, k);
  const int8_t* from = x + begin * k - left;
  int8_t* to = spins + k - left;
  for (size_t i = 0; i < left + n + right; ++i) to[i] = static_cast<int8_t>(2 * from[i] - 1);
  std::memset(spins + k + n + right, 0, k - right);
  return spins + k;
}

// The bonds of n sites, each counted as often as it has ends among them, and their log-ratios.
INLINE float fhmm_sites(const Fhmm& model, const FhmmTable& table, const int8_t* s, size_t n,
                        float* ratios) {
  const size_t stride = model.stride();
  const float bond = model.bond;
  const int8_t *back = s - stride, *ahead = s + stride;
  const int8_t *before = table.before.data(), *after = table.after.data();
  const float *residual = table.residual.data(), *weight = table.weight.data();
  const float* curve = table.curve.data();
  float bonds = 0;
#pragma omp simd reduction(+ : bonds)
  for (size_t i = 0; i < n; ++i) {
    const auto near = static_cast<int8_t>((back[i] & before[i]) + (ahead[i] & after[i]));
    const auto spin = static_cast<float>(s[i]);
    const float pull = bond * static_cast<float>(near);
    bonds += spin * pull;
    ratios[i] = -spin * (2.0f * pull + residual[i] * weight[i]) - curve[i];
  }
  return bonds;
}

// The field at the first links of hidden chains within rows [begin, end).
INLINE float fhmm_starts(const Fhmm& model, const int8_t* x, size_t begin, size_t end,
                         float* ratios) {
  const float start = model.start;
  const size_t k = model.factors, step = model.by_time ? 1 : k;
  const size_t from = begin * k, to = model.by_time ? (begin == 0 ? k : from) : end * k;
  float total = 0;
  for (size_t i = from; i < to; i += step) {
    const float pull = start * static_cast<float>(2 * x[i] - 1);
    total += pull;
    ratios[i] -= 2.0f * pull;
  }
  return total;
}

// The share of rows [begin, end) in log pi, and their log-ratios.
WIDE inline double fhmm_rows(const Fhmm& model, const int8_t* x, size_t begin, size_t end,
                             FhmmTable& table, float* ratios) {
  const double half = -0.5 * static_cast<double>(model.precision);
  double total = 0;
  for (size_t row = begin; row < end; row += table.rows) {
    const size_t stop = std::min(end, row + table.rows);
    total += half * static_cast<double>(fhmm_fit(model, x, row, stop, table.residual.data()));
    const int8_t* s = fhmm_spins(model, x, row, stop, table.spins.data());
    const size_t at = row * model.factors, n = (stop - row) * model.factors;
    total += 0.5 * static_cast<double>(fhmm_sites(model, table, s, n, ratios + at));
    total += static_cast<double>(fhmm_starts(model, x, row, stop, ratios));
  }
  return total;
}

inline float fhmm(const Fhmm& model, const int8_t* x, float* ratios, const Team& team) {
  constexpr size_t piece_sites = 32768;
  const size_t piece = std::max<size_t>(1, piece_sites / model.factors);
  const size_t pieces = (model.length + piece - 1) / piece;
  double* sums = room(Scratch::here().sums, pieces);
  team.share(pieces, model.length * model.factors, [=](size_t p) {
    const size_t end = std::min(model.length, (p + 1) * piece);
    sums[p] = fhmm_rows(model, x, p * piece, end, FhmmTable::of(model), ratios);
  });
  double total = 0;
  for (size_t p = 0; p < pieces; ++p) total += sums[p];
  return static_cast<float>(total);
}

// The change in log pi if the sites `moved` are flipped: by the residuals of their rows, their
// fields, and the bonds that have just one end among them.
inline float fhmm_change(const Fhmm& model, const int8_t* x, const uint8_t* moved) {
  const size_t k = model.factors, n = model.length * k, stride = model.stride();
  const float bond = model.bond;
  const auto spin = [x](size_t i) { return static_cast<float>(2 * x[i] - 1); };
  const auto fixed = [=](size_t i) { return moved[i] ? 0.0f : spin(i); };
  const auto prior = [=](size_t i, size_t row, size_t factor) {
    const bool first = model.by_time ? row == 0 : factor == 0;
    float pull = first ? model.start : bond * fixed(i - stride);
    const bool last = model.by_time ? row + 1 == model.length : factor + 1 == k;
    if (!last) pull += bond * fixed(i + stride);
    return -2.0f * spin(i) * pull;
  };
  const auto change_of_row = [=](size_t row) {
    float by = 0, total = 0;  // what the row's flips add to the mean of its reading
    for (size_t factor = 0; factor < k; ++factor) {
      const size_t i = row * k + factor;
      if (!moved[i]) continue;
      by -= spin(i) * model.weights[factor];
      total += prior(i, row, factor);
    }
    return total + (fhmm_residual(model, x, row) - 0.5f * by) * by * model.precision;
  };
  double total = 0;
  for (size_t i = 0; i < n;) {  // few sites move: most groups of eight have none
    uint64_t eight = 0;
    if (i + 8 <= n) std::memcpy(&eight, moved + i, 8);
    if (i + 8 <= n && eight == 0) {
      i += 8;
    } else if (!moved[i]) {
      ++i;
    } else {
      total += static_cast<double>(change_of_row(i / k));
      i = (i / k + 1) * k;
    }
  }
  return static_cast<float>(total);
}

}  // namespace hopscale
