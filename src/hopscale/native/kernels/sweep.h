// Sweeps over the spins of a pairwise model. Sixteen chains visit a site together: their spins lie
// side by side, so that one load fetches a neighbour for all of them, without a gather.
#pragma once

#include "chains.h"
#include "lanes.h"
#include "scratch.h"

namespace hopscale {

// Rows of neighbours, and blocks of sites in which no two are neighbours; blocks are padded with n.
struct Rows {
  const int32_t *blocks, *start, *neighbour;
  const float* weight;
  size_t num_blocks, block_size, n;
};

// log pi = beta (sum_pairs J s s + sum_i h_i s_i) + gamma sum_i b_i s_i.
struct Spins {
  Rows rows;
  const float *field, *base;
  bool metropolis;
  float keep;  // the largest probability with which a Metropolis step changes a spin
};

// The data of sixteen chains.
struct Lanes {
  Keys key;
  Floats8 beta[kVectors], gamma[kVectors];
  bool sites;       // whether it is one chain, and lanes are sites
  float* s;         // (sites, kLanes), or (sites) of one chain: -1 or 1
  int32_t* values;  // the same of a Potts model: 0, 1, ...
};

// Memory for the states of sixteen chains, aligned as vectors require.
class LaneMemory {
 public:
  Lanes lanes(size_t n) {
    constexpr size_t align = 64;
    const size_t bytes = n * kLanes * sizeof(float);
    memory_.resize(std::max(memory_.size(), 2 * bytes + 2 * align));
    const auto at = reinterpret_cast<uintptr_t>(memory_.data());
    char* begin = memory_.data() + (align - at % align) % align;
    Lanes lanes{};
    lanes.s = reinterpret_cast<float*>(begin);
    lanes.values = reinterpret_cast<int32_t*>(begin + (bytes + align - 1) / align * align);
    return lanes;
  }

 private:
  std::vector<char> memory_;
};

constexpr float kUnit = 0x1p31f, kAlmost = 2147483520.0f;  // the largest float below 2^31

// Whether a random number of 31 bits lies below `level`. The eight bits in `high` are nearly always
// enough; if they tie, the other 23 are drawn, from the word at `counts`.
INLINE void below(const Keys& key, const Ints8* high, const Counts& counts, const Ints8* level,
                  Ints8* is_below) {
  Ints8 tie[kVectors];
  LANES {
    is_below[v] = high[v] < (level[v] >> 23);
    tie[v] = high[v] == (level[v] >> 23);
  }
  if (!any(tie[0] | tie[1])) return;
  Words8 rest[kVectors];
  words_of_lanes(key, counts.i, rest);
  LANES is_below[v] |= tie[v] & ((Ints8)(rest[v] >> 9) < (level[v] & 0x7FFFFF));
}

// The probability of flipping spins in fields `drive`, times 2^31.
template <bool metropolis>
INLINE Ints8 flip_level(const Spins& model, Floats8 spin, Floats8 drive) {
  const Floats8 cost = smaller(2.0f * spin * drive, 80.0f);
  const Floats8 chance = metropolis ? model.keep * exponential(-larger(cost, 0.0f))
                                    : 1.0f / (1.0f + exponential(larger(cost, -80.0f)));
  return __builtin_convertvector(smaller(chance * kUnit, kAlmost), Ints8);
}

INLINE Floats8 flipped(Floats8 spin, Ints8 flip) {
  return (Floats8)((Words8)spin ^ ((Words8)flip & 0x80000000u));
}

// Sums over a run of sites in single precision, then on in double.
struct Gains {
  Floats8 sum[kVectors] = {};
  size_t added = 0;

