"""The operations of `select` for NVIDIA GPUs."""


def ready() -> tuple[bool, str]:
    return False, "no kernels yet"
