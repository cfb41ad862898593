"""Builds the wheel: the libraries and the command with cargo, then the package around them with maturin.

maturin builds the native module alone, and the package has more: the driver library with the engine, those beside it, and the
command. `PTXJIT_BUILD_PROFILE=dev` takes a debug build, which is slow to run and quick to build.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import maturin
from maturin import (  # noqa: F401
    get_requires_for_build_editable,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "crates" / "python" / "ptxjit"

# Crates with a library that programs load, and the command; those that there are.
CRATES = ["cli", "cuda", "audit", "nvml", "cudart", "cudart13", "nvjitlink", "nvjitlink13"]


def _profile() -> str:
    return os.environ.get("PTXJIT_BUILD_PROFILE", "release")


def _cargo(*words: str) -> None:
    subprocess.run(["cargo", *words], cwd=ROOT, check=True, stdout=sys.stderr)


def _lay_out() -> None:
    """Puts libraries and command where maturin takes them from."""
    packages = [f"--package=ptxjit-{name}" for name in CRATES if (ROOT / "crates" / name).is_dir()]
    _cargo("build", "--profile", _profile(), *packages)
    metadata = subprocess.run(["cargo", "metadata", "--format-version=1", "--no-deps"], cwd=ROOT, check=True, capture_output=True)
    target = Path(json.loads(metadata.stdout)["target_directory"])
    built = target / ("debug" if _profile() == "dev" else _profile())
    for folder in ("lib", "bin", "include"):
        # An earlier build may have left what is not there any more; a link leads to what is not ours.
        path = PACKAGE / folder
        path.unlink() if path.is_symlink() else shutil.rmtree(path, ignore_errors=True)
    environment = {name: value for name, value in os.environ.items() if name != "PTXJIT_LIB_DIR"}
    subprocess.run([built / "ptxjit", "dist", "--no-links", PACKAGE], check=True, env=environment, stdout=sys.stderr)
    if shutil.which("strip"):
        # Half of the bytes tell debuggers about lines.
        for file in [*(PACKAGE / "lib").iterdir(), PACKAGE / "bin" / "ptxjit"]:
            subprocess.run(["strip", "--strip-debug", file], check=False)
    (PACKAGE / "include").mkdir()
    shutil.copy(ROOT / "crates" / "cuda" / "include" / "ptxjit.h", PACKAGE / "include")


def _with_profile() -> None:
    words = os.environ.get("MATURIN_PEP517_ARGS", "")
    if "--profile" not in words:
        os.environ["MATURIN_PEP517_ARGS"] = f"{words} --profile={_profile()}".strip()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Builds a wheel."""
    _lay_out()
    _with_profile()
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """Builds what makes Python take the package from here."""
    _lay_out()
    _with_profile()
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory, config_settings=None):
    """There is none: it would be the repository."""
    raise RuntimeError("ptxjit has no source distribution: install it from a checkout of the repository, or from a wheel")
