"""CUDA kernels that are compiled for the GPU at hand when they are first needed.

NVIDIA's run-time compiler, which comes with JAX for CUDA, compiles them; `launch.cc`, which the
package's build compiles, loads and launches them. Without either, what they do is left to XLA.
"""

import ctypes
import ctypes.util
import functools
import importlib.util
from pathlib import Path

import jax

FOLDER = Path(__file__).parent
NVRTC_VERSIONS = (13, 12)
TUNING = {"STAGES": 4, "RESIDENT": 2, "CLUSTER": 2}  # of `residual.cu` and what it includes


class UnavailableError(RuntimeError):
    """A kernel cannot be compiled or loaded here; the text says why."""


@functools.cache
def residual_pass_bytes(height: int, width: int) -> int:
    """Load the kernel for images of this size; returns the bytes that it works in for an image.

    Raises:
        UnavailableError: there is none, here or for this size.
    """
    source = (FOLDER / "residual.cu").read_text()
    devices = [device.local_hardware_id for device in jax.local_devices() if _is_cuda(device)]
    error = ctypes.create_string_buffer(1024)
    for compiler in _compilers():  # the driver may be too old for the newest
        image = compiled(source, _architecture(), compiler, HEIGHT=height, WIDTH=width, **TUNING)
        size = _library().hopscale_load_residual_pass(
            image, height, width, (ctypes.c_int * len(devices))(*devices), len(devices), error, 1024
        )
        if size:
            return size
    raise UnavailableError(error.value.decode())


@functools.cache
def ready() -> tuple[bool, str]:
    """Whether kernels can be compiled and loaded here, and why not."""
    try:
        for needed in (_architecture, _compilers, _library):
            needed()
    except UnavailableError as error:
        return False, str(error)
    return True, "CUDA"


def compiled(source: str, architecture: str, nvrtc: ctypes.CDLL, **numbers: int) -> bytes:
    """The machine code of a program for an architecture such as "sm_90a", by this compiler.

    It may include the headers in this folder.
    """
    program = ctypes.c_void_p()
    headers = sorted(FOLDER.glob("*.cuh"))
    texts = _strings(header.read_text() for header in headers)
    names = _strings(header.name for header in headers)
    options = [f"--gpu-architecture={architecture}", "--std=c++17"]
    options += [f"-D{name}={value}" for name, value in numbers.items()]
    made = ctypes.byref(program), source.encode(), None, len(headers), texts, names
    _check(nvrtc.nvrtcCreateProgram(*made))
    try:
        if nvrtc.nvrtcCompileProgram(program, len(options), _strings(options)):
            log = _text(nvrtc, program, "ProgramLog").decode(errors="replace")
            raise UnavailableError(log.strip("\0\n"))
        return _text(nvrtc, program, "CUBIN")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _strings(texts) -> ctypes.Array:
    encoded = [text.encode() for text in texts]
    return (ctypes.c_char_p * len(encoded))(*encoded)


def _text(nvrtc: ctypes.CDLL, program, what: str) -> bytes:
    """The compiler's log or its result."""
    size = ctypes.c_size_t()
    _check(getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    text = ctypes.create_string_buffer(size.value)
    _check(getattr(nvrtc, f"nvrtcGet{what}")(program, text))
    return text.raw


def _check(code: int) -> None:
    if code:
        raise UnavailableError(f"NVIDIA's run-time compiler failed with error {code}")


@functools.cache
def _compilers() -> list[ctypes.CDLL]:
    """NVIDIA's run-time compilers, from Python packages or the system, the newest first."""
    found = importlib.util.find_spec("nvidia")
    places = [Path(place) for place in (found.submodule_search_locations or ())] if found else []
    compilers = []
    for name in (f"libnvrtc.so.{version}" for version in NVRTC_VERSIONS):
        packaged = [str(path) for place in places for path in place.glob(f"*/lib/{name}")]
        for path in [*packaged, name, f"/usr/local/cuda/lib64/{name}"]:
            try:
                for builtins in Path(path).parent.glob("libnvrtc-builtins.so.*"):
                    ctypes.CDLL(str(builtins))
                compilers.append(ctypes.CDLL(path))
                break
            except OSError:
                continue
    if not compilers:
        raise UnavailableError("NVIDIA's run-time compiler, libnvrtc, is not to be found")
    return compilers


@functools.cache
def _library() -> ctypes.CDLL:
    """The launcher, with its custom calls known to XLA."""
    built = sorted(FOLDER.glob("_launch*.so"))
    if not built:
        raise UnavailableError("not built: the package was installed without a C++ compiler")
    try:
        library = ctypes.CDLL(str(built[0]))
        library.hopscale_load_residual_pass.argtypes = [
            ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(ctypes.c_int),
            ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t,
        ]  # fmt: skip
        library.hopscale_load_residual_pass.restype = ctypes.c_uint
        call = jax.ffi.pycapsule(library.ResidualPass)
        jax.ffi.register_ffi_target("hopscale.ResidualPass", call, platform="CUDA")
    except Exception as error:  # XLA may refuse what was built for another version of it
        raise UnavailableError(f"{built[0].name} cannot be used: {error}") from error
    return library


def _is_cuda(device) -> bool:
    return device.platform == "gpu" and hasattr(device, "compute_capability")


def _architecture() -> str:
    """The architecture of all GPUs here; the kernels use tensor cores as Hopper has them."""
    capabilities = {d.compute_capability for d in jax.local_devices() if _is_cuda(d)}
    if capabilities != {"9.0"}:
        raise UnavailableError(
            f"for GPUs of compute capability 9.0; here: {capabilities or 'none'}"
        )
    return "sm_90a"
