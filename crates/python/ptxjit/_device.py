"""Devices and streams."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Dict, List, Optional, Tuple, Union

from . import _libraries, _native
from ._errors import PtxjitError, translate

_lock = threading.Lock()
_contexts: Dict[int, int] = {}


def call(function: Any, *args: Any) -> Any:
    """Calls the driver; what goes wrong is an exception of this package."""
    try:
        return function(*args)
    except _native.DriverError as err:
        raise translate(err) from None


def load_driver() -> None:
    """Loads and initializes the driver library, if that is not done."""
    if not _native.is_open():
        _native.open(_libraries.driver())
    call(_native.init)


def devices() -> "List[Device]":
    """All simulated devices."""
    load_driver()
    return [Device(ordinal) for ordinal in range(call(_native.count))]


class Device:
    """A simulated device. Objects with the same number are the same device."""

    __slots__ = ("ordinal",)

    def __init__(self, ordinal: int = 0) -> None:
        load_driver()
        count = call(_native.count)
        if not 0 <= ordinal < count:
            raise PtxjitError(f"there is no device {ordinal}, but {count} in all; PTXJIT_DEVICE_COUNT says how many")
        self.ordinal = ordinal

    def __repr__(self) -> str:
        return f"ptxjit.Device({self.ordinal})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other.ordinal == self.ordinal

    def __hash__(self) -> int:
        return hash(("ptxjit.Device", self.ordinal))

    def __reduce__(self):
        return Device, (self.ordinal,)

    @property
    def name(self) -> str:
        """What the device calls itself."""
        return call(_native.name, self.ordinal)

    @property
    def compute_capability(self) -> Tuple[int, int]:
        """Major and minor number."""
        return call(_native.capability, self.ordinal)

    @property
    def memory(self) -> int:
        """Bytes of memory."""
        return call(_native.total_memory, self.ordinal)

    def attribute(self, number: int) -> int:
        """A `CUdevice_attribute` by its number."""
        return call(_native.attribute, number, self.ordinal)

    def synchronize(self) -> None:
        """Waits for all work."""
        self.activate()
        call(_native.synchronize)

    def activate(self) -> int:
        """Makes the device's primary context the calling thread's, and returns it."""
        with _lock:
            context = _contexts.get(self.ordinal)
            if context is None:
                context = _contexts[self.ordinal] = call(_native.retain, self.ordinal)
        call(_native.set_current, context)
        return context


def default(device: Union[Device, int, None]) -> Device:
    """The device that is meant; device 0 if none is."""
    if isinstance(device, Device):
        return device
    return Device(0 if device is None else device)


def synchronize() -> None:
    """Waits for all work on all devices that were used."""
    for ordinal in list(_contexts):
        Device(ordinal).synchronize()


class Stream:
    """A queue of work: kernels in one stream run in order, those of several may overlap."""

    def __init__(self, device: Union[Device, int, None] = None) -> None:
        self.device = default(device)
        self.device.activate()
        self.handle: int = call(_native.stream_create)
        self._end = weakref.finalize(self, _destroy, self.device.ordinal, self.handle)
        # The driver is there to the end of the process, and what is left goes with it.
        self._end.atexit = False

    def synchronize(self) -> None:
        """Waits for the work in the stream; raises `LaunchError` if a kernel in it has failed."""
        self.device.activate()
        call(_native.stream_synchronize, self.handle)

    def __cuda_stream__(self) -> Tuple[int, int]:
        return (0, self.handle)

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: Any) -> None:
        self.synchronize()


def _destroy(ordinal: int, handle: int) -> None:
    try:
        Device(ordinal).activate()
        _native.stream_destroy(handle)
    except Exception:  # The context may have been reset, and the stream with it.
        pass


def stream_handle(stream: Optional[Any]) -> int:
    """The driver's number of a stream: ours, another package's, or a number."""
    if stream is None:
        return 0
    if isinstance(stream, Stream):
        return stream.handle
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    return int(stream)
