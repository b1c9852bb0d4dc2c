// Launches kernels that were compiled at run time, as XLA custom calls.
//
// NVIDIA's driver is loaded when it is first needed: this library itself needs neither a GPU nor
// CUDA to be built or loaded.

#include <dlfcn.h>

#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

// The part of the driver's interface that is used here.
using Handle = void*;  // a context, library, kernel or stream
constexpr int kMaxDynamicSharedBytes = 8;

struct Driver {
  int (*error_string)(int, const char**);
  int (*retain)(Handle*, int);
  int (*push)(Handle);
  int (*pop)(Handle*);
  int (*load)(Handle*, const void*, int*, void**, unsigned, int*, void**, unsigned);
  int (*kernel)(Handle*, Handle, const char*);
  int (*function)(Handle*, Handle);
  int (*global)(unsigned long long*, size_t*, Handle, const char*);
  int (*set)(int, int, Handle, int);
  int (*copy)(void*, unsigned long long, size_t);
  int (*launch)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                Handle, void**, void**);

  static const Driver* get() {
    static Driver driver;
    static const bool found = driver.open();
    return found ? &driver : nullptr;
  }

 private:
  bool open() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) return false;
    const auto find = [library](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    return find(error_string, "cuGetErrorString") && find(retain, "cuDevicePrimaryCtxRetain") &&
           find(push, "cuCtxPushCurrent_v2") && find(pop, "cuCtxPopCurrent_v2") &&
           find(load, "cuLibraryLoadData") && find(kernel, "cuLibraryGetKernel") &&
           find(function, "cuKernelGetFunction") && find(global, "cuLibraryGetGlobal") &&
           find(set, "cuKernelSetAttribute") && find(copy, "cuMemcpyDtoH_v2") &&
           find(launch, "cuLaunchKernel");
  }
};

struct Loaded {
  Handle kernel;
  unsigned shared_bytes, scratch_bytes, cluster_size;
};

std::mutex mutex;
std::map<std::pair<int64_t, int64_t>, Loaded> kernels;  // by the image's size

std::string what(int code) {
  const char* text = nullptr;
  Driver::get()->error_string(code, &text);
  return text == nullptr ? "error " + std::to_string(code) : text;
}

