// Targets as XLA custom calls. Parameters that all chains share are passed once.
#pragma once

#include "ffi_chains.h"
#include "fhmm.h"
#include "lattice.h"
#include "rbm.h"

namespace {

inline constexpr char kByTime[] = "by_time", kExact[] = "exact";

ffi::Error ising_or_part(ffi::ThreadPool pool, States x, Floats field, Floats down, Floats right,
                         Out<Floats> log_prob, float* ratios) {
  const auto batch = log_prob->dimensions();
  const size_t rows = size_of(x.dimensions(), 2), columns = size_of(x.dimensions());
  const size_t n = rows * columns;
  hopscale::for_each_chain(
      team_of(pool), log_prob->element_count(), n,
      [=, x = of_chain(x, batch), field = of_chain(field, batch), down = of_chain(down, batch),
       right = of_chain(right, batch),
       log_prob = log_prob->typed_data()](size_t chain, const Team& team) {
        log_prob[chain] =
            hopscale::ising(x(chain), field(chain), rows, columns, *down(chain), *right(chain),
                            ratios == nullptr ? nullptr : ratios + chain * n, team);
      });
  return ffi::Error::Success();
}

ffi::Error ising(ffi::ThreadPool pool, States x, Floats field, Floats down, Floats right,
                 Out<Floats> log_prob, Out<Floats> ratios) {
  return ising_or_part(pool, x, field, down, right, log_prob, ratios->typed_data());
}

ffi::Error ising_log_prob(ffi::ThreadPool pool, States x, Floats field, Floats down, Floats right,
                          Out<Floats> log_prob) {
  return ising_or_part(pool, x, field, down, right, log_prob, nullptr);
}

ffi::Error ising_update(ffi::ThreadPool pool, Floats before, States x, Flags moved, Floats field,
                        Floats down, Floats right, Out<Floats> after) {
  const auto batch = after->dimensions();
  const size_t rows = size_of(x.dimensions(), 2), columns = size_of(x.dimensions());
  hopscale::for_each_chain(
      team_of(pool), after->element_count(), rows * columns / 8,
      [=, before = of_chain(before, batch), x = of_chain(x, batch), moved = of_chain(moved, batch),
       field = of_chain(field, batch), down = of_chain(down, batch),
       right = of_chain(right, batch), after = after->typed_data()](size_t chain, const Team&) {
        after[chain] = *before(chain) +
                       hopscale::ising_change(x(chain), moved(chain), field(chain), rows, columns,
                                              *down(chain), *right(chain));
      });
  return ffi::Error::Success();
}

// The models of all chains.
auto fhmm_of_chain(Floats readings, Floats weights, Floats bias, Floats sigma, Floats stay,
                   Floats first, bool by_time, bool exact, Dimensions batch) {
  return [=, length = size_of(readings.dimensions()), factors = size_of(weights.dimensions()),
          readings = of_chain(readings, batch), weights = of_chain(weights, batch),
          bias = of_chain(bias, batch), sigma = of_chain(sigma, batch),
          stay = of_chain(stay, batch), first = of_chain(first, batch)](size_t chain) {
    const float deviation = *sigma(chain);
    return hopscale::Fhmm{readings(chain),
                          weights(chain),
                          length,
                          factors,
                          *bias(chain),
                          1.0f / (deviation * deviation),
                          hopscale::half_logit(*stay(chain)),
                          hopscale::half_logit(*first(chain)),
                          by_time,
                          exact};
  };
}

ffi::Error fhmm(ffi::ThreadPool pool, States x, Floats readings, Floats weights, Floats bias,
                Floats sigma, Floats stay, Floats first, Out<Floats> log_prob, Out<Floats> ratios,
                Setting<bool, kByTime> by_time, Setting<bool, kExact> exact) {
  const auto batch = log_prob->dimensions();
  const size_t n = size_of(x.dimensions(), 2) * size_of(x.dimensions());
  hopscale::for_each_chain(
      team_of(pool), log_prob->element_count(), n,
      [=,
       model =
           fhmm_of_chain(readings, weights, bias, sigma, stay, first, *by_time, *exact, batch),
       x = of_chain(x, batch), log_prob = log_prob->typed_data(),
       ratios = ratios->typed_data()](size_t chain, const Team& team) {
        log_prob[chain] = hopscale::fhmm(model(chain), x(chain), ratios + chain * n, team);
      });
  return ffi::Error::Success();
}

ffi::Error fhmm_update(ffi::ThreadPool pool, Floats before, States x, Flags moved, Floats readings,
                       Floats weights, Floats bias, Floats sigma, Floats stay, Floats first,
                       Out<Floats> after, Setting<bool, kByTime> by_time) {
  const auto batch = after->dimensions();
  const size_t n = size_of(x.dimensions(), 2) * size_of(x.dimensions());
  hopscale::for_each_chain(
      team_of(pool), after->element_count(), n / 8,
      [=, model = fhmm_of_chain(readings, weights, bias, sigma, stay, first, *by_time, true, batch),
       before = of_chain(before, batch), x = of_chain(x, batch), moved = of_chain(moved, batch),
       after = after->typed_data()](size_t chain, const Team&) {
        after[chain] = *before(chain) + hopscale::fhmm_change(model(chain), x(chain), moved(chain));
      });
  return ffi::Error::Success();
}

ffi::Error hamming(ffi::ThreadPool pool, States x, States origin, Out<Floats> distance) {
  const auto batch = distance->dimensions();
  const size_t n = size_of(x.dimensions());
  // A byte of a state takes so little time that waking another thread is worthwhile only for many.
  hopscale::for_each_chain(
      team_of(pool), distance->element_count(), n / 32,
      [=, x = of_chain(x, batch), origin = of_chain(origin, batch),
       distance = distance->typed_data()](size_t chain, const Team&) {
        distance[chain] = hopscale::hamming(x(chain), origin(chain), n);
      });
  return ffi::Error::Success();
}

ffi::Error rbm_inputs(ffi::ThreadPool pool, Floats before, States x, Flags moved, Floats by_visible,
                      Out<Floats> after) {
  const auto shape = after->dimensions();
  const Dimensions batch(shape.begin(), shape.size() - 1);
  const size_t visible = size_of(x.dimensions()), hidden = size_of(shape);
  hopscale::for_each_chain(
      team_of(pool), after->element_count() / std::max<size_t>(hidden, 1), visible + hidden,
      [=, before = of_chain(before, batch), x = of_chain(x, batch), moved = of_chain(moved, batch),
       by_visible = of_chain(by_visible, batch),
       after = after->typed_data()](size_t chain, const Team&) {
        hopscale::rbm_inputs(before(chain), x(chain), moved(chain), by_visible(chain), visible,
                             hidden, after + chain * hidden);
      });
  return ffi::Error::Success();
}

}  // namespace
