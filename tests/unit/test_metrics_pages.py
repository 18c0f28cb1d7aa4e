"""The page of metrics has every family of the code, and other pages, the dashboard and the alerts name no others."""

from __future__ import annotations

import re
from pathlib import Path

from tools.metrics_page import families_of_pipeline, families_of_server, make_page

from headstream.metrics.families import write_openmetrics
from headstream.mirror.metrics import describe_mirror
from headstream.mirror.mirror import MirrorStats
from headstream.spark.lag import LagListener

DOCS = Path(__file__).parents[2] / "docs"
OF_IGGY = {"http_requests_total", "streams", "topics", "partitions", "segments", "messages", "users", "clients"}
ROWS = dict(re.findall(r"^\| `(\w+)` \| \w+ \| .* \| (.+) \|$", make_page(), re.MULTILINE))


def test_page_has_the_families_of_every_part_with_a_sentence() -> None:
    assert {name for name in ROWS if not name.startswith("headstream_")} == OF_IGGY
    for name in ("requests_total", "replicate_lag_seconds", "mirror_lag_messages", "client_sent_bytes_total", "source_lag"):
        assert f"headstream_{name}" in ROWS
    assert [name for name, text in ROWS.items() if not re.match(r"[A-Z0-9].{6,}\.$", text)] == []


def test_other_pages_name_no_metric_that_the_code_lacks() -> None:
    named = {
        name for page in DOCS.glob("*.md") for name in re.findall(r"`(headstream_[a-z_]+)(?:\{[^`]*)?`", page.read_text("utf-8"))
    }
    known = ROWS.keys() | {name.removesuffix("_total") for name in ROWS}
    assert named - known == {"headstream_server", "headstream_log"}  # fixtures of pytest
    assert len(named) > 5


def test_names_have_units_and_texts_end_with_a_period() -> None:
    families = [*families_of_server(), *families_of_pipeline(), *describe_mirror(MirrorStats()), *LagListener().collect()]
    for family in families:
        assert re.fullmatch(r"[a-z_]+", family.name)
        assert family.documentation.endswith("."), family.name
        is_time = re.search(r"\b(age|how long|time)\b", family.documentation, re.IGNORECASE)
        assert not is_time or family.name.endswith(("_seconds", "_percent")), family.name
        assert "bytes" not in family.documentation.lower().split()[:1] or "_bytes" in family.name, family.name
    assert write_openmetrics(families).endswith("# EOF\n")
