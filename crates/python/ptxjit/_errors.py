"""What goes wrong, and what is known about it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import List, Optional, Tuple

from . import _native

Index = Tuple[int, int, int]

# Codes of the CUDA driver API that have an exception of their own.
_INVALID_PTX = (200, 209, 218, 220, 221, 222)
_NOT_SUPPORTED = 801


class PtxjitError(Exception):
    """Base of all exceptions of this package."""


class ActivationError(PtxjitError):
    """ptxjit cannot take the place of the driver in this process."""


class DriverError(PtxjitError):
    """A call of the driver failed: `.code` and `.name` are CUDA's."""

    def __init__(self, code: int, name: str, report: str) -> None:
        super().__init__(f"{name}: {report}" if report else name)
        self.code = code
        self.name = name
        self.report = report

    def __reduce__(self):
        return type(self), (self.code, self.name, self.report)


class PtxError(DriverError):
    """PTX or another image that is wrong, or that needs what ptxjit cannot do; `.report` tells which line."""


@dataclass(frozen=True)
class Fault:
    """A kernel that went wrong."""

    code: int
    #: CUDA's name of the code.
    name: str
    #: "bad-address", "misaligned", "trap", "assert", "deadlock", "timeout", ...
    kind: str
    kernel: str
    block: Optional[Index]
    thread: Optional[Index]
    #: Line of the PTX, counted from 1; 0 if it is not known.
    ptx_line: int
    #: FILE:LINE:COLUMN of the program that the PTX was compiled from, or "".
    source: str
    #: All of it, for people.
    report: str


class LaunchError(DriverError):
    """A kernel ran and went wrong: `.kernel`, `.block`, `.thread`, `.ptx_line`, `.source`, `.kind` and `.report` tell how."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.code, fault.name, fault.report)
        self.fault = fault
        self.kind = fault.kind
        self.kernel = fault.kernel
        self.block = fault.block
        self.thread = fault.thread
        self.ptx_line = fault.ptx_line
        self.source = fault.source

    def __reduce__(self):
        return type(self), (self.fault,)


_lock = threading.Lock()
_pending: List[Fault] = []


def _drain() -> None:
    """Takes what the driver has; the lock is held."""
    while True:
        raw = _native.next_fault()
        if raw is None:
            return
        _pending.append(Fault(**raw))


def faults() -> List[Fault]:
    """Faults of kernels since the last call, but for those that a `LaunchError` has told. The latest 256 are kept."""
    with _lock:
        _drain()
        found, _pending[:] = list(_pending), []
    return found


def translate(err: _native.DriverError, during_load: bool = False) -> Exception:
    """The exception for a call that failed. A fault's makes the context usable again, as it is told now."""
    code, name, report = err.args
    with _lock:
        _drain()
        matching = [fault for fault in _pending if fault.code == code]
        if matching:
            _pending.remove(matching[0])
    if matching:
        _native.clear_error(0)
        return LaunchError(matching[0])
    if during_load and (code in _INVALID_PTX or code == _NOT_SUPPORTED):
        return PtxError(code, name, report)
    return DriverError(code, name, report)
