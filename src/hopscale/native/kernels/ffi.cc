// The kernels as XLA custom calls. Leading dimensions are chains.

#include "ffi_chains.h"
#include "lattice.h"
#include "noise.h"
#include "race.h"
#include "rbm.h"
#include "repeated.h"
#include "sweep_ffi.h"
#include "values_ffi.h"


using hopscale::Balance;
using hopscale::key_of;

namespace {

// body(chain, chain * n, n, team) for every chain of arrays of this shape, whose last dimension is
// sites.
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
                Out<Flags> chosen, Out<Floats> log_prob, int32_t balance) {
  return over_chains(
      pool, s.dimensions(),
      [keys = key.typed_data(), s = s.typed_data(), length = length.typed_data(),
       sites = sites->typed_data(), chosen = bytes(chosen->typed_data()),
       log_prob = log_prob->typed_data(),
       balance](size_t chain, size_t at, size_t n, const Team& team) {
        log_prob[chain] = kernel(key_of(keys, chain), s + at, n, Balance(balance), length[chain],
                                 sites + at, chosen + at, team);
      });
}

auto draw_signature() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::ThreadPool>()
      .Arg<Words>()
      .Arg<Floats>()
      .Arg<Ints>()
      .Ret<Ints>()
      .Ret<Flags>()
      .Ret<Floats>()
      .Attr<int32_t>("balance");
}

ffi::Error order_log_prob(ffi::ThreadPool pool, Floats s, Ints sites, Flags chosen, Ints length,
                          Out<Floats> log_prob, int32_t balance, bool backwards) {
  return over_chains(
      pool, s.dimensions(),
      [s = s.typed_data(), sites = sites.typed_data(), chosen = bytes(chosen.typed_data()),
       length = length.typed_data(), log_prob = log_prob->typed_data(), balance,
       backwards](size_t chain, size_t at, size_t n, const Team& team) {
        log_prob[chain] = hopscale::order_log_prob(s + at, n, Balance(balance), sites + at,
                                                   chosen + at, length[chain], backwards, team);
      });
}

