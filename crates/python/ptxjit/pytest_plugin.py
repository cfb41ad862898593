"""pytest on ptxjit: `pytest --ptxjit` runs tests of CUDA programs without a GPU.

A kernel that goes wrong fails the test that has launched it, even if the program ignores the driver's codes; the report says
which thread and line. The next test starts with a context that works.
"""

from __future__ import annotations

import os
from typing import Any, Iterator, List, Optional

import pytest

# The package is imported by every pytest of an environment where it is installed, so the rest of it
# is imported where it is needed.

_MARKER = "ptxjit_fault(kind=None): a kernel is to go wrong in this test, in this way if one is named"


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("ptxjit", "CUDA on CPUs by ptxjit")
    group.addoption("--ptxjit", action="store_true", default=None, help="run CUDA programs on ptxjit")
    group.addoption("--ptxjit-memcheck", action="store_true", help="check every access of kernels")
    group.addoption("--ptxjit-sanitize", metavar="CHECKS", help="look for bugs: a list of mem, race, init, sync and leak, or all")
    group.addoption("--ptxjit-suppress", metavar="FILE", help="leave out findings that this file lists")
    group.addoption("--ptxjit-compute-capability", metavar="X.Y", help="what devices report; 8.0 if not given")
    group.addoption("--ptxjit-devices", type=int, metavar="N", help="number of devices")
    group.addoption("--ptxjit-timeout", type=float, metavar="SECONDS", help="stop kernels that take longer")
    group.addoption("--ptxjit-schedule", metavar="ORDER", help="deterministic, random:SEED or another order of docs/sanitize.md")
    group.addoption("--ptxjit-report", metavar="FILE", help="write faults as lines of JSON, instead of text to stderr; sarif=FILE, json=FILE: findings as a document")
    group.addoption("--ptxjit-allow-faults", action="store_true", help="kernels that go wrong fail no test by themselves")
    parser.addini("ptxjit", "run CUDA programs on ptxjit", type="bool", default=False)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: Any) -> None:
    """Activates ptxjit before any module of tests is imported."""
    options = early_config.known_args_namespace
    if not (options.ptxjit or early_config.getini("ptxjit")):
        return
    from . import _activate, _errors

    try:
        _activate.activate(
            compute_capability=options.ptxjit_compute_capability,
            devices=options.ptxjit_devices,
            memcheck=options.ptxjit_memcheck,
            sanitize=options.ptxjit_sanitize,
            suppress=options.ptxjit_suppress,
            timeout=options.ptxjit_timeout,
            schedule=options.ptxjit_schedule,
            report=options.ptxjit_report,
        )
    except (_errors.ActivationError, ImportError, OSError) as err:
        raise pytest.UsageError(f"ptxjit cannot be activated: {err}") from None


def pytest_configure(config: Any) -> None:
    config.addinivalue_line("markers", _MARKER)
    if config.getoption("ptxjit", None) or config.getini("ptxjit"):
        config.pluginmanager.register(Faults(config), "ptxjit_faults")


def pytest_report_header(config: Any) -> Optional[str]:
    if not config.pluginmanager.has_plugin("ptxjit_faults"):
        return None
    from . import _libraries

    return f"ptxjit: {_libraries.version()}, {os.environ.get('TRITON_LIBCUDA_PATH')}"


class Faults:
    """Looks for faults after each phase of a test."""

    def __init__(self, config: Any) -> None:
        self.are_allowed: bool = config.getoption("ptxjit_allow_faults")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Iterator[None]:
        outcome = yield
        report = outcome.get_result()
        from . import _errors, _native

        # Work may still be under way, and contexts that have failed must not fail the next test.
        _native.clear_all_errors()
        found = _errors.faults()
        item._ptxjit_n_faults = getattr(item, "_ptxjit_n_faults", 0) + len(found)
        for fault in found:
            # No call fails for what a sanitizer finds.
            title = fault.name if fault.code else fault.kind
            report.sections.append((f"ptxjit: {title}", fault.report))
            entry = ("ptxjit_fault", fault.report)
            item.user_properties.append(entry)
            if report.user_properties is not item.user_properties:
                report.user_properties.append(entry)
        marker = item.get_closest_marker("ptxjit_fault")
        problem = self._problem(item, call, found, marker)
        # A test that has failed by itself, or was expected to, says enough.
        if problem and report.outcome == "passed":
            report.outcome = "failed"
            report.longrepr = problem

    def _problem(self, item: Any, call: Any, found: List[Any], marker: Any) -> Optional[str]:
        """What is wrong with the faults of a phase."""
        if marker is None:
            if not found or self.are_allowed:
                return None
            return f"{len(found)} kernel(s) went wrong:\n\n" + "\n".join(fault.report for fault in found)
        kind = marker.kwargs.get("kind", marker.args[0] if marker.args else None)
        others = [fault for fault in found if kind not in (None, fault.kind)]
        if others:
            return f"expected a fault of kind {kind!r}, not {others[0].kind!r}:\n\n{others[0].report}"
        if call.when == "call" and item._ptxjit_n_faults == 0:
            return "expected a kernel to go wrong, but none did"
        return None


@pytest.fixture
def ptxjit_device() -> Any:
    """The first device."""
    from ._device import Device

    return Device(0)


@pytest.fixture
def ptxjit_module(request: Any) -> Any:
    """Loads a module: a path, taken from the folder of the test's file, or PTX as text."""
    from ._module import Module

    folder = os.path.dirname(str(request.node.path))

    def load(source: Any, device: Any = None) -> Module:
        is_text = isinstance(source, (bytes, bytearray)) or (isinstance(source, str) and "\n" in source)
        return Module(source if is_text else os.path.join(folder, source), device)

    return load
