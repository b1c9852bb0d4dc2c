// `residual.cu` as a function that tests call.

#include "residual.cu"

// Returns whether it ran to its end; `error` is what went wrong.
extern "C" bool run(u32 grid, u32 threads, u32 seed, const float* images, const char* weights,
                    const float* vectors, float* energies, float* gradients, u32 weight_blocks,
                    u32 same_weights, const Batch* batch, u32 count, char* error, u32 room) {
  std::vector<char> scratch(static_cast<size_t>(count) * scratch_bytes, '\xff');
  const std::string text =
      emulated::launch(grid, CLUSTER, threads, shared_bytes, seed, [&] {
        residual_pass(images, weights, vectors, energies, gradients, scratch.data(), weight_blocks,
                      same_weights, *batch);
      });
  error[text.copy(error, room - 1)] = '\0';
  return text.empty();
}
