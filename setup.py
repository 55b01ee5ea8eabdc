"""The optional C++ part of the build; everything else is in pyproject.toml.

Without a compiler, or when it fails, the build warns and goes on: numpy serves instead of the kernels.
"""

from __future__ import annotations

import sys
from importlib import util
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).resolve().parent


def _builder():
    spec = util.spec_from_file_location("kernels_build", HERE / "kernels" / "native" / "build.py")
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class BuildKernels(build_ext):
    """Compiles kernels/**/*.cpp into one plain shared library (no Python in it: ctypes loads it)."""

    made = False

    def get_ext_filename(self, fullname: str) -> str:
        return str(Path(*fullname.split(".")).with_suffix(".so"))

    def build_extension(self, ext: Extension) -> None:
        builder = _builder()
        target = Path(self.get_ext_fullpath(ext.name))
        try:
            variants = builder.build(target)
        except builder.BuildError as problem:
            if not self.inplace:  # what an earlier build left would be shipped
                target.unlink(missing_ok=True)
            print(
                f"warning: the native kernels are not built, numpy serves instead: {problem}", file=sys.stderr
            )
            return
        BuildKernels.made = True
        print(f"kernels: {variants}")

    def get_outputs(self) -> list[str]:
        return [path for path in super().get_outputs() if Path(path).exists()]

    def copy_extensions_to_source(self) -> None:
        if BuildKernels.made:
            super().copy_extensions_to_source()


class Wheel(bdist_wheel):
    """The library needs no particular Python: py3-none and the platform; without it, any platform."""

    def get_tag(self) -> tuple[str, str, str]:
        platform = super().get_tag()[2]
        return "py3", "none", platform if BuildKernels.made else "any"


setup(
    ext_modules=[Extension("whimbrel.kernels.native.libwhimbrel", sources=[])],
    cmdclass={"build_ext": BuildKernels, "bdist_wheel": Wheel},
)
