"""ptxjit in the place of the driver, for other packages in this process."""

from __future__ import annotations

import ctypes
import os
from typing import Any, List, Optional

from . import _libraries, _native
from ._errors import ActivationError

# Libraries that other packages look for among those that are loaded, by their names.
_LOADED = ("libnvidia-ml.so.1", "libnvJitLink.so.12", "libnvJitLink.so.13")

_active: Optional[str] = None


def activate(
    *,
    compute_capability: Optional[str] = None,
    persona: Optional[str] = None,
    devices: Optional[int] = None,
    memory: Optional[str] = None,
    memcheck: bool = False,
    sanitize: Optional[str] = None,
    suppress: Optional[str] = None,
    timeout: Optional[float] = None,
    schedule: Optional[str] = None,
    trace: Optional[str] = None,
    report: Optional[str] = None,
) -> None:
    """Has CUDA packages of this process use ptxjit. To be called before the first of them is imported.

    The options are those of `ptxjit exec`. They count if the driver is not initialized yet.
    """
    global _active
    options: List[str] = []
    named: dict[str, Any] = {
        "compute-capability": compute_capability,
        "persona": persona,
        "devices": devices,
        "memory": memory,
        "sanitize": sanitize,
        "suppress": suppress,
        "timeout": timeout,
        "schedule": schedule,
        "trace": trace,
        "report": report,
    }
    for name, value in named.items():
        if value is not None:
            options += [f"--{name}", str(value)]
    if memcheck:
        options.append("--memcheck")
    try:
        variables = _libraries.environment(options)
    except RuntimeError as err:
        raise ActivationError(str(err)) from None
    folder = variables["TRITON_LIBCUDA_PATH"]
    _refuse_others(folder)
    # Other processes are none of this one's business: `ptxjit exec` is for those.
    variables.pop("LD_AUDIT", None)
    os.environ.update(variables)
    if _active != folder:
        _native.open(os.path.join(folder, "libcuda.so.1"))
        for name in _LOADED:
            path = os.path.join(folder, name)
            if os.path.exists(path):
                ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
        _active = folder


def _refuse_others(folder: str) -> None:
    """Two drivers in a process would each have half of its pointers."""
    ours = os.path.realpath(os.path.join(folder, "libcuda.so.1"))
    for path in _loaded_drivers():
        if os.path.realpath(path) != ours:
            raise ActivationError(
                f"another driver is loaded already: {path}; activate ptxjit before the first import of a CUDA package, or "
                "run the program with `ptxjit exec`"
            )


def _loaded_drivers() -> List[str]:
    found = []
    with open("/proc/self/maps") as maps:
        for line in maps:
            path = line.split(maxsplit=5)[-1].strip()
            file = os.path.basename(path)
            is_driver = file == "libcuda.so" or file.startswith("libcuda.so.")
            if path.startswith("/") and is_driver and path not in found:
                found.append(path)
    return found
