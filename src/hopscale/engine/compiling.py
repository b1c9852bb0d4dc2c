"""How programs are compiled: with networks in CUDA graphs, and several at once."""

import functools
import threading

import equinox as eqx
import jax

# On a GPU a pass through a network is a hundred short kernels, and launching them one by one takes
# longer than running them. XLA can launch sequences of them as one CUDA graph; by default a
# sequence ends at each convolution. Other devices ignore the option.
GRAPHS = {
    "xla_gpu_enable_command_buffer": (
        "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION,CONVOLUTION"
    )
}

# Python traces one program at a time. Threads that traced concurrently would take turns of a few
# milliseconds each, and everything else in the process would have to wait for them.
_TRACING = threading.RLock()  # reentrant: a traced function may run a program itself


class Compiled:
    """Equinox's `filter_jit`, with convolutions in CUDA graphs where that works.

    It does not work for a program from JAX's persistent compilation cache: cuDNN fails (status
    5003) when a convolution first runs inside a graph, without the trials made during compilation.
    With such a cache in use, programs are therefore compiled in the usual way.
    """

    def __init__(self, function, **more):
        self._usual = eqx.filter_jit(function, **more)
        self._graphs = eqx.filter_jit(function, compiler_options=GRAPHS, **more)  # type: ignore[call-overload]
        functools.update_wrapper(self, function)

    def __call__(self, *arguments):
        return self._chosen(*arguments)

    def lower(self, *arguments):
        """The program for these arguments, before it is compiled."""
        return self._chosen.lower(*arguments)

    @property
    def _chosen(self):
        return self._usual if jax.config.jax_compilation_cache_dir else self._graphs  # type: ignore[attr-defined]


def compiled(**more):
    """A decorator that applies `Compiled` with these options of `filter_jit`."""
    return functools.partial(Compiled, **more)


def compile_for(function, *arguments) -> None:
    """Compile a function for these arguments without calling it, so that a later call need not.

    Threads trace one after another and compile in parallel.
    """
    with _TRACING:
        lowered = function.lower(*arguments)
    lowered.compile()
