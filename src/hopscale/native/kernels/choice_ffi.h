// Choices of sites and random words as XLA custom calls. Leading dimensions are chains.
#pragma once

#include "ffi_chains.h"
#include "noise.h"
#include "race.h"
#include "repeated.h"

using hopscale::Balance;
using hopscale::key_of;

namespace {

inline constexpr char kBackwards[] = "backwards";

// Calls body(chain, chain * n, n, team) for every chain of arrays of this shape, whose last
// dimension is sites.
template <typename Body>
ffi::Error over_chains(ffi::ThreadPool& pool, Dimensions shape, Body body) {
  const auto n = static_cast<size_t>(shape.back());
  size_t chains = 1;
  for (size_t d = 0; d + 1 < shape.size(); ++d) chains *= static_cast<size_t>(shape[d]);
  if (n == 0) return ffi::Error::InvalidArgument("there are no sites to choose from");
  hopscale::for_each_chain(team_of(pool), chains, n,
                           [=](size_t chain, const Team& team) {
                             body(chain, chain * n, n, team);
                           });
  return ffi::Error::Success();
}

template <auto kernel>  // hopscale::race or hopscale::repeated
ffi::Error draw(ffi::ThreadPool pool, Words key, Floats s, Ints length, Out<Ints> sites,
                Out<Flags> chosen, Out<Floats> log_prob, BalanceSetting balance) {
  return over_chains(
      pool, s.dimensions(),
      [keys = key.typed_data(), s = s.typed_data(), length = length.typed_data(),
       sites = sites->typed_data(), chosen = bytes(chosen->typed_data()),
       log_prob = log_prob->typed_data(),
       balance = Balance(*balance)](size_t chain, size_t at, size_t n, const Team& team) {
        log_prob[chain] = kernel(key_of(keys, chain), s + at, n, balance, length[chain],
                                 sites + at, chosen + at, team);
      });
}

ffi::Error order_log_prob(ffi::ThreadPool pool, Floats s, Ints sites, Flags chosen, Ints length,
                          Out<Floats> log_prob, BalanceSetting balance,
                          Setting<bool, kBackwards> backwards) {
  return over_chains(
      pool, s.dimensions(),
      [s = s.typed_data(), sites = sites.typed_data(), chosen = bytes(chosen.typed_data()),
       length = length.typed_data(), log_prob = log_prob->typed_data(),
       balance = Balance(*balance), backwards = *backwards](size_t chain, size_t at, size_t n,
                                                                 const Team& team) {
        log_prob[chain] = hopscale::order_log_prob(s + at, n, balance, sites + at,
                                                   chosen + at, length[chain], backwards, team);
      });
}

ffi::Error repeated_log_prob(ffi::ThreadPool pool, Floats s, Ints sites, Ints length,
                             Out<Floats> log_prob, BalanceSetting balance) {
  return over_chains(
      pool, s.dimensions(),
      [s = s.typed_data(), sites = sites.typed_data(), length = length.typed_data(),
       log_prob = log_prob->typed_data(),
       balance = Balance(*balance)](size_t chain, size_t at, size_t n, const Team& team) {
        log_prob[chain] = hopscale::repeated_log_prob(s + at, n, balance, sites + at,
                                                      length[chain], team);
      });
}

ffi::Error uniform(ffi::ThreadPool pool, Words key, Ints length, Out<Ints> sites,
                   Out<Flags> chosen) {
  return over_chains(pool, sites->dimensions(),
                     [keys = key.typed_data(), length = length.typed_data(),
                      sites = sites->typed_data(), chosen = bytes(chosen->typed_data())](
                         size_t chain, size_t at, size_t n, const Team& team) {
                       hopscale::uniform(key_of(keys, chain), n, length[chain], sites + at,
                                         chosen + at, team);
                     });
}

ffi::Error odd(ffi::ThreadPool pool, Ints sites, Ints length, Out<Flags> is_odd) {
  return over_chains(pool, sites.dimensions(),
                     [sites = sites.typed_data(), length = length.typed_data(),
                      is_odd = bytes(is_odd->typed_data())](size_t chain, size_t at, size_t n,
                                                            const Team&) {
                       hopscale::odd(sites + at, n, length[chain], is_odd + at);
                     });
}

ffi::Error step_key(ffi::ThreadPool pool, Words key, Ints step, Ints chain, Out<Words> own) {
  hopscale::in_pieces(team_of(pool), own->element_count() / 2,
                      [keys = key.typed_data(), steps = step.typed_data(),
                       chains = chain.typed_data(), own = own->typed_data()](
                          size_t begin, size_t end) {
                        hopscale::step_keys(keys, steps, chains, begin, end, own);
                      });
  return ffi::Error::Success();
}

ffi::Error random_words(ffi::ThreadPool pool, Words key, Out<Words> words) {
  const auto count = static_cast<size_t>(words->dimensions().back());
  hopscale::in_pieces(team_of(pool), key.element_count() / 2,
                      [keys = key.typed_data(), words = words->typed_data(), count](
                          size_t begin, size_t end) {
                        hopscale::random_words(keys, count, begin, end, words);
                      });
  return ffi::Error::Success();
}

}  // namespace
