"""The compiled modules; everything else about the package is in pyproject.toml.

Every one of them is ordinary Python that also runs interpreted, so a machine without a C compiler (or
without Cython) installs Headstream all the same: the extensions are optional.
"""

from __future__ import annotations

from pathlib import Path

from setuptools import Extension, setup

CODEC = Path("src/headstream/codec")
COMPILED = (
    "batch/checksum",
    "batch/stamp",
    "batch/headers",
    "batch/scan",
    "batch/columns",
    "batch/variant",
    "batch/pack",
    "avro",
    "avro_walk",
    "envelope_groups",
    "envelopes",
)


def extensions() -> list[Extension]:
    """Return one extension a compiled module; none where Cython is missing."""
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    headers = [str(path) for path in (*CODEC.glob("*.h"), *CODEC.rglob("*.pxd"))]
    modules = [
        Extension(
            f"headstream.codec.{name.replace('/', '.')}",
            [f"{CODEC}/{name}.py"],
            include_dirs=[str(CODEC)],
            depends=headers,
            extra_compile_args=["-O3", "-g0"],
        )
        for name in COMPILED
        if (CODEC / f"{name}.py").exists()
    ]
    directives = {"language_level": "3", "boundscheck": False, "wraparound": False, "cdivision": True, "initializedcheck": False}
    compiled = list(cythonize(modules, compiler_directives=directives, build_dir="build/cython", quiet=True))  # type: ignore[no-untyped-call]
    for extension in compiled:
        extension.optional = True  # cythonize() does not hand it on
    return compiled


setup(ext_modules=extensions())
