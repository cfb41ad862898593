"""The pytest plugin, in runs of pytest of its own."""

import os
import sys

import pytest
from shared_kernels import STORE

HEAD = f'''
import ctypes
import pytest

STORE = """{STORE}"""


def driver():
    return ctypes.CDLL("libcuda.so.1")


def swallow(address):
    """A program that launches a kernel and looks at no code."""
    cuda = driver()
    context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    assert cuda.cuModuleLoadData(ctypes.byref(module), STORE.encode()) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b"store") == 0
    pointer = ctypes.c_uint64(address)
    params = (ctypes.c_void_p * 1)(ctypes.addressof(pointer))
    assert cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, params, None) == 0
'''


@pytest.fixture
def run(pytester, monkeypatch):
    """Runs pytest in a process of its own, on tests that are given as text."""
    monkeypatch.setenv("PTXJIT_QUIET", "1")
    plugins = [] if _is_installed() else ["-p", "ptxjit.pytest_plugin"]

    def run(text, *options):
        pytester.makepyfile(HEAD + text)
        return pytester.runpytest_subprocess(*plugins, "-p", "no:cacheprovider", *options)

    return run


def _is_installed():
    from importlib import metadata

    return any(entry.value == "ptxjit.pytest_plugin" for entry in _entry_points(metadata))


def _entry_points(metadata):
    found = metadata.entry_points()
    return found.select(group="pytest11") if hasattr(found, "select") else found.get("pytest11", [])


def test_off_unless_asked(run):
    run(
        """
import os

def test_environment():
    assert "TRITON_LIBCUDA_PATH" not in os.environ
"""
    ).assert_outcomes(passed=1)


def test_activates_before_modules_are_imported(run):
    done = run("cuda = driver()\n\ndef test_init():\n    assert cuda.cuInit(0) == 0\n", "--ptxjit")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["ptxjit: *"])


def test_ini_file(run, pytester):
    pytester.makeini("[pytest]\nptxjit = true\n")
    run("cuda = driver()\n\ndef test_init():\n    assert cuda.cuInit(0) == 0\n").assert_outcomes(passed=1)


def test_options(run):
    done = run(
        """
import os

def test_devices():
    cuda = driver()
    count = ctypes.c_int()
    assert cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
    assert count.value == 3
    major, minor = ctypes.c_int(), ctypes.c_int()
    assert cuda.cuDeviceComputeCapability(ctypes.byref(major), ctypes.byref(minor), 0) == 0
    assert (major.value, minor.value) == (9, 0)
    assert os.environ["PTXJIT_MEMCHECK"] == "1"
    assert os.environ["PTXJIT_SCHEDULE"] == "random:7"
    assert os.environ["PTXJIT_TIMEOUT"] == "2.5"
""",
        "--ptxjit",
        "--ptxjit-devices=3",
        "--ptxjit-compute-capability=9.0",
        "--ptxjit-memcheck",
        "--ptxjit-schedule=seed:7",
        "--ptxjit-timeout=2.5",
    )
    done.assert_outcomes(passed=1)


SWALLOWED = """
def test_before():
    pass

def test_fault():
    swallow(64)

def test_after():
    # 3 is what a worker says that has not used the driver.
    assert driver().cuCtxSynchronize() in (0, 3)
"""


def test_a_fault_fails_its_test_alone(run):
    done = run(SWALLOWED, "--ptxjit", "--junitxml=results.xml")
    done.assert_outcomes(passed=2, failed=1)
    text = done.stdout.str()
    assert "kernel `store`" in text and "st.global.u32" in text
    results = open("results.xml").read()
    assert 'name="ptxjit_fault"' in results
    assert "kernel `store`" in results


def test_faults_can_be_allowed(run):
    run(SWALLOWED, "--ptxjit", "--ptxjit-allow-faults").assert_outcomes(passed=3)


