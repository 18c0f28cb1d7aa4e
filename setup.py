"""The compiled modules; everything else about the package is in pyproject.toml.

Every one of them is ordinary Python that also runs interpreted, so a machine without a C compiler (or
without Cython) installs Headstream all the same: the extensions are optional. HEADSTREAM_INTERPRETED=1 leaves them out.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

PACKAGE = Path("src/headstream")
JOBS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
MODULES = (
    "codec/batch/checksum",
    "codec/batch/headers",
    "codec/batch/variable",
    "codec/batch/stored/stamp",
    "codec/batch/stored/scan",
    "codec/batch/stored/filter_steps",
    "codec/batch/stored/filter_values",
    "codec/batch/stored/filter_scan",
    "codec/batch/stored/sends",
    "codec/batch/stored/siphash",
    "codec/batch/stored/summaries",
    "codec/batch/stored/compact",
    "codec/batch/stored/repeats",
    "codec/batch/to_columns/columns",
    "codec/batch/to_columns/header_columns",
    "codec/batch/to_columns/header_lists",
    "codec/batch/to_columns/payloads",
    "codec/batch/to_columns/variant",
    "codec/batch/to_columns/whole_numbers",
    "codec/batch/from_columns/pack",
    "codec/batch/from_columns/blocks",
    "codec/batch/from_columns/stored_headers",
    "codec/batch/from_columns/keys_and_ids",
    "codec/batch/from_columns/grouping",
    "codec/batch/kafka/values",
    "codec/batch/kafka/roles",
    "codec/batch/kafka/kinds",
    "codec/batch/kafka/decoding",
    "codec/batch/kafka/encoding",
    "codec/batch/kafka/varints",
    "codec/batch/kafka/record_checks",
    "codec/batch/kafka/records",
    "codec/batch/kafka/batches",
    "codec/new_buffer",
    "wire/frame_scan",
    "segments/read_ahead",
    "log/partition/producer_end",
    "log/partition/partition_end",
    "server/fast_path/route_cache",
    "server/fast_path/small_requests",
    "server/fast_path/intake",
    "server/fast_path/traffic",
    "replicate/codec/avro/rows",
    "replicate/codec/avro/skip",
    "replicate/codec/avro/walk",
    "replicate/codec/envelope_groups",
    "replicate/codec/envelopes",
)


def extensions() -> list[Extension]:
    """Return one extension a compiled module; none where Cython is missing, or with HEADSTREAM_INTERPRETED=1."""
    if os.environ.get("HEADSTREAM_INTERPRETED", "") not in ("", "0"):
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    headers = list(PACKAGE.rglob("*.h"))
    depends = [str(path) for path in (*headers, *PACKAGE.rglob("*.pxd"))]
    folders = sorted({str(path.parent) for path in headers})
    modules = [
        Extension(
            f"headstream.{name.replace('/', '.')}",
            [f"{PACKAGE}/{name}.py"],
            include_dirs=folders,
            depends=depends,
            extra_compile_args=["-O3", "-g0"],
        )
        for name in MODULES
        if (PACKAGE / f"{name}.py").exists()
    ]
    directives = {"language_level": "3", "boundscheck": False, "wraparound": False, "cdivision": True, "initializedcheck": False}
    threads = JOBS if sys.platform == "linux" else 0  # processes elsewhere import this file again, and would build
    compiled = list(cythonize(modules, nthreads=threads, compiler_directives=directives, build_dir="build/cython", quiet=True))  # type: ignore[no-untyped-call]
    for extension in compiled:
        extension.optional = True  # cythonize() does not hand it on
    return compiled


def _compiled_files(built: Path) -> list[Path]:
    """Return the extensions in a build directory: `.so`, on Windows `.pyd`."""
    return [path for path in built.rglob("*") if path.suffix in (".so", ".pyd")]


class Build(build_ext):
    """Compiles as many kernels at once as there are processors."""

    _is_stopped = False

    def finalize_options(self) -> None:
        """Set the number of compilers that run at once, unless `--parallel` has."""
        super().finalize_options()
        self.parallel = self.parallel or JOBS

    def run(self) -> None:
        """Compile; a Ctrl-C ends it, where setuptools would first compile the kernels that wait."""
        before = signal.signal(signal.SIGINT, self._stop)
        try:
            super().run()
        finally:
            signal.signal(signal.SIGINT, before)

    def build_extension(self, ext: Extension) -> None:
        """Compile one kernel, unless a Ctrl-C came."""
        if not self._is_stopped:
            super().build_extension(ext)

    def _stop(self, *_: object) -> None:
        self._is_stopped = True
        raise KeyboardInterrupt


class Wheel(bdist_wheel):
    """A wheel in which nothing was compiled is one for every machine, `py3-none-any`, and says so."""

    def run_command(self, command: str) -> None:
        """Run a command; after the build, look at what it has compiled."""
        super().run_command(command)
        if command != "build" or _compiled_files(Path(self.get_finalized_command("build").build_lib)):
            return
        self.warn("no kernel was compiled (is there a C compiler, and Cython?): Headstream will run 70 to 300 times slower")
        self.root_is_pure = True
        self.distribution.ext_modules = []


setup(ext_modules=extensions(), cmdclass={"bdist_wheel": Wheel, "build_ext": Build})
