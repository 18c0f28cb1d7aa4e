"""Unit tests of headstream.replicate.settings.formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headstream.replicate.codec import data_message
from headstream.replicate.settings.formats import MessageFormat
from tests.support.replicate.replicate_messages import make_change, make_decoder, raw_messages, reasons_of, rows_of
from tests.unit.replicate.decoding.test_json_rows import HEADERS, ROW, TABLE, TOPICS

FORMS: dict[str, tuple[dict[str, Any], MessageFormat]] = {
    "un-enveloped": ({"data": ROW, "beforeData": None, "headers": HEADERS}, MessageFormat()),
    "renamed": ({"after": ROW, "h": HEADERS}, MessageFormat(data="after", before_data="before", headers="h")),
    "flattened headers": (
        {"data": ROW, **{f"headers_{name}": value for name, value in HEADERS.items()}},
        MessageFormat(headers="headers_*"),
    ),
    "all flat": (
        {**{f"data_{k}": v for k, v in ROW.items()}, "data_before_id": 7, **{f"h_{k}": v for k, v in HEADERS.items()}},
        MessageFormat(data="data_*", before_data="data_before_*", headers="h_*"),
    ),
    "row at the top": (
        {**ROW, "op": "UPDATE", "seq": HEADERS["changeSequence"]},
        MessageFormat(data="*", headers="*", fields={"operation": "op", "changeSequence": "seq"}),
    ),
    "before 6": (
        {"task_name": "t", "schema": "shop", "table": "kit", "op": "U", "change_seq": HEADERS["changeSequence"], "ts": "",
         "stream_position": "", "data": [{"id": 7}, {"name": "x"}], "bu_data": [{"id": 7}]},
        MessageFormat(),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("document", "layout"), FORMS.values(), ids=list(FORMS))
def test_decoder_reads_a_form_of_json(tmp_path: Path, document: dict[str, Any], layout: MessageFormat) -> None:
    decoder = make_decoder(tmp_path, TABLE, format=layout, topic_tables=TOPICS)
    decoded = decoder.decode(raw_messages([json.dumps(document).encode()]))
    assert reasons_of(decoded) == {}
    (row,) = rows_of(decoded)
    assert (row["id"], row["name"], row["_hs_sequence"]) == (7, "x", HEADERS["changeSequence"])


def test_decoder_reads_an_envelope_around_a_custom_format(tmp_path: Path) -> None:
    document = json.loads(data_message(TABLE, make_change(7), form="json"))
    document["message"] = {"after": document["message"]["data"], "h": document["message"]["headers"]}
    decoder = make_decoder(tmp_path, TABLE, format=MessageFormat(data="after", headers="h"))
    assert [row["name"] for row in rows_of(decoder.decode(raw_messages([json.dumps(document).encode()])))] == ["n7"]
