// Sweeps as XLA custom calls: chains in groups of sixteen that share their parameters.
#pragma once

#include "ffi_chains.h"
#include "potts.h"
#include "sweep.h"

namespace {

using hopscale::kLanes;
using hopscale::Keys;
using hopscale::Lanes;
using hopscale::Rows;

inline constexpr char kMetropolis[] = "metropolis", kKeep[] = "keep", kSweeps[] = "sweeps",
                      kDevices[] = "devices";

// The rows of a graph, which may be different for every chain, and seldom is.
struct RowsOf {
  Ints blocks, start, neighbour;
  Floats weight;
  Part of_blocks, of_start, of_neighbour, of_weight;

  RowsOf(Ints blocks, Ints start, Ints neighbour, Floats weight, Dimensions batch)
      : blocks(blocks),
        start(start),
        neighbour(neighbour),
        weight(weight),
        of_blocks(blocks.dimensions(), batch),
        of_start(start.dimensions(), batch),
        of_neighbour(neighbour.dimensions(), batch),
        of_weight(weight.dimensions(), batch) {}

  Rows operator()(size_t chain) const {
    const auto shape = blocks.dimensions();
    return {blocks.typed_data() + of_blocks(chain),
            start.typed_data() + of_start(chain),
            neighbour.typed_data() + of_neighbour(chain),
            weight.typed_data() + of_weight(chain),
            static_cast<size_t>(shape[shape.size() - 2]),
            static_cast<size_t>(shape.back()),
            static_cast<size_t>(start.dimensions().back()) - 1};
  }
};

bool same(const Rows& a, const Rows& b) {
  return a.blocks == b.blocks && a.start == b.start && a.neighbour == b.neighbour &&
         a.weight == b.weight;
}

// Chains [first, last) with the same parameters, at most sixteen.
struct Group {
  size_t first, last;
};

template <typename Same>
std::vector<Group> groups_of(size_t chains, Same same) {
  std::vector<Group> groups;
  for (size_t c = 0; c < chains; ++c) {
    if (groups.empty() || c - groups.back().first == kLanes || !same(groups.back().first, c))
      groups.push_back({c, c});
    groups.back().last = c + 1;
  }
  return groups;
}

// Sweeps of all chains. `model_of(chain)` has the parameters of a chain, `same(a, b)` says whether
// two chains share them, `load` and `store` move states between chains and lanes. `devices` is the
// number of devices, with equally many chains: each proceeds as one device with all chains would.
template <typename ModelOf, typename Same, typename Load, typename Store>
ffi::Error sweep_chains(ffi::ThreadPool& pool, Words key, States x, Floats beta, Floats gamma,
                        int32_t sweeps, int32_t devices, Out<States>& y, Out<Floats>& gain,
                        ModelOf model_of, Same same, Load load, Store store) {
  const auto batch = gain->dimensions();
  const Part of_key(key.dimensions(), batch), of_x(x.dimensions(), batch);
  const Part of_beta(beta.dimensions(), batch), of_gamma(gamma.dimensions(), batch);
  const size_t chains = gain->element_count(), n = y->element_count() / std::max<size_t>(chains, 1);
  const auto groups = groups_of(chains, same);
  // Chains first ... last - 1; with sites as lanes, `first` alone.
  const auto run = [&](size_t first, size_t last, bool sites, const Team& team) {
    thread_local hopscale::LaneMemory memory;
    Lanes lanes = memory.lanes(n);
    lanes.sites = sites;
    const int8_t* from[kLanes];
    int8_t* to[kLanes];
    double total[kLanes] = {};
    for (size_t l = 0; l < kLanes; ++l) {
      const size_t chain = std::min(first + l, last - 1);  // idle lanes follow the last chain
      const size_t v = l / hopscale::kVector, at = l % hopscale::kVector;
      from[l] = x.typed_data() + of_x(chain);
      to[l] = y->typed_data() + chain * n;
      lanes.key.a[v][at] = key.typed_data()[of_key(chain)];
      lanes.key.b[v][at] = key.typed_data()[of_key(chain) + 1];
      lanes.beta[v][at] = beta.typed_data()[of_beta(chain)];
      lanes.gamma[v][at] = gamma.typed_data()[of_gamma(chain)];
    }
    load(from, n, lanes);
    hopscale::sweep(model_of(first), lanes, static_cast<size_t>(sweeps), team, total);
    store(lanes, n, to, last - first);
    if (sites) for (size_t l = 1; l < kLanes; ++l) total[0] += total[l];
    for (size_t c = first; c < last; ++c)
      gain->typed_data()[c] = static_cast<float>(total[c - first]);
  };
  const bool sites =
      chains > 0 && sites_as_lanes(model_of(0), groups[0].last * static_cast<size_t>(devices));
  if (sites) {
    hopscale::for_each_chain(team_of(pool), chains, n, [&](size_t c, const Team& team) {
      run(c, c + 1, true, team);
    });
  } else {
    hopscale::for_each_chain(
        team_of(pool), groups.size(), n * kLanes, [&](size_t g, const Team& team) {
          run(groups[g].first, groups[g].last, false, team);
        });
  }
  return ffi::Error::Success();
}

ffi::Error spin_sweeps(ffi::ThreadPool pool, Words key, States x, Floats beta, Floats gamma,
                       Floats field, Floats base, Ints blocks, Ints start, Ints neighbour,
                       Floats weight, Out<States> y, Out<Floats> gain,
                       Setting<bool, kMetropolis> metropolis, Setting<float, kKeep> keep,
                       Setting<int32_t, kSweeps> sweeps, Setting<int32_t, kDevices> devices) {
  const auto batch = gain->dimensions();
  const RowsOf rows(blocks, start, neighbour, weight, batch);
  const Part of_field(field.dimensions(), batch), of_base(base.dimensions(), batch);
  return sweep_chains(
      pool, key, x, beta, gamma, *sweeps, *devices, y, gain,
      [&](size_t c) {
        return hopscale::Spins{rows(c), field.typed_data() + of_field(c),
                               base.typed_data() + of_base(c), *metropolis, *keep};
      },
      [&](size_t a, size_t b) {
        return same(rows(a), rows(b)) && of_field(a) == of_field(b) && of_base(a) == of_base(b);
      },
      [](auto from, size_t n, Lanes& lanes) {
        if (lanes.sites) return hopscale::load_one(from[0], n, lanes.s);
        hopscale::load_spins(from, n, lanes.s);
      },
      [](Lanes& lanes, size_t n, auto to, size_t chains) {
        if (lanes.sites) return hopscale::store_one(lanes.s, n, to[0]);
        hopscale::store_spins(lanes.s, n, to, chains);
      });
}

ffi::Error potts_sweeps(ffi::ThreadPool pool, Words key, States x, Floats beta, Floats field,
                        Ints blocks, Ints start, Ints neighbour, Floats weight, Out<States> y,
                        Out<Floats> gain, Setting<bool, kMetropolis> metropolis,
                        Setting<float, kKeep> keep, Setting<int32_t, kSweeps> sweeps) {
  const auto batch = gain->dimensions();
  const RowsOf rows(blocks, start, neighbour, weight, batch);
  const Part of_field(field.dimensions(), batch);
  const auto values = static_cast<size_t>(field.dimensions().back());
  if (values > hopscale::kMostValues) return ffi::Error::InvalidArgument("too many values");
  return sweep_chains(
      pool, key, x, beta, beta, *sweeps, 1, y, gain,
      [&](size_t c) {
        return hopscale::Potts{rows(c), field.typed_data() + of_field(c), values, *metropolis,
                               *keep};
      },
      [&](size_t a, size_t b) { return same(rows(a), rows(b)) && of_field(a) == of_field(b); },
      [](auto from, size_t n, Lanes& lanes) { hopscale::load_values(from, n, lanes.values); },
      [](Lanes& lanes, size_t n, auto to, size_t chains) {
        hopscale::store_values(lanes.values, n, to, chains);
      });
}

// Calls body(chain, rows of the chain's graph) for chains of n numbers each.
template <typename Body>
ffi::Error over_rows(ffi::ThreadPool& pool, Ints start, Ints neighbour, Floats weight,
                     Dimensions batch, size_t n, Body body) {
  const RowsOf rows(start, start, neighbour, weight, batch);
  size_t chains = 1;
  for (int64_t size : batch) chains *= static_cast<size_t>(size);
  hopscale::for_each_chain(team_of(pool), chains, n,
                           [&](size_t c, const Team&) { body(c, rows(c)); });
  return ffi::Error::Success();
}

ffi::Error pair_fields(ffi::ThreadPool pool, States x, Floats field, Ints start, Ints neighbour,
                       Floats weight, Out<Floats> fields) {
  const auto shape = fields->dimensions();
  const Dimensions batch(shape.begin(), shape.size() - 1);
  const size_t n = size_of(shape);
  return over_rows(pool, start, neighbour, weight, batch, n,
                   [=, x = of_chain(x, batch), field = of_chain(field, batch),
                    fields = fields->typed_data()](size_t c, const Rows& rows) {
                     hopscale::pair_fields(x(c), field(c), rows, fields + c * n);
                   });
}

ffi::Error potts(ffi::ThreadPool pool, States x, Floats field, Ints start, Ints neighbour,
                 Floats weight, Out<Floats> log_prob, Out<Floats> ratios) {
  const auto batch = log_prob->dimensions();
  const size_t values = size_of(ratios->dimensions());
  const size_t n = size_of(ratios->dimensions(), 2) * values;
  return over_rows(pool, start, neighbour, weight, batch, n,
                   [=, x = of_chain(x, batch), field = of_chain(field, batch),
                    log_prob = log_prob->typed_data(),
                    ratios = ratios->typed_data()](size_t c, const Rows& rows) {
                     log_prob[c] = hopscale::potts(x(c), field(c), values, rows, ratios + c * n);
                   });
}

ffi::Error pair_update(ffi::ThreadPool pool, Floats before, States x, Flags moved, Floats,
                       Ints start, Ints neighbour, Floats weight, Out<Floats> after) {
  const auto shape = after->dimensions();
  const Dimensions batch(shape.begin(), shape.size() - 1);
  const size_t n = size_of(shape);
  return over_rows(pool, start, neighbour, weight, batch, n,
                   [=, before = of_chain(before, batch), x = of_chain(x, batch),
                    moved = of_chain(moved, batch),
                    after = after->typed_data()](size_t c, const Rows& rows) {
                     hopscale::pair_update(before(c), x(c), moved(c), rows, after + c * n);
                   });
}

}  // namespace
