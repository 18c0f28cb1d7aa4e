"""docs/pictures and docs/plots: the pictures are the drawn ones, and no text leaves its picture."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tools import draw_dialects, draw_pictures, draw_plots, draw_trace

SVG = "{http://www.w3.org/2000/svg}"
WIDEST_LETTERS = {"small": 6.4, "code": 7.3}
"""Pixels of an average letter of the widest font used, by class."""
WIDEST_LETTER = 8.2
PATHS = [draw_pictures.PLACE / f"{name}.svg" for name in draw_pictures.PICTURES]
PATHS += [draw_pictures.PLACE / "trace.svg"]
PATHS += [draw_plots.PLACE / f"{name}.svg" for name in draw_plots.PLOTS]


def test_pictures_are_current() -> None:
    assert draw_pictures.main(["--check"]) == 0
    assert draw_plots.main(["--check"]) == 0
    assert draw_trace.main(["--check"]) == 0


def test_the_bytes_of_the_drawn_message_are_those_of_the_vectors() -> None:
    vectors = json.loads((Path(__file__).parents[2] / "vectors/binary-messages.json").read_text("utf-8"))
    drawn = b"".join(data for _, data, _ in draw_dialects.split_binary())
    assert drawn.hex() in [vector["hex"] for vector in vectors["vectors"]]


def test_a_plot_of_a_line_that_a_result_does_not_have_is_an_error() -> None:
    bar = draw_plots.Bar("sends", r"^sends +([\d.]+)")
    assert draw_plots.read_value("polls 1.0\nsends  2.5 M\n", bar) == 2.5
    with pytest.raises(ValueError, match="sends"):
        draw_plots.read_value("polls 1.0\nsend 2.5\n", bar)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_texts_of_a_drawing_end_within_its_borders(path: Path) -> None:
    picture = ElementTree.fromstring(path.read_text("utf-8"))
    width, height = int(picture.attrib["width"]), int(picture.attrib["height"])
    texts = picture.findall(f"{SVG}text")
    assert len(texts) > 8
    for text in texts:
        assert 0 < int(text.attrib["y"]) < height
        if text.attrib["text-anchor"] == "start":
            letters = len(text.text or "") * WIDEST_LETTERS.get(text.attrib["class"], WIDEST_LETTER)
            assert int(text.attrib["x"]) + letters <= width, text.text


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_pictures_load_nothing(path: Path) -> None:
    svg = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|@import|<script|<image", svg)
