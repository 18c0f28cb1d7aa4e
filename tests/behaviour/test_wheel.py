"""A wheel built without a compiler says so by its name, works, and warns at its first use."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
USE = """
import headstream as hs
for _ in range(2):
    with hs.connect("memory://") as log:
        log.create_topic("shop/orders")
        with log.producer("shop/orders") as producer:
            producer.send(b"x")
        print(log.poll("shop/orders")[0].payload)
"""


def use(wheel: Path, **environment: str) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", USE],
        env={**os.environ, "PYTHONPATH": str(wheel), **environment},
        cwd=wheel.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, done.stderr


def test_a_wheel_without_compiled_kernels_is_pure_and_warns_once(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.so", "*.c", "__pycache__", "*.egg-info"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    # As on a machine without Cython, which costs less time here than one without a compiler and comes to the same.
    (source / "Cython.py").write_text("raise ImportError")
    build = [
        sys.executable,
        "-c",
        "import sys; sys.path.insert(0, ''); import setuptools.build_meta as b; print(b.build_wheel('..'))",
    ]
    done = subprocess.run(build, cwd=source, capture_output=True, text=True, check=True)
    assert "no kernel was compiled" in done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    unpacked = tmp_path / "unpacked"
    with zipfile.ZipFile(wheel) as archive:
        assert "headstream/connect.py" in archive.namelist()
        assert [name for name in archive.namelist() if name.endswith("_histories.py") or name.startswith("tests/")] == []
        archive.extractall(unpacked)
    out, err = use(unpacked)
    assert out == "b'x'\nb'x'\n"
    assert err.count("RuntimeWarning: Headstream's kernels run interpreted") == 1
    assert use(unpacked, HEADSTREAM_INTERPRETED="1")[1] == ""
