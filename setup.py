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
    "core/codec/batch/checksum",
    "core/codec/batch/headers",
    "core/codec/batch/iggy_batches",
    "core/codec/batch/variable",
    "core/codec/batch/stored/stamp",
    "core/codec/batch/stored/scan",
    "core/codec/batch/stored/filter_steps",
    "core/codec/batch/stored/filter_values",
    "core/codec/batch/stored/filter_scan",
    "core/codec/batch/stored/sends",
    "core/codec/batch/stored/siphash",
    "core/codec/batch/stored/summaries",
    "core/codec/batch/stored/compact",
    "core/codec/batch/stored/repeats",
    "core/codec/batch/to_columns/columns",
    "core/codec/batch/to_columns/header_columns",
    "core/codec/batch/to_columns/header_lists",
    "core/codec/batch/to_columns/payloads",
    "core/codec/batch/to_columns/variant",
    "core/codec/batch/to_columns/whole_numbers",
    "core/codec/batch/from_columns/pack",
    "core/codec/batch/from_columns/blocks",
    "core/codec/batch/from_columns/stored_headers",
    "core/codec/batch/from_columns/keys_and_ids",
    "core/codec/batch/from_columns/grouping",
    "core/codec/batch/kafka/values",
    "core/codec/batch/kafka/roles",
    "core/codec/batch/kafka/kinds",
    "core/codec/batch/kafka/decoding",
    "core/codec/batch/kafka/encoding",
    "core/codec/batch/kafka/varints",
    "core/codec/batch/kafka/record_checks",
    "core/codec/batch/kafka/records",
    "core/codec/batch/kafka/batches",
    "core/codec/new_buffer",
    "core/wire/frame_scan",
    "log/segments/read_ahead",
    "log/partition/producer_end",
    "log/partition/partition_end",
    "server/iggy/fast_path/route_cache",
    "server/iggy/fast_path/small_requests",
    "server/iggy/fast_path/vsr_requests",
    "server/iggy/fast_path/intake",
    "server/iggy/fast_path/traffic",
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
