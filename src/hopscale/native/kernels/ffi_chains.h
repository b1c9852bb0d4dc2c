// What all custom calls share: buffers, settings, threads, and a chain's part of an operand.
#pragma once

#include <vector>

#include "chains.h"
#include "numbers.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using hopscale::Key;
using hopscale::Team;

using Words = ffi::Buffer<ffi::U32>;
using Floats = ffi::Buffer<ffi::F32>;
using Ints = ffi::Buffer<ffi::S32>;
using Flags = ffi::Buffer<ffi::PRED>;
using States = ffi::Buffer<ffi::S8>;
using Dimensions = ffi::AnyBuffer::Dimensions;
template <typename Buffer>
using Out = ffi::Result<Buffer>;
template <typename T, const char* name>
using Setting = ffi::Attr<T, name>;
inline constexpr char kBalance[] = "balance";
using BalanceSetting = Setting<int32_t, kBalance>;

// XLA reads a handler's operands off its signature, once it knows what a pool is.
template <>
struct xla::ffi::CtxBinding<xla::ffi::ThreadPool> {
  using Ctx = ThreadPool;
};

namespace {

Team team_of(ffi::ThreadPool& pool) {
  const auto threads = static_cast<size_t>(std::max<int64_t>(1, pool.num_threads()));
  return {threads - 1, [&pool](auto task) { pool.Schedule(std::move(task)); }};
}

uint8_t* bytes(bool* flags) { return reinterpret_cast<uint8_t*>(flags); }

// A dimension, counted from the last.
size_t size_of(Dimensions shape, size_t from_last = 1) {
  return static_cast<size_t>(shape[shape.size() - from_last]);
}

// Where a chain's part of an operand begins. Operands have the batch's leading dimensions, or 1 in
// place of some: data that is the same for all chains, such as parameters, is stored once.
class Part {
 public:
  Part(Dimensions shape, Dimensions batch) {
    size_t size = 1;
    for (size_t d = batch.size(); d < shape.size(); ++d) size *= static_cast<size_t>(shape[d]);
    for (size_t d = batch.size(); d-- > 0;) {
      const auto have = static_cast<size_t>(shape[d]);
      axes_.push_back({static_cast<size_t>(batch[d]), have == 1 ? 0 : size});
      size *= have;
    }
  }
  size_t operator()(size_t chain) const {
    size_t at = 0;
    for (const Axis& axis : axes_) {
      at += chain % axis.count * axis.stride;
      chain /= axis.count;
    }
    return at;
  }

 private:
  struct Axis {
    size_t count, stride;
  };
  std::vector<Axis> axes_;  // the innermost first
};

// A chain's part of an operand, as a function of the chain.
template <typename Buffer>
auto of_chain(const Buffer& buffer, Dimensions batch) {
  return [data = buffer.typed_data(), part = Part(buffer.dimensions(), batch)](size_t chain) {
    if constexpr (std::is_same_v<Buffer, Flags>) {
      return bytes(data) + part(chain);
    } else {
      return data + part(chain);
    }
  };
}

}  // namespace
