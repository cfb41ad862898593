"""Arrays in device memory, which is the host's: no copy is needed to look at one."""

from __future__ import annotations

import ctypes
import math
import re
import sys
import weakref
from typing import Any, Optional, Tuple, Union

from . import _native
from ._device import Device, call, default, stream_handle

try:
    import numpy
except ImportError:
    numpy = None

# Kinds of devices in DLPack.
CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13

# Kinds of elements in DLPack, by the letters of the array interface.
_KINDS = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_LETTERS = {kind: letter for letter, kind in _KINDS.items()}

# Characters of `struct`, in which memoryviews have their elements, of the array interface's.
_FORMATS = {
    "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q",
    "f2": "e", "f4": "f", "f8": "d", "b1": "?",
}  # fmt: skip
_CODES = {**{fmt: code for code, fmt in _FORMATS.items()}, "l": "i8", "L": "u8", "c": "u1"}

_BITS = {"bool": "b1", "half": "f2", "float": "f4", "double": "f8"}

Shape = Union[int, Tuple[int, ...]]


def typestr(dtype: Any) -> str:
    """The type of elements as the array interface has it, such as `<f4`."""
    if numpy is not None:
        found = numpy.dtype(dtype)
        if found.hasobject or found.itemsize == 0:
            raise TypeError(f"elements of type {found} cannot be in device memory")
        return found.str
    if isinstance(dtype, str):
        if re.fullmatch(r"[<|=]?[iufcb]\d+", dtype):
            code = dtype.lstrip("<|=")
            return ("|" if code[1:] == "1" else "<") + code
        named = re.fullmatch(r"(int|uint|float|complex)(\d+)", dtype)
        if named:
            return typestr({"int": "i", "uint": "u", "float": "f", "complex": "c"}[named[1]] + str(int(named[2]) // 8))
        if dtype in _BITS:
            return typestr(_BITS[dtype])
    builtin = {float: "<f8", int: "<i8", bool: "|b1"}
    if dtype in builtin:
        return builtin[dtype]
    raise TypeError(f"{dtype!r} is no type of elements; one of them is 'float32'")


def _itemsize(text: str) -> int:
    return int(re.sub(r"^[<>|=]?[a-zA-Z]", "", text))


class Array:
    """A contiguous array in device memory.

    It has the CUDA array interface and DLPack, so other packages take it as it is.
    """

    def __init__(self, shape: Shape, dtype: Any = "float32", device: Union[Device, int, None] = None) -> None:
        shape = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
        if any(n < 0 for n in shape):
            raise ValueError(f"{shape} is no shape")
        text = typestr(dtype)
        device = default(device)
        nbytes = math.prod(shape) * _itemsize(text)
        device.activate()
        # Even an array without elements has an address.
        address = call(_native.alloc, max(nbytes, 1))
        self._set(shape, text, device, address, None)
        self._end = weakref.finalize(self, _release, address)
        self._end.atexit = False

    def _set(self, shape: Tuple[int, ...], text: str, device: Device, address: int, owner: Any) -> None:
        #: The address of the first element.
        self.ptr: int = address
        self.shape = shape
        self.device = device
        self.typestr = text
        self._owner = owner

    @classmethod
    def _view(cls, shape: Tuple[int, ...], text: str, device: Device, address: int, owner: Any) -> "Array":
        """An array over memory that `owner` keeps alive."""
        view = cls.__new__(cls)
        view._set(shape, text, device, address, owner)
        return view

    @property
    def dtype(self) -> Any:
        """The type of elements: numpy's, or text without numpy."""
        return self.typestr if numpy is None else numpy.dtype(self.typestr)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return _itemsize(self.typestr)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"ptxjit.Array(shape={self.shape}, dtype={self.typestr!r}, device={self.device.ordinal}, ptr={self.ptr:#x})"

    def numpy(self) -> Any:
        """All work is waited for; the result is numpy's view of the same memory, without a copy."""
        if numpy is None:
            raise ImportError("numpy is not installed; memoryview() and tolist() do without")
        self.device.synchronize()
        return numpy.asarray(_Interface(self))

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Any:
        found = self.numpy()
        if dtype is not None and found.dtype != dtype:
            if copy is False:
                raise ValueError("a conversion needs a copy")
            return found.astype(dtype)
        return found.copy() if copy else found

    def memoryview(self) -> memoryview:
        """A view of the same memory, without a copy and without numpy; all work is waited for."""
        self.device.synchronize()
        code = _FORMATS.get(self.typestr.lstrip("<|="))
        if code is None:
            raise TypeError(f"memoryview has no elements of type {self.typestr}")
        raw = (ctypes.c_char * self.nbytes).from_address(self.ptr)
        raw._owner = self
        flat = memoryview(raw).cast("B")
        if self.size == 0 or self.shape == ():
            return flat.cast(code)
        return flat.cast(code, self.shape)

    def tolist(self) -> Any:
        """The elements as numbers of Python."""
        view = self.memoryview()
        return view[0] if self.shape == () else view.tolist()

    def copy(self) -> "Array":
        """Another array with the same elements."""
        other = Array(self.shape, self.typestr, self.device)
        self.device.activate()
        call(_native.copy, other.ptr, self.ptr, self.nbytes)
        return other

    def copy_from(self, source: Any) -> None:
        """Takes the elements of an array of the same size, of any kind."""
        other = asarray(source, device=self.device) if not isinstance(source, Array) else source
        if other.nbytes != self.nbytes:
            raise ValueError(f"{other.nbytes} bytes do not fit an array of {self.nbytes}")
        self.device.activate()
        call(_native.copy, self.ptr, other.ptr, self.nbytes)

    def fill_bytes(self, value: int) -> None:
        """Sets every byte."""
        self.device.activate()
        call(_native.fill, self.ptr, value, self.nbytes)

    @property
    def __cuda_array_interface__(self) -> dict:
        return {
            "shape": self.shape,
            "typestr": self.typestr,
            "data": (self.ptr, False),
            "version": 3,
            "strides": None,
            # What this package does is done in the legacy default stream, with which others keep in order.
            "stream": 1,
        }

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (CUDA, self.device.ordinal)

    def __dlpack__(
        self,
        *,
        stream: Optional[Any] = None,
        max_version: Optional[Tuple[int, int]] = None,
        dl_device: Optional[Tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> Any:
        target = self.__dlpack_device__() if dl_device is None else tuple(dl_device)
        # Device memory is the host's, so it can be handed out as that.
        if target not in (self.__dlpack_device__(), (CPU, 0)):
            raise BufferError(f"an array of {self.device} cannot be one of device {target}")
        letter, bits = self.typestr[1], self.itemsize * 8
        if letter not in _KINDS or self.typestr[0] == ">":
            raise BufferError(f"DLPack has no elements of type {self.typestr}")
        # The consumer's stream may be any, and -1 says that it waits itself.
        if stream != -1:
            self.device.synchronize()
        owner = self.copy() if copy else self
        strides, step = [], 1
        for n in reversed(self.shape):
            strides.insert(0, step)
            step *= n
        versioned = max_version is not None and max_version[0] >= 1
        element = (_KINDS[letter], bits)
        return _native.export_dlpack(owner, owner.ptr, list(self.shape), strides, element, target, versioned)

    def __reduce__(self):
        self.device.synchronize()
        data = ctypes.string_at(self.ptr, self.nbytes)
        return _restore, (self.shape, self.typestr, self.device.ordinal, data)


class _Interface:
    """What numpy makes a view of; it keeps the array alive."""

    def __init__(self, owner: Array) -> None:
        self._owner = owner
        self.__array_interface__ = {
            "shape": owner.shape,
            "typestr": owner.typestr,
            "data": (owner.ptr, False),
            "version": 3,
        }


def _release(address: int) -> None:
    try:
        _native.free(address)
    except Exception:  # The context may have been reset, and the memory with it.
        pass


def _restore(shape: Tuple[int, ...], text: str, ordinal: int, data: bytes) -> Array:
    """An array that was pickled; on the machine where it comes, there may be fewer devices."""
    device = Device(ordinal % max(1, len_devices()))
    restored = Array(shape, text, device)
    _upload(restored, data)
    return restored


def len_devices() -> int:
    """How many devices there are."""
    Device(0)
    return call(_native.count)


def _upload(target: Array, data: Any) -> None:
    view = memoryview(data).cast("B")
    if view.nbytes == 0:
        return
    if view.readonly:
        held = bytes(view)
        address = ctypes.cast(ctypes.c_char_p(held), ctypes.c_void_p).value
    else:
        held = (ctypes.c_char * view.nbytes).from_buffer(view)
        address = ctypes.addressof(held)
    target.device.activate()
    call(_native.copy, target.ptr, address, view.nbytes)


def empty(shape: Shape, dtype: Any = "float32", device: Union[Device, int, None] = None) -> Array:
    """An array whose elements are not set."""
    return Array(shape, dtype, device)


def zeros(shape: Shape, dtype: Any = "float32", device: Union[Device, int, None] = None) -> Array:
    """An array of zeros."""
    made = Array(shape, dtype, device)
    made.fill_bytes(0)
    return made


def full(shape: Shape, value: Any, dtype: Any = "float32", device: Union[Device, int, None] = None) -> Array:
    """An array whose elements are all `value`."""
    made = Array(shape, dtype, device)
    if numpy is not None:
        made.numpy()[...] = value
    else:
        flat = made.memoryview().cast("B").cast(_FORMATS[made.typestr.lstrip("<|=")])
        for idx in range(made.size):
            flat[idx] = value
    return made


def empty_like(other: Any) -> Array:
    """An array of the shape and type of another."""
    device = other.device if isinstance(other, Array) else None
    return Array(tuple(other.shape), getattr(other, "typestr", None) or other.dtype, device)


def zeros_like(other: Any) -> Array:
    """The same, of zeros."""
    made = empty_like(other)
    made.fill_bytes(0)
    return made


def array(source: Any, dtype: Any = None, device: Union[Device, int, None] = None) -> Array:
    """A new array with the elements of an array, a buffer or nested lists."""
    if isinstance(source, Array) and dtype is None:
        return source.copy()
    if numpy is not None:
        host = numpy.ascontiguousarray(_host(source), dtype=dtype)
        shape = numpy.shape(source) if not hasattr(source, "__cuda_array_interface__") else host.shape
        made = Array(shape, host.dtype, device)
        _upload(made, host.reshape(-1).view(numpy.uint8))
        return made
    view = memoryview(source)
    if not view.c_contiguous:
        raise ValueError("an array that is not contiguous needs numpy")
    code = _CODES.get(view.format.lstrip("<@="))
    if code is None or (dtype is not None and typestr(dtype) != typestr(code)):
        raise TypeError(f"a buffer of `{view.format}` needs numpy to become an array of {dtype}")
    made = Array(tuple(view.shape), typestr(code), device)
    _upload(made, view.cast("B") if view.nbytes else b"")
    return made


def _host(source: Any) -> Any:
    """A device array of any package as an array that numpy reads."""
    if isinstance(source, Array):
        return source.numpy()
    if hasattr(source, "__cuda_array_interface__"):
        interface = dict(source.__cuda_array_interface__)
        wait_for(interface)
        interface.pop("stream", None)

        class Host:
            __array_interface__ = interface
            owner = source

        return numpy.asarray(Host())
    return source


def wait_for(interface: dict) -> None:
    """Waits for the stream in which an array of another package is made."""
    stream = interface.get("stream")
    if stream is not None:
        Device(0)
        call(_native.stream_synchronize, stream_handle(stream))


def asarray(source: Any, device: Union[Device, int, None] = None) -> Array:
    """An array over the memory of another package's device array, or a new one with the elements of anything else."""
    if isinstance(source, Array):
        return source
    interface = getattr(source, "__cuda_array_interface__", None)
    if interface is not None:
        shape = tuple(interface["shape"])
        strides = interface.get("strides")
        text = interface["typestr"]
        _check_contiguous(shape, strides and [step / _itemsize(text) for step in strides])
        wait_for(interface)
        return Array._view(shape, text, default(device), interface["data"][0], source)
    if hasattr(source, "__dlpack__") and source.__dlpack_device__()[0] in (CUDA, CUDA_MANAGED, CUDA_HOST):
        return from_dlpack(source)
    return array(source, device=device)


def from_dlpack(source: Any) -> Array:
    """An array over the memory of another package's device array, through DLPack."""
    kind, ordinal = source.__dlpack_device__()
    if kind not in (CUDA, CUDA_MANAGED, CUDA_HOST):
        raise BufferError(f"an array of the kind of device {kind} is none of a CUDA device; array() makes a copy")
    try:
        capsule = source.__dlpack__(stream=1, max_version=(1, 0))
    except TypeError:
        # Before version 1 there was no such argument.
        capsule = source.__dlpack__(stream=1)
    imported = _native.import_dlpack(capsule)
    kind, bits, lanes = imported.element
    if lanes != 1 or kind not in _LETTERS or bits % 8:
        raise BufferError(f"elements of kind {kind} with {bits} bits cannot be taken")
    shape = tuple(imported.shape)
    _check_contiguous(shape, imported.strides)
    letter = _LETTERS[kind]
    order = "|" if bits == 8 else "<" if sys.byteorder == "little" else ">"
    return Array._view(shape, f"{order}{letter}{bits // 8}", Device(ordinal), imported.address, imported)


def _check_contiguous(shape: Tuple[int, ...], strides: Any) -> None:
    if strides is None:
        return
    step = 1
    for n, stride in zip(reversed(shape), reversed(list(strides))):
        if n > 1 and stride != step:
            raise BufferError("the array is not contiguous; make it so first")
        step *= n