def test_marker(run):
    done = run(
        """
@pytest.mark.ptxjit_fault
def test_any():
    swallow(64)

@pytest.mark.ptxjit_fault(kind="bad-address")
def test_this():
    swallow(64)

@pytest.mark.ptxjit_fault(kind="deadlock")
def test_another():
    swallow(64)

@pytest.mark.ptxjit_fault
def test_none():
    pass
""",
        "--ptxjit",
        "--strict-markers",
    )
    done.assert_outcomes(passed=2, failed=2)
    done.stdout.fnmatch_lines(["*expected a fault of kind 'deadlock', not 'bad-address'*", "*expected a kernel to go wrong*"])


def test_own_errors_that_are_expected(run):
    done = run(
        """
def test_expected(ptxjit_module, ptxjit_device):
    import ptxjit
    kernel = ptxjit_module(STORE).kernel()
    with pytest.raises(ptxjit.LaunchError):
        kernel[1, 1](64)
    out = ptxjit.zeros(1, "uint32", device=ptxjit_device)
    kernel[1, 1](out)
    assert out.tolist() == [7]
""",
        "--ptxjit",
    )
    done.assert_outcomes(passed=1)


def test_module_beside_the_test(run, pytester):
    pytester.path.joinpath("store.ptx").write_text(STORE)
    run(
        """
def test_file(ptxjit_module):
    assert ptxjit_module("store.ptx").kernels == ["store"]
""",
        "--ptxjit",
    ).assert_outcomes(passed=1)


def test_xdist(run):
    pytest.importorskip("xdist")
    run(SWALLOWED, "--ptxjit", "-n", "2").assert_outcomes(passed=2, failed=1)


def test_forked_processes(run):
    """A child works as long as its parent has not used the driver."""
    done = run(
        """
import os

def in_child(work):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def use():
    swallow(64)
    assert driver().cuCtxSynchronize() == 700

def init():
    assert driver().cuInit(0) == 3

def test_before():
    assert in_child(use) == 0

def test_after():
    assert driver().cuInit(0) == 0
    assert in_child(init) == 0
""",
        "--ptxjit",
    )
    done.assert_outcomes(passed=2)


def test_another_driver_is_loaded_already(run, pytester):
    """A process has one driver; two would be told apart by no program."""
    path = pytester.path / "libcuda.so.1"
    path.write_bytes(open(sys.modules["_ctypes"].__file__, "rb").read())
    pytester.makepyfile(sitecustom=f"import ctypes; ctypes.CDLL({os.fspath(path)!r})")
    done = run("def test_nothing():\n    pass\n", "-p", "sitecustom", "--ptxjit")
    assert done.ret != 0
    assert "another driver is loaded already" in done.stderr.str() + done.stdout.str()


# Two threads write their own numbers to one word.
RACE = """
RACE = '''
.version 7.0
.target sm_80
.address_size 64
.visible .entry race(.param .u64 out)
{
    .reg .b64 %p;
    .reg .b32 %t;
    ld.param.u64 %p, [out];
    mov.u32 %t, %tid.x;
    st.global.u32 [%p], %t;
    ret;
}
'''

def test_race():
    cuda = driver()
    pointer, function = ctypes.c_uint64(), ctypes.c_void_p()
    module, context = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), 4) == 0
    assert cuda.cuModuleLoadData(ctypes.byref(module), RACE.encode()) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b"race") == 0
    params = (ctypes.c_void_p * 1)(ctypes.addressof(pointer))
    assert cuda.cuLaunchKernel(function, 1, 1, 1, 2, 1, 1, 0, None, params, None) == 0
    assert cuda.cuCtxSynchronize() == 0
"""


def test_a_finding_fails_the_test(run, pytester):
    done = run(RACE, "--ptxjit", "--ptxjit-sanitize=race,init", "--junitxml=results.xml")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*race: kernel `race`: thread*"])
    assert "race: kernel `race`" in (pytester.path / "results.xml").read_text()
    suppressions = pytester.path / "known.txt"
    suppressions.write_text("race kernel=race\n")
    done = run(RACE, "--ptxjit", "--ptxjit-sanitize=race", f"--ptxjit-suppress={suppressions}")
    done.assert_outcomes(passed=1)
    assert run(RACE, "--ptxjit", "--ptxjit-sanitize=races").ret != 0
