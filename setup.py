"""The compiled modules; everything else about the package is in pyproject.toml.

Every one of them is ordinary Python that also runs interpreted, so a machine without a C compiler (or
without Cython) installs Headstream all the same: the extensions are optional.
"""

from __future__ import annotations

from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel

PACKAGE = Path("src/headstream")
CODEC = PACKAGE / "codec"
COMPILED = (
    "batch/checksum",
    "batch/stamp",
    "batch/headers",
    "batch/scan",
    "batch/payloads",
    "batch/sends",
    "batch/columns",
    "batch/header_columns",
    "batch/header_lists",
    "batch/variant",
    "batch/whole_numbers",
    "batch/pack",
    "batch/siphash",
    "batch/compact",
    "batch/repeats",
    "batch/varied",
    "batch/blocks",
    "batch/storing",
    "batch/kafka_values",
    "batch/kafka_roles",
    "batch/kafka_kinds",
    "batch/kafka_decoding",
    "batch/kafka_encoding",
    "batch/placing",
    "batch/grouping",
    "avro",
    "avro_skip",
    "avro_walk",
    "envelope_groups",
    "envelopes",
)
MODULES = (
    *(f"codec/{name}" for name in COMPILED),
    "wire/frame_scan",
    "segments/ahead",
    "log/partition_end",
    "broker/commands/short_requests",
    "server/intake",
    "broker/traffic",
)


def extensions() -> list[Extension]:
    """Return one extension a compiled module; none where Cython is missing."""
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    headers = [str(path) for path in (*CODEC.glob("*.h"), *PACKAGE.rglob("*.pxd"))]
    modules = [
        Extension(
            f"headstream.{name.replace('/', '.')}",
            [f"{PACKAGE}/{name}.py"],
            include_dirs=[str(CODEC)],
            depends=headers,
            extra_compile_args=["-O3", "-g0"],
        )
        for name in MODULES
        if (PACKAGE / f"{name}.py").exists()
    ]
    directives = {"language_level": "3", "boundscheck": False, "wraparound": False, "cdivision": True, "initializedcheck": False}
    compiled = list(cythonize(modules, compiler_directives=directives, build_dir="build/cython", quiet=True))  # type: ignore[no-untyped-call]
    for extension in compiled:
        extension.optional = True  # cythonize() does not hand it on
    return compiled


class Wheel(bdist_wheel):
    """A wheel in which nothing was compiled is one for every machine, `py3-none-any`, and says so."""

    def run_command(self, command: str) -> None:
        """Run a command; after the build, look at what it has compiled."""
        super().run_command(command)
        if command != "build" or any(Path(self.get_finalized_command("build").build_lib).rglob("*.so")):
            return
        self.warn("no kernel was compiled (is there a C compiler, and Cython?): Headstream will run 20 to 100 times slower")
        self.root_is_pure = True
        self.distribution.ext_modules = []


setup(ext_modules=extensions(), cmdclass={"bdist_wheel": Wheel})
