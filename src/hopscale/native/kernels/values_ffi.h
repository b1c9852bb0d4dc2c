// Sites of several values as XLA custom calls.
#pragma once

#include "choice_ffi.h"
#include "ffi_chains.h"
#include "noise.h"
#include "value_race.h"
#include "value_draws.h"

namespace {

// The log-ratios of a chain's values. Its last two dimensions are sites and values.
hopscale::Values values_of(Floats ratios, States here, size_t chain, int32_t balance) {
  const auto shape = ratios.dimensions();
  const auto n = static_cast<size_t>(shape[shape.size() - 2]);
  const auto values = static_cast<size_t>(shape.back());
  return {ratios.typed_data() + chain * n * values, here.typed_data() + chain * n, n, values,
          hopscale::Balance(balance)};
}

// Calls body(chain, values of the chain, where its sites begin, team) for every chain.
template <typename Body>
ffi::Error over_values(ffi::ThreadPool& pool, Floats ratios, States here, int32_t balance,
                       Body body) {
  const hopscale::Values first = values_of(ratios, here, 0, balance);
  if (first.n == 0 || first.values == 0)
    return ffi::Error::InvalidArgument("there are no values to choose from");
  hopscale::for_each_chain(team_of(pool), here.element_count() / first.n, first.n * first.values,
                           [=](size_t chain, const Team& team) {
                             body(chain, values_of(ratios, here, chain, balance), chain * first.n,
                                  team);
                           });
  return ffi::Error::Success();
}

ffi::Error value_totals(ffi::ThreadPool pool, Floats ratios, States here, Out<Floats> totals,
                        BalanceSetting balance) {
  return over_values(pool, ratios, here, *balance,
                     [totals = totals->typed_data()](size_t, const hopscale::Values& of, size_t at,
                                                     const Team& team) {
                       hopscale::log_totals(of, totals + at, team);
                     });
}

ffi::Error draw_values(ffi::ThreadPool pool, Words key, Floats ratios, States here, Ints sites,
                       Ints length, Out<States> drawn, BalanceSetting balance) {
  return over_values(
      pool, ratios, here, *balance,
      [keys = key.typed_data(), sites = sites.typed_data(), length = length.typed_data(),
       drawn = drawn->typed_data()](size_t chain, const hopscale::Values& of, size_t at,
                                    const Team&) {
        hopscale::draw_values(of, hopscale::key_of(keys, chain), sites + at, length[chain],
                              drawn + at);
      });
}

ffi::Error values_log_prob(ffi::ThreadPool pool, Floats ratios, States here, Floats totals, States to,
                           Flags moved, Out<Floats> log_prob, BalanceSetting balance) {
  return over_values(
      pool, ratios, here, *balance,
      [totals = totals.typed_data(), to = to.typed_data(), moved = bytes(moved.typed_data()),
       log_prob = log_prob->typed_data()](size_t chain, const hopscale::Values& of, size_t at,
                                          const Team&) {
        log_prob[chain] = hopscale::values_log_prob(of, totals + at, to + at, moved + at);
      });
}

ffi::Error race_values(ffi::ThreadPool pool, Words key, Floats ratios, States here, Ints length,
                       Out<Ints> sites, Out<Flags> chosen, Out<States> drawn, Out<Floats> log_prob,
                       BalanceSetting balance) {
  return over_values(
      pool, ratios, here, *balance,
      [keys = key.typed_data(), length = length.typed_data(), sites = sites->typed_data(),
       chosen = bytes(chosen->typed_data()), drawn = drawn->typed_data(),
       log_prob = log_prob->typed_data()](size_t chain, const hopscale::Values& of, size_t at,
                                          const Team& team) {
        log_prob[chain] = hopscale::race_values(hopscale::key_of(keys, chain), of, length[chain],
                                                sites + at, chosen + at, drawn + at, team);
      });
}

ffi::Error order_values(ffi::ThreadPool pool, Floats ratios, States here, States to, Ints sites,
                        Flags chosen, Ints length, Out<Floats> log_prob, BalanceSetting balance,
                        Setting<bool, kBackwards> backwards) {
  return over_values(
      pool, ratios, here, *balance,
      [to = to.typed_data(), sites = sites.typed_data(), chosen = bytes(chosen.typed_data()),
       length = length.typed_data(), log_prob = log_prob->typed_data(), backwards = *backwards](
          size_t chain, const hopscale::Values& of, size_t at, const Team& team) {
        log_prob[chain] = hopscale::order_values(of, to + at, sites + at, chosen + at,
                                                 length[chain], backwards, team);
      });
}

}  // namespace