// Loads a kernel for these devices; throws nothing, returns the driver's error.
int load(const void* image, const int* devices, int count, Loaded& loaded) {
  const Driver& driver = *Driver::get();
  Handle library = nullptr;
  int code = driver.load(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (code == 0) code = driver.kernel(&loaded.kernel, library, "residual_pass");
  for (int i = 0; code == 0 && i < count; ++i) {
    Handle context = nullptr, function = nullptr;
    code = driver.retain(&context, devices[i]);
    if (code == 0) code = driver.push(context);
    if (code != 0) break;
    const auto number = [&](const char* name, unsigned& value) {
      unsigned long long at = 0;
      size_t size = 0;
      if (code == 0) code = driver.global(&at, &size, library, name);
      if (code == 0) code = driver.copy(&value, at, sizeof(value));
    };
    number("shared_bytes", loaded.shared_bytes);
    number("scratch_bytes", loaded.scratch_bytes);
    number("cluster_size", loaded.cluster_size);
    const int bytes = static_cast<int>(loaded.shared_bytes);
    if (code == 0) code = driver.set(kMaxDynamicSharedBytes, bytes, loaded.kernel, devices[i]);
    // A kernel is otherwise loaded at its first launch, which may be inside a graph.
    if (code == 0) code = driver.function(&function, loaded.kernel);
    driver.pop(&context);
  }
  return code;
}

// A batch, its innermost axis first, and how far apart each operand has what belongs to neighbours
// along an axis: 0 where it is the same. The kernel has the same declaration.
constexpr int kAxes = 4;
enum Operand { kImages, kWeights, kVectors, kOperands };

struct Batch {
  unsigned size[kAxes] = {1, 1, 1, 1};
  unsigned stride[kOperands][kAxes] = {};

  // Operands have the batch's dimensions, or 1 in place of some. Returns whether that many axes,
  // with those merged along which the same operands vary, can be described.
  bool describe(const int64_t* const have[kOperands], const int64_t* dimensions, size_t number) {
    unsigned length[kOperands] = {1, 1, 1};
    int axis = -1;
    for (size_t d = number; d-- > 0;) {
      if (dimensions[d] == 1) continue;
      bool merges = axis >= 0;
      for (int k = 0; k < kOperands && merges; ++k)
        merges = (have[k][d] != 1) == (stride[k][axis] != 0);
      if (!merges && ++axis == kAxes) return false;
      size[axis] *= static_cast<unsigned>(dimensions[d]);
      for (int k = 0; k < kOperands; ++k) {
        if (have[k][d] == 1) continue;
        if (!merges) stride[k][axis] = length[k];
        length[k] *= static_cast<unsigned>(dimensions[d]);
      }
    }
    return true;
  }

  // How many in succession have the same weights.
  unsigned same_weights() const {
    unsigned each = 1;
    for (int axis = 0; axis < kAxes && stride[kWeights][axis] == 0; ++axis) each *= size[axis];
    return each;
  }
};

constexpr unsigned kThreads = 160;

ffi::Error residual_pass(Handle stream, ffi::Buffer<ffi::F32> images, ffi::Buffer<ffi::BF16> weights,
                         ffi::Buffer<ffi::F32> vectors, ffi::Result<ffi::Buffer<ffi::F32>> energies,
                         ffi::Result<ffi::Buffer<ffi::F32>> gradients,
                         ffi::Result<ffi::Buffer<ffi::U8>> scratch) {
  const auto batch = energies->dimensions(), shape = images.dimensions();
  const size_t dimensions = batch.size();
  Loaded loaded;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    const auto found = kernels.find({shape[dimensions], shape[dimensions + 1]});
    if (found == kernels.end()) return ffi::Error::Internal("no kernel for images of this size");
    loaded = found->second;
  }
  Batch described;
  const int64_t* const have[kOperands] = {images.dimensions().begin(), weights.dimensions().begin(),
                                          vectors.dimensions().begin()};
  if (!described.describe(have, batch.begin(), dimensions)) {
    return ffi::Error::InvalidArgument("images and weights vary along too many axes in turn");
  }
  unsigned count = static_cast<unsigned>(energies->element_count());
  if (count == 0) return ffi::Error::Success();
  auto* image = images.typed_data();
  auto* weight = weights.typed_data();
  auto* vector = vectors.typed_data();
  auto* energy = energies->typed_data();
  auto* gradient = gradients->typed_data();
  auto* working = scratch->typed_data();
  auto blocks = static_cast<unsigned>(weights.dimensions()[dimensions]);
  unsigned each = described.same_weights();
  void* arguments[] = {&image,   &weight, &vector, &energy,   &gradient,
                       &working, &blocks, &each,   &described};
  const unsigned size = loaded.cluster_size, padded = (each + size - 1) / size * size;
  const int code = Driver::get()->launch(loaded.kernel, count / each * padded, 1, 1, kThreads, 1, 1,
                                         loaded.shared_bytes, stream, arguments, nullptr);
  return code == 0 ? ffi::Error::Success() : ffi::Error::Internal(what(code));
}

}  // namespace

#pragma GCC visibility push(default)

XLA_FFI_DEFINE_HANDLER_SYMBOL(ResidualPass, residual_pass,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<Handle>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::BF16>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::U8>>(),
                              {ffi::Traits::kCmdBufferCompatible});

// Loads the kernel for images of this size. Returns the bytes of working memory for an image, or 0
// and a text.
extern "C" unsigned hopscale_load_residual_pass(const void* image, int64_t height, int64_t width,
                                                const int* devices, int count, char* error,
                                                size_t room) {
  const auto failed = [&](const std::string& text) {
    error[text.copy(error, room - 1)] = '\0';
    return 0u;
  };
  if (Driver::get() == nullptr) return failed("NVIDIA's driver, libcuda.so.1, is not to be found");
  Loaded loaded = {};
  if (const int code = load(image, devices, count, loaded)) return failed(what(code));
  const std::lock_guard<std::mutex> lock(mutex);
  kernels[{height, width}] = loaded;
  return loaded.scratch_bytes;
}

// For tests: a batch of these dimensions as the kernel sees it: its sizes, then the strides of each
// operand. Returns how many in succession have the same weights, or 0.
extern "C" unsigned hopscale_batch(const int64_t* images, const int64_t* weights,
                                   const int64_t* vectors, const int64_t* dimensions, size_t number,
                                   unsigned* numbers) {
  Batch batch;
  const int64_t* const have[kOperands] = {images, weights, vectors};
  if (!batch.describe(have, dimensions, number)) return 0;
  std::memcpy(numbers, &batch, sizeof(batch));
  return batch.same_weights();
}

#pragma GCC visibility pop
