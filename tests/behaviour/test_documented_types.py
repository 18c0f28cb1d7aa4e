"""The Python of README, docs and examples, and the names that the package exports, pass strict type checkers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import headstream as hs

ROOT = Path(__file__).parents[2]

USE = """
import asyncio
import headstream as hs

async def send(log: hs.AsyncClient, producer: hs.AsyncProducer, consumer: hs.AsyncConsumer) -> None:
    async for message in consumer:
        reveal_type(message.offset)
        reveal_type(message.partition)
        reveal_type(message.timestamp)
        reveal_type(message.state)
        total: int = message.offset + int(message.headers["attempt"])

def make(log: hs.Client, server: hs.Server) -> hs.Message:
    reveal_type(hs.Message(payload=b"").offset)
    return log.poll("shop/orders", start="-1h")[0]

app = hs.App("memory://")

@app.consume("shop/orders", group="billing", on_error=hs.Retry(attempts=5), concurrency=2)
async def bill(order: dict[str, int], attempt: hs.uint8, source: hs.string | None = None) -> None:
    print(order["number"] + int(attempt), source)

reveal_type(bill)
reveal_type(hs.uint8(3))

log = hs.conect("memory://")
"""


def check(*files: Path) -> str:
    command = [sys.executable, "-m", "mypy", "--config-file", "", "--strict", "--ignore-missing-imports", "--no-incremental"]
    done = subprocess.run(
        [*command, "--follow-imports", "silent", *map(str, files)], cwd=ROOT / "src", capture_output=True, text=True, check=False
    )
    return done.stdout


def write_files(directory: Path) -> list[Path]:
    """Write the Python of each page and example, and the use of exported names, to files of their own, and return them."""
    files = [directory / "use.py"]
    files[0].write_text(USE, "utf-8")
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = page.read_text("utf-8")
        for name, program in re.findall(r'```python title="([^"]+)"\n(.*?)```', text, re.DOTALL):
            files.append(directory / name)
            files[-1].write_text(program, "utf-8")
        blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        if blocks:
            files.append(directory / f"{page.stem.replace('-', '_')}.py")
            files[-1].write_text("\n".join(blocks), "utf-8")
    for example in sorted((ROOT / "examples").rglob("*.py")):
        files.append(directory / f"example_{example.name}")
        files[-1].write_text(example.read_text("utf-8"), "utf-8")
    stub = directory / "apache_iggy" / "__init__.pyi"  # a client that docs/iggy.md uses and this environment does not have
    stub.parent.mkdir()
    stub.write_text("from typing import Any\ndef __getattr__(name: str) -> Any: ...\n")
    return files


@pytest.mark.nightly
def test_python_of_the_pages_and_annotations_with_the_exported_names_pass_a_strict_type_checker(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    assert len(files) > 30
    told = [line.partition("use.py:")[2] or line for line in check(*files).splitlines()]
    assert [line.partition(": ")[2] for line in told if "Revealed" in line] == [
        'note: Revealed type is "int"',
        'note: Revealed type is "int"',
        'note: Revealed type is "int"',
        'note: Revealed type is "headstream.core.model.message.MessageState"',
        'note: Revealed type is "int | None"',
        'note: Revealed type is "def (order: dict[str, int], attempt: headstream.core.model.constructors.uint8, '
        'source: headstream.core.model.constructors.string | None =) -> typing.Coroutine[Any, Any, None]"',
        'note: Revealed type is "headstream.core.model.constructors.uint8"',
    ]
    errors = [line for line in told if "error:" in line]
    assert len(errors) == 1, errors  # the misspelt name, and nothing else
    assert 'Module has no attribute "conect"' in errors[0]


@pytest.mark.nightly
def test_python_of_the_pages_passes_pyright(tmp_path: Path) -> None:
    """The language server of most editors: another checker than mypy, with rules of its own. basedpyright brings its runtime."""
    write_files(tmp_path)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "standard", "extraPaths": [str(ROOT / "src")]}))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, "--project", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    errors = [f"{Path(each['file']).name}: {each['message']}" for each in found if each["severity"] == "error"]
    assert errors == ['use.py: "conect" is not a known attribute of module "headstream"']


def test_every_exported_name_is_there() -> None:
    assert [name for name in hs.__all__ if not hasattr(hs, name)] == []
