"""How programs that hold a network are compiled."""

import equinox as eqx

# On a GPU a pass through a network is a hundred short kernels, and launching them one by one takes
# longer than running them. XLA can launch stretches of them as one CUDA graph; by default these
# stretches end at each convolution. Other devices ignore the option.
OPTIONS = {
    "xla_gpu_enable_command_buffer": (
        "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION,CONVOLUTION"
    )
}


def compiled(**more):
    """Equinox's `filter_jit` with these options."""
    return eqx.filter_jit(compiler_options=OPTIONS, **more)  # type: ignore[call-overload]
