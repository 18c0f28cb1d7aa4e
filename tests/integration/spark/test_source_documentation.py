"""What the documentation of the source shows does what it says."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from tests.support.spark_versions import needs_spark_4_2

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[3]


@needs_spark_4_2
def test_every_block_of_the_page_runs(spark: SparkSession, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs/spark.md").read_text().partition("\n## Writing\n")[0]
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) >= 6
    names: dict[str, Any] = {"spark": spark}
    for block in blocks:
        code = (
            block.replace("file:///tmp/shop-read", url)
            .replace("/tmp/shop-read", urlsplit(url).path)
            .replace("spark = session()\n", "")
        )
        exec(compile(code, "docs/spark.md", "exec"), names)
    assert "headstream_source_lag" in capsys.readouterr().out


@needs_spark_4_2
def test_example_reads_what_it_sent(spark: SparkSession, url: str, tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("spark_read", ROOT / "examples/spark/read.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.make_log(url)
    first = [number for number in range(1000) if number % 3 == 0]
    sums = {source: [n / 4 for n in first if (n % 4 == 0) == (source == "shop")] for source in ("shop", "web")}
    assert example.read_batch(spark, url) == [(source, len(totals), sum(totals)) for source, totals in sums.items()]
    for _ in range(2):  # the second run finds nothing new
        example.copy_stream(spark, url, str(tmp_path / "table"), str(tmp_path / "checkpoint"))
        assert spark.read.format("delta").load(str(tmp_path / "table")).count() == 1000