  INLINE void flush(double* gain) {
    LANES for (size_t l = 0; l < kVector; ++l) gain[v * kVector + l] += double{sum[v][l]};
    LANES sum[v] = Floats8{};
    added = 0;
  }
};

// Visits positions [begin, end) of the blocks with a chain in each lane; adds the gain in log pi at
// beta = 1, gamma = 0. Two sums over neighbours run side by side, because the additions of a single
// one would wait for each other.
template <bool metropolis>
INLINE void visit_chains(const Spins& model, const Lanes& lanes, const Keys& key, size_t begin,
                         size_t end, double* gain) {
  const Rows& rows = model.rows;
  const size_t quarter = (rows.num_blocks * rows.block_size + 3) / 4;
  const auto spins = [&](int32_t site) {
    return reinterpret_cast<Floats8*>(lanes.s + kLanes * static_cast<size_t>(site));
  };
  Words8 words[kVectors] = {};
  Gains gains;
  size_t drawn = ~size_t{0};
  for (size_t position = begin; position < end; ++position) {
    const int32_t site = rows.blocks[position];
    if (static_cast<size_t>(site) >= rows.n) continue;
    if (position / 4 != drawn) {
      drawn = position / 4;
      words_of_lanes(key, equal_counts(drawn).i, words);
    }
    Floats8 total[kVectors], odd[kVectors] = {};
    LANES total[v] = all(model.field[site]);
    int32_t e = rows.start[site];
    for (; e + 1 < rows.start[site + 1]; e += 2) {
      const Floats8 *one = spins(rows.neighbour[e]), *other = spins(rows.neighbour[e + 1]);
      LANES total[v] += rows.weight[e] * one[v];
      LANES odd[v] += rows.weight[e + 1] * other[v];
    }
    if (e < rows.start[site + 1]) LANES odd[v] += rows.weight[e] * spins(rows.neighbour[e])[v];
    Floats8* spin = spins(site);
    Ints8 level[kVectors], high[kVectors], flip[kVectors];
    LANES {
      total[v] += odd[v];
      const Floats8 drive = lanes.beta[v] * total[v] + lanes.gamma[v] * model.base[site];
      level[v] = flip_level<metropolis>(model, spin[v], drive);
      high[v] = (Ints8)(words[v] >> (8 * (position % 4)) & 255u);
    }
    below(key, high, equal_counts(quarter + position), level, flip);
    LANES {
      gains.sum[v] -= masked(flip[v], 2.0f * spin[v] * total[v]);
      spin[v] = flipped(spin[v], flip[v]);
    }
    if (++gains.added == kRun) gains.flush(gain);
  }
  gains.flush(gain);
}

// The same for one chain, with a site of the block in each lane.
template <bool metropolis>
INLINE void visit_sites(const Spins& model, const Lanes& lanes, const Keys& key, size_t begin,
                        size_t end, double* gain) {
  constexpr size_t chunk = 4 * kLanes;  // positions whose first eight bits are drawn together
  const Rows& rows = model.rows;
  const size_t quarter = (rows.num_blocks * rows.block_size + 3) / 4;
  Gains gains;
  for (size_t base = begin / chunk * chunk; base < end; base += chunk) {
    Words8 words[kVectors];
    uint8_t eight_bits[chunk];
    words_of_lanes(key, counts_from(base / 4).i, words);
    std::memcpy(eight_bits, words, sizeof eight_bits);
    for (size_t first = base; first < base + chunk && first < end; first += kLanes) {
      Floats8 total[kVectors], spin[kVectors], push[kVectors];
      Ints8 level[kVectors], high[kVectors], flip[kVectors];
      int32_t site[kLanes];
      LANES for (size_t l = 0; l < kVector; ++l) {
        const size_t position = first + v * kVector + l;
        const bool ours = position >= begin && position < end;
        const int32_t at = ours ? rows.blocks[position] : static_cast<int32_t>(rows.n);
        const bool idle = static_cast<size_t>(at) >= rows.n;
        float sum = idle ? 0.0f : model.field[at];
        if (!idle)
          for (int32_t e = rows.start[at]; e < rows.start[at + 1]; ++e)
            sum += rows.weight[e] * lanes.s[rows.neighbour[e]];
        total[v][l] = sum;
        spin[v][l] = idle ? 1.0f : lanes.s[at];
        push[v][l] = idle ? 0.0f : model.base[at];
        high[v][l] = idle ? 256 : eight_bits[position - base];  // never below any level
        site[v * kVector + l] = at;
      }
      LANES level[v] = flip_level<metropolis>(
          model, spin[v], lanes.beta[v] * total[v] + lanes.gamma[v] * push[v]);
      below(key, high, counts_from(quarter + first), level, flip);
      LANES {
        gains.sum[v] -= masked(flip[v], 2.0f * spin[v] * total[v]);
        const Floats8 after = flipped(spin[v], flip[v]);
        for (size_t l = 0; l < kVector; ++l)
          if (flip[v][l]) lanes.s[site[v * kVector + l]] = after[l];
      }
      if (++gains.added == kRun) gains.flush(gain);
    }
  }
  gains.flush(gain);
}

WIDE inline void visit(const Spins& model, const Lanes& lanes, const Keys& key, size_t begin,
                       size_t end, double* gain) {
  if (lanes.sites && model.metropolis)
    return visit_sites<true>(model, lanes, key, begin, end, gain);
  if (lanes.sites) return visit_sites<false>(model, lanes, key, begin, end, gain);
  if (model.metropolis) return visit_chains<true>(model, lanes, key, begin, end, gain);
  visit_chains<false>(model, lanes, key, begin, end, gain);
}

// Whether there are so few chains that it is better to take them one by one, with sites as lanes.
INLINE bool sites_as_lanes(const Spins& model, size_t chains) {
  return chains <= 4 && model.rows.block_size >= kLanes;
}

// Sweeps one block after another. A block is divided among the team, which is correct because no
// two of its sites are neighbours.
template <typename Model>
void sweep(const Model& model, const Lanes& lanes, size_t sweeps, const Team& team, double* gain) {
  constexpr size_t piece_sites = 1024;
  const Rows& rows = model.rows;
  // Pieces do not depend on the threads, so that sums round alike.
  const size_t pieces = std::max<size_t>(1, rows.block_size / piece_sites);
  const size_t piece = (rows.block_size + pieces - 1) / pieces;
  std::vector<double> gains(pieces * kLanes, 0.0);
  for (size_t t = 0; t < sweeps; ++t) {
    const Keys key = fold_in(lanes.key, static_cast<uint32_t>(t));
    for (size_t b = 0; b < rows.num_blocks; ++b) {
      const size_t first = b * rows.block_size, last = first + rows.block_size;
      const auto part = [&, first, last](size_t p) {
        visit(model, lanes, key, first + p * piece, std::min(last, first + (p + 1) * piece),
              gains.data() + p * kLanes);
      };
      team.share(pieces, rows.block_size * (lanes.sites ? 2 : kLanes), part);
    }
  }
  for (size_t p = 0; p < pieces; ++p)
    for (size_t l = 0; l < kLanes; ++l) gain[l] += gains[p * kLanes + l];
}

WIDE inline void load_spins(const int8_t* const* x, size_t n, float* s) {
  for (size_t i = 0; i < n; ++i)
    for (size_t l = 0; l < kLanes; ++l)
      s[i * kLanes + l] = static_cast<float>(2 * x[l][i] - 1);
}

WIDE inline void load_one(const int8_t* x, size_t n, float* s) {
  for (size_t i = 0; i < n; ++i) s[i] = static_cast<float>(2 * x[i] - 1);
}

WIDE inline void store_one(const float* s, size_t n, int8_t* y) {
  for (size_t i = 0; i < n; ++i) y[i] = s[i] > 0;
}

WIDE inline void store_spins(const float* s, size_t n, int8_t* const* y, size_t chains) {
  for (size_t l = 0; l < chains; ++l)
    for (size_t i = 0; i < n; ++i) y[l][i] = s[i * kLanes + l] > 0;
}

// The field h_i + sum_j J_ij s_j at every site.
inline void pair_fields(const int8_t* x, const float* field, const Rows& rows, float* fields) {
  for (size_t i = 0; i < rows.n; ++i) {
    float total = field[i];
    for (int32_t e = rows.start[i]; e < rows.start[i + 1]; ++e)
      total += x[rows.neighbour[e]] ? rows.weight[e] : -rows.weight[e];
    fields[i] = total;
  }
}

// The same after some sites were flipped: only the fields of their neighbours change.
inline void pair_update(const float* before, const int8_t* x, const uint8_t* moved,
                        const Rows& rows, float* after) {
  std::memcpy(after, before, rows.n * sizeof *after);
  for (size_t i = 0; i < rows.n; ++i) {
    if (!moved[i]) continue;
    const float by = x[i] ? -2.0f : 2.0f;
    for (int32_t e = rows.start[i]; e < rows.start[i + 1]; ++e)
      after[rows.neighbour[e]] += by * rows.weight[e];
  }
}

}  // namespace hopscale
