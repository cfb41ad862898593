"""Modules of PTX, their kernels, and launches."""

from __future__ import annotations

import ctypes
import hashlib
import os
import struct
import threading
import weakref
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

from . import _native
from ._array import Array, numpy, typestr, wait_for
from ._device import Device, Stream, call, default, load_driver, stream_handle
from ._errors import PtxError, PtxjitError, translate

Dims = Union[int, Sequence[int]]
Source = Union[str, bytes, "os.PathLike[str]"]

_FLOATS = {2: "<e", 4: "<f", 8: "<d"}

# Kinds of input that the driver's linker knows.
_PTX, _FATBIN, _OBJECT, _LIBRARY = 1, 2, 3, 4


def _read(source: Source) -> Tuple[str, bytes]:
    """The name and the bytes of an image: a path, PTX as text, or bytes of any kind of image."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return "<image>", bytes(source)
    if isinstance(source, str) and ("\n" in source or source.lstrip().startswith((".version", "//"))):
        return "<ptx>", source.encode()
    with open(source, "rb") as file:
        return os.fspath(source), file.read()


class Module:
    """PTX that is loaded on a device: `Module("saxpy.ptx")`, `Module(text)`, or `Module(data)` with a fat binary."""

    def __init__(self, source: Source, device: Union[Device, int, None] = None) -> None:
        self.name, self._image = _read(source)
        self.device = default(device)
        self.device.activate()
        try:
            self._handle: int = _native.load(self._image)
        except _native.DriverError as err:
            raise translate(err, during_load=True) from None
        self._end = weakref.finalize(self, _unload, self._handle)
        self._end.atexit = False
        self._kernels: Dict[str, Kernel] = {}

    def __repr__(self) -> str:
        return f"ptxjit.Module({self.name!r})"

    def __reduce__(self):
        return _loaded, (self._image, self.device.ordinal)

    @property
    def kernels(self) -> List[str]:
        """The names of all kernels."""
        self.device.activate()
        return call(_native.functions, self._handle)

    def kernel(self, name: Optional[str] = None) -> "Kernel":
        """A kernel by its name, which may be left out if there is only one."""
        if name is None:
            names = self.kernels
            if len(names) != 1:
                raise PtxjitError(f"{self.name} has {len(names)} kernels, so one must be named: {', '.join(names)}")
            name = names[0]
        if name not in self._kernels:
            self._kernels[name] = Kernel(self, name)
        return self._kernels[name]

    def variable(self, name: str, dtype: Any = "uint8") -> Array:
        """A variable of the module, as an array over its memory."""
        self.device.activate()
        address, size = call(_native.global_, self._handle, name)
        text = typestr(dtype)
        itemsize = int(text[2:])
        if size % itemsize:
            raise ValueError(f"{name} has {size} bytes, which are no whole number of elements of type {dtype}")
        return Array._view((size // itemsize,), text, self.device, address, self)


def _unload(handle: int) -> None:
    try:
        _native.unload(handle)
    except Exception:  # The context may have been reset, and the module with it.
        pass


_lock = threading.Lock()
_known: "weakref.WeakValueDictionary[Tuple[int, bytes], Module]" = weakref.WeakValueDictionary()
# The latest are kept, so that tasks that come one after the other find what the one before has compiled.
_latest: List[Module] = []


def _loaded(image: bytes, ordinal: int) -> Module:
    """A module that was pickled; each process loads it once."""
    load_driver()
    ordinal %= max(1, call(_native.count))
    key = (ordinal, hashlib.sha256(image).digest())
    with _lock:
        module = _known.get(key)
        if module is None:
            module = _known[key] = Module(image, ordinal)
            _latest.append(module)
            del _latest[:-16]
    return module


def _kernel(module: Module, name: str) -> "Kernel":
    return module.kernel(name)


class Kernel:
    """A kernel: `kernel[grid, block](*args)`, or `kernel.launch(grid=, block=, args=)`."""

    def __init__(self, module: Module, name: str) -> None:
        self.module = module
        self.name = name
        module.device.activate()
        try:
            self._function: int = _native.function(module._handle, name)
        except _native.DriverError as err:
            code, _, report = err.args
            if code == 500 and "extern" not in report:
                known = ", ".join(module.kernels) or "none at all"
                raise PtxjitError(f"{module.name} has no kernel `{name}`, but {known}") from None
            raise translate(err, during_load=True) from None
        #: Offset and size of each parameter.
        self.parameters: List[Tuple[int, int]] = call(_native.parameters, self._function)

    def __repr__(self) -> str:
        return f"<ptxjit.Kernel {self.name} of {self.module.name}>"

    def __reduce__(self):
        return _kernel, (self.module, self.name)

    def __getitem__(self, config: Any) -> Any:
        """The kernel with a grid and a block, and perhaps bytes of shared memory and a stream."""
        if not isinstance(config, tuple) or not 2 <= len(config) <= 4:
            raise TypeError("expected kernel[grid, block], kernel[grid, block, shared] or kernel[grid, block, shared, stream]")
        grid, block, *rest = config
        shared = rest[0] if rest else 0
        stream = rest[1] if len(rest) > 1 else None

        def launch(*args: Any) -> None:
            self.launch(grid=grid, block=block, shared=shared, stream=stream, args=args)

        return launch

    def launch(
        self,
        *,
        grid: Dims,
        block: Dims,
        args: Iterable[Any] = (),
        shared: int = 0,
        stream: Optional[Any] = None,
        cooperative: bool = False,
    ) -> None:
        """Launches the kernel, and waits for its end unless a stream is given.

        What goes wrong in the kernel is a `LaunchError`, of this call or of `stream.synchronize()`.
        """
        args = tuple(args)
        params = self._pack(args)
        device = stream.device if isinstance(stream, Stream) else self.module.device
        if device != self.module.device:
            raise PtxjitError(f"the stream is one of {device}, but the module of {self.module.device}")
        device.activate()
        shape = _dims("grid", grid), _dims("block", block)
        call(_native.launch, self._function, *shape, shared, stream_handle(stream), params, cooperative)
        if stream is None:
            call(_native.stream_synchronize, 0)

    def _pack(self, args: Tuple[Any, ...]) -> bytes:
        """The parameter block."""
        if len(args) != len(self.parameters):
            raise TypeError(f"kernel `{self.name}` takes {len(self.parameters)} arguments, not {len(args)}")
        end = max((offset + size for offset, size in self.parameters), default=0)
        block = bytearray(end)
        for idx, (arg, (offset, size)) in enumerate(zip(args, self.parameters)):
            try:
                data = _bytes(arg, size)
            except (TypeError, ValueError, OverflowError, struct.error) as err:
                raise type(err)(f"kernel `{self.name}`, argument {idx}: {err}") from None
            if len(data) != size:
                what = f"{type(arg).__name__} of {len(data)} bytes"
                raise TypeError(f"kernel `{self.name}`, argument {idx}: {what} for a parameter of {size}")
            block[offset : offset + size] = data
        return bytes(block)


def _dims(what: str, dims: Dims) -> List[int]:
    values = [dims] if isinstance(dims, int) or not hasattr(dims, "__iter__") else list(dims)
    if not 1 <= len(values) <= 3:
        raise ValueError(f"a {what} has one to three dimensions, not {len(values)}")
    values = [int(n) for n in values] + [1] * (3 - len(values))
    for n in values:
        if not 0 < n < 1 << 32:
            raise ValueError(f"{n} is no dimension of a {what}")
    return values


def _bytes(arg: Any, size: int) -> bytes:
    """The bytes of an argument for a parameter of `size` bytes."""
    if isinstance(arg, Array):
        return struct.pack("<Q", arg.ptr)
    if numpy is not None and isinstance(arg, numpy.generic):
        return arg.tobytes()
    if isinstance(arg, bool):
        return int(arg).to_bytes(size, "little")
    if isinstance(arg, int):
        return _integer(arg, size)
    if isinstance(arg, float):
        if size not in _FLOATS:
            raise TypeError(f"a float for a parameter of {size} bytes")
        return struct.pack(_FLOATS[size], arg)
    if arg is None:
        return bytes(8)
    if isinstance(arg, (bytes, bytearray, memoryview)):
        return bytes(arg)
    if isinstance(arg, (ctypes.Structure, ctypes.Union, ctypes.Array, ctypes._SimpleCData)):
        return bytes(arg)
    address = _address(arg)
    if address is None:
        raise TypeError(f"{type(arg).__name__} is no argument of a kernel")
    return struct.pack("<Q", address)


def _integer(value: int, size: int) -> bytes:
    bits = 8 * size
    if not -(1 << (bits - 1)) <= value < 1 << bits:
        raise OverflowError(f"{value} does not fit a parameter of {size} bytes")
    return (value & ((1 << bits) - 1)).to_bytes(size, "little")


def _address(arg: Any) -> Optional[int]:
    """The address of another package's device array."""
    interface = getattr(arg, "__cuda_array_interface__", None)
    if interface is not None:
        wait_for(interface)
        return interface["data"][0]
    if hasattr(arg, "__dlpack__"):
        from ._array import from_dlpack

        return from_dlpack(arg).ptr
    if hasattr(arg, "data_ptr"):
        return arg.data_ptr()
    return None


def link(sources: Iterable[Source], device: Union[Device, int, None] = None) -> Module:
    """Links several files, texts or images to one module."""
    images = []
    for idx, source in enumerate(sources):
        name, image = _read(source)
        images.append((name if not name.startswith("<") else f"{name} {idx}", _kind(image), image))
    device = default(device)
    device.activate()
    try:
        linked = _native.link(images)
    except _native.DriverError as err:
        code, name, report = err.args
        raise PtxError(code, name, report) from None
    module = Module(linked, device)
    module.name = " + ".join(name for name, _, _ in images)
    return module


def _kind(image: bytes) -> int:
    if image.startswith(b"\x7fELF"):
        return _OBJECT
    if image.startswith(b"!<arch>\n"):
        return _LIBRARY
    if image[:4] in (b"\xb1\x43\x62\x46", b"\x50\xed\x55\xba"):
        return _FATBIN
    return _PTX
