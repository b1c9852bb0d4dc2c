// The kernels as XLA custom calls, under the names that the library exports.

#include "choice_ffi.h"
#include "sweep_ffi.h"
#include "target_ffi.h"
#include "values_ffi.h"

#pragma GCC visibility push(default)

XLA_FFI_DEFINE_HANDLER_SYMBOL(Race, draw<hopscale::race>);
XLA_FFI_DEFINE_HANDLER_SYMBOL(Repeated, draw<hopscale::repeated>);
XLA_FFI_DEFINE_HANDLER_SYMBOL(OrderLogProb, order_log_prob);
XLA_FFI_DEFINE_HANDLER_SYMBOL(RepeatedLogProb, repeated_log_prob);
XLA_FFI_DEFINE_HANDLER_SYMBOL(Uniform, uniform);
XLA_FFI_DEFINE_HANDLER_SYMBOL(Odd, odd);
XLA_FFI_DEFINE_HANDLER_SYMBOL(StepKey, step_key);
XLA_FFI_DEFINE_HANDLER_SYMBOL(RandomWords, random_words);

XLA_FFI_DEFINE_HANDLER_SYMBOL(Ising, ising);
XLA_FFI_DEFINE_HANDLER_SYMBOL(IsingLogProb, ising_log_prob);
XLA_FFI_DEFINE_HANDLER_SYMBOL(IsingUpdate, ising_update);
XLA_FFI_DEFINE_HANDLER_SYMBOL(Fhmm, fhmm);
XLA_FFI_DEFINE_HANDLER_SYMBOL(FhmmUpdate, fhmm_update);
XLA_FFI_DEFINE_HANDLER_SYMBOL(Hamming, hamming);
XLA_FFI_DEFINE_HANDLER_SYMBOL(RbmInputs, rbm_inputs);

XLA_FFI_DEFINE_HANDLER_SYMBOL(SpinSweeps, spin_sweeps);
XLA_FFI_DEFINE_HANDLER_SYMBOL(PottsSweeps, potts_sweeps);
XLA_FFI_DEFINE_HANDLER_SYMBOL(PairFields, pair_fields);
XLA_FFI_DEFINE_HANDLER_SYMBOL(PairUpdate, pair_update);
XLA_FFI_DEFINE_HANDLER_SYMBOL(Potts, potts);

XLA_FFI_DEFINE_HANDLER_SYMBOL(RaceValues, race_values);
XLA_FFI_DEFINE_HANDLER_SYMBOL(OrderValues, order_values);
XLA_FFI_DEFINE_HANDLER_SYMBOL(ValueTotals, value_totals);
XLA_FFI_DEFINE_HANDLER_SYMBOL(DrawValues, draw_values);
XLA_FFI_DEFINE_HANDLER_SYMBOL(ValuesLogProb, values_log_prob);

#pragma GCC visibility pop