ffi::Error repeated_log_prob(ffi::ThreadPool pool, Floats s, Ints sites, Ints length,
                             Out<Floats> log_prob, int32_t balance) {
  return over_chains(
      pool, s.dimensions(),
      [s = s.typed_data(), sites = sites.typed_data(), length = length.typed_data(),
       log_prob = log_prob->typed_data(),
       balance](size_t chain, size_t at, size_t n, const Team& team) {
        log_prob[chain] = hopscale::repeated_log_prob(s + at, n, Balance(balance), sites + at,
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

ffi::Error ising_or_part(ffi::ThreadPool pool, States x, Floats field, Floats down, Floats right,
                         Out<Floats> log_prob, float* ratios) {
  const auto batch = log_prob->dimensions(), shape = x.dimensions();
  const auto rows = static_cast<size_t>(shape[shape.size() - 2]);
  const auto columns = static_cast<size_t>(shape[shape.size() - 1]);
  const size_t n = rows * columns;
  hopscale::for_each_chain(
      team_of(pool), log_prob->element_count(), n,
      [=, of_x = Part(shape, batch), of_field = Part(field.dimensions(), batch),
       of_down = Part(down.dimensions(), batch), of_right = Part(right.dimensions(), batch),
       x = x.typed_data(), field = field.typed_data(), down = down.typed_data(),
       right = right.typed_data(), log_prob = log_prob->typed_data()](size_t chain, const Team& team) {
        log_prob[chain] =
            hopscale::ising(x + of_x(chain), field + of_field(chain), rows, columns,
                            down[of_down(chain)], right[of_right(chain)],
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
  const auto batch = after->dimensions(), shape = x.dimensions();
  const auto rows = static_cast<size_t>(shape[shape.size() - 2]);
  const auto columns = static_cast<size_t>(shape[shape.size() - 1]);
  hopscale::for_each_chain(
      team_of(pool), after->element_count(), rows * columns / 8,
      [=, of_before = Part(before.dimensions(), batch), of_x = Part(x.dimensions(), batch),
       of_moved = Part(moved.dimensions(), batch), of_field = Part(field.dimensions(), batch),
       of_down = Part(down.dimensions(), batch), of_right = Part(right.dimensions(), batch),
       before = before.typed_data(), x = x.typed_data(), moved = bytes(moved.typed_data()),
       field = field.typed_data(), down = down.typed_data(), right = right.typed_data(),
       after = after->typed_data()](size_t chain, const Team&) {
        after[chain] = before[of_before(chain)] +
                       hopscale::ising_change(x + of_x(chain), moved + of_moved(chain),
                                              field + of_field(chain), rows, columns,
                                              down[of_down(chain)], right[of_right(chain)]);
      });
  return ffi::Error::Success();
}

auto ising_signature() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::ThreadPool>()
      .Arg<States>()
      .Arg<Floats>()
      .Arg<Floats>()
      .Arg<Floats>()
      .Ret<Floats>();
}

ffi::Error hamming(ffi::ThreadPool pool, States x, States origin, Out<Floats> distance) {
  const auto batch = distance->dimensions();
  const auto n = static_cast<size_t>(x.dimensions().back());
  // A byte of a state takes so little that another thread is worth waking for many bytes only.
  hopscale::for_each_chain(
      team_of(pool), distance->element_count(), n / 32,
      [=, of_x = Part(x.dimensions(), batch), of_origin = Part(origin.dimensions(), batch),
       x = x.typed_data(), origin = origin.typed_data(),
       distance = distance->typed_data()](size_t chain, const Team&) {
        distance[chain] = hopscale::hamming(x + of_x(chain), origin + of_origin(chain), n);
      });
  return ffi::Error::Success();
}

ffi::Error rbm_inputs(ffi::ThreadPool pool, Floats before, States x, Flags moved, Floats by_visible,
                      Out<Floats> after) {
  const auto shape = after->dimensions();
  const Dimensions batch(shape.begin(), shape.size() - 1);
  const auto visible = static_cast<size_t>(x.dimensions().back());
  const auto hidden = static_cast<size_t>(shape.back());
  hopscale::for_each_chain(
      team_of(pool), after->element_count() / std::max<size_t>(hidden, 1), visible + hidden,
      [=, of_before = Part(before.dimensions(), batch), of_x = Part(x.dimensions(), batch),
       of_moved = Part(moved.dimensions(), batch), of_weights = Part(by_visible.dimensions(), batch),
       before = before.typed_data(), x = x.typed_data(), moved = bytes(moved.typed_data()),
       by_visible = by_visible.typed_data(),
       after = after->typed_data()](size_t chain, const Team&) {
        hopscale::rbm_inputs(before + of_before(chain), x + of_x(chain), moved + of_moved(chain),
                             by_visible + of_weights(chain), visible, hidden,
                             after + chain * hidden);
      });
  return ffi::Error::Success();
}

}  // namespace

#pragma GCC visibility push(default)

XLA_FFI_DEFINE_HANDLER_SYMBOL(SpinSweeps, spin_sweeps,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Words>()
                                  .Arg<States>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Ints>()
                                  .Arg<Ints>()
                                  .Arg<Ints>()
                                  .Arg<Floats>()
                                  .Ret<States>()
                                  .Ret<Floats>()
                                  .Attr<bool>("metropolis")
                                  .Attr<float>("keep")
                                  .Attr<int32_t>("sweeps"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(PottsSweeps, potts_sweeps,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Words>()
                                  .Arg<States>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Ints>()
                                  .Arg<Ints>()
                                  .Arg<Ints>()
                                  .Arg<Floats>()
                                  .Ret<States>()
                                  .Ret<Floats>()
                                  .Attr<bool>("metropolis")
                                  .Attr<float>("keep")
                                  .Attr<int32_t>("sweeps"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(PairFields, pair_fields,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<States>()
                                  .Arg<Floats>()
                                  .Arg<Ints>()
                                  .Arg<Ints>()
                                  .Arg<Floats>()
                                  .Ret<Floats>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(PottsEnergies, potts_energies,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<States>()
                                  .Arg<Floats>()
                                  .Arg<Ints>()
                                  .Arg<Ints>()
                                  .Arg<Floats>()
                                  .Ret<Floats>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(ValueTotals, value_totals,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Floats>()
                                  .Arg<States>()
                                  .Ret<Floats>()
                                  .Attr<int32_t>("balance"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(DrawValues, draw_values,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Words>()
                                  .Arg<Floats>()
                                  .Arg<States>()
                                  .Arg<Ints>()
                                  .Arg<Ints>()
                                  .Ret<States>()
                                  .Attr<int32_t>("balance"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(ValuesLogProb, values_log_prob,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Floats>()
                                  .Arg<States>()
                                  .Arg<Floats>()
                                  .Arg<States>()
                                  .Arg<Flags>()
                                  .Ret<Floats>()
                                  .Attr<int32_t>("balance"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(PairUpdate, pair_update,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Floats>()
                                  .Arg<States>()
                                  .Arg<Flags>()
                                  .Arg<Floats>()
                                  .Arg<Ints>()
                                  .Arg<Ints>()
                                  .Arg<Floats>()
                                  .Ret<Floats>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(RbmInputs, rbm_inputs,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Floats>()
                                  .Arg<States>()
                                  .Arg<Flags>()
                                  .Arg<Floats>()
                                  .Ret<Floats>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(Ising, ising, ising_signature().Ret<Floats>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(IsingLogProb, ising_log_prob, ising_signature());

XLA_FFI_DEFINE_HANDLER_SYMBOL(IsingUpdate, ising_update,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Floats>()
                                  .Arg<States>()
                                  .Arg<Flags>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Ret<Floats>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    Hamming, hamming,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<States>().Arg<States>().Ret<Floats>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(Race, draw<hopscale::race>, draw_signature());

XLA_FFI_DEFINE_HANDLER_SYMBOL(Repeated, draw<hopscale::repeated>, draw_signature());

XLA_FFI_DEFINE_HANDLER_SYMBOL(OrderLogProb, order_log_prob,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Floats>()
                                  .Arg<Ints>()
                                  .Arg<Flags>()
                                  .Arg<Ints>()
                                  .Ret<Floats>()
                                  .Attr<int32_t>("balance")
                                  .Attr<bool>("backwards"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(RepeatedLogProb, repeated_log_prob,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Floats>()
                                  .Arg<Ints>()
                                  .Arg<Ints>()
                                  .Ret<Floats>()
                                  .Attr<int32_t>("balance"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(Uniform, uniform,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Words>()
                                  .Arg<Ints>()
                                  .Ret<Ints>()
                                  .Ret<Flags>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    Odd, odd,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Ints>().Arg<Ints>().Ret<Flags>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    StepKey, step_key,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Words>().Arg<Ints>().Arg<Ints>().Ret<Words>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(RandomWords, random_words,
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Words>().Ret<Words>());

#pragma GCC visibility pop
