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

from ._activate import activate
from ._array import Array, array, asarray, empty, empty_like, from_dlpack, full, zeros, zeros_like
from ._device import Device, Stream, devices, synchronize
from ._errors import ActivationError, DriverError, Fault, LaunchError, PtxError, PtxjitError, faults
from ._libraries import version as _version
from ._module import Kernel, Module, link

__version__ = _version()

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
