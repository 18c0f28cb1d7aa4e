"""What the documentation of the sink shows does what it says."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import headstream as hs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[3]


def test_every_block_of_the_page_runs(spark: SparkSession, url: str) -> None:
    page = (ROOT / "docs/spark.md").read_text().partition("\n## Writing\n")[2]
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 3
    names: dict[str, Any] = {"spark": spark}
    for block in blocks:  # they check themselves what they have written
        code = block.replace("file:///tmp/shop-write", url).replace("spark = session()\n", "")
        exec(compile(code, "docs/spark.md", "exec"), names)


def test_example_writes_and_copies_once(spark: SparkSession, url: str, tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("spark_write", ROOT / "examples/spark/write.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.create_topics(url)
    example.write_batch(spark, url)
    for _ in range(2):  # the second run finds nothing new
        example.copy_big(spark, url, str(tmp_path / "checkpoint"))
    with hs.connect(url) as log:
        assert log.topic("shop/orders").messages_count == 1000
        copied = [m for number in (1, 2) for m in log.poll("shop/big-orders", number, start="first", count=1000)]
    assert sorted(m.headers["total"].as_float64() for m in copied) == [number / 4 for number in range(800, 1000)]
    assert {m.headers["attempt"].kind_name for m in copied} == {"uint8"}
