"""Runs CUDA kernels on CPUs: PTX without a GPU, a driver or a CUDA toolkit.

    import numpy as np
    import ptxjit

    mod = ptxjit.Module("saxpy.ptx")
    x = ptxjit.array(np.arange(1000, dtype=np.float32))
    y = ptxjit.empty_like(x)
    mod.kernel("saxpy")[4, 256](np.int32(1000), 2.5, x, y)
    print(y.numpy())

`ptxjit.activate()` puts ptxjit in front of other CUDA packages in this process; `ptxjit exec -- CMD` does so for any program.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._activate import activate
    from ._array import Array, array, asarray, empty, empty_like, from_dlpack, full, zeros, zeros_like
    from ._device import Device, Stream, devices, synchronize
    from ._errors import ActivationError, DriverError, Fault, LaunchError, PtxError, PtxjitError, faults
    from ._module import Kernel, Module, link

    __version__: str

__all__ = [
    "ActivationError",
    "Array",
    "Device",
    "DriverError",
    "Fault",
    "Kernel",
    "LaunchError",
    "Module",
    "PtxError",
    "PtxjitError",
    "Stream",
    "activate",
    "array",
    "asarray",
    "devices",
    "empty",
    "empty_like",
    "faults",
    "from_dlpack",
    "full",
    "link",
    "synchronize",
    "zeros",
    "zeros_like",
]

# Modules by what they have. They are imported when it is asked for: the command and the pytest plugin, which every pytest in an
# environment loads, need neither numpy nor the native part.
_MODULES = {
    "_activate": ["activate"],
    "_array": ["Array", "array", "asarray", "empty", "empty_like", "from_dlpack", "full", "zeros", "zeros_like"],
    "_device": ["Device", "Stream", "devices", "synchronize"],
    "_errors": ["ActivationError", "DriverError", "Fault", "LaunchError", "PtxError", "PtxjitError", "faults"],
    "_module": ["Kernel", "Module", "link"],
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from ._libraries import version

        value: Any = version()
    elif name in _HOMES:
        value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
