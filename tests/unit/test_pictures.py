"""docs/pictures: the pictures are the drawn ones, and no text leaves its picture."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from tools import draw_pictures

SVG = "{http://www.w3.org/2000/svg}"
WIDEST_LETTER = 8.2
"""Pixels of an average letter of the widest font used."""


def test_pictures_are_current() -> None:
    assert draw_pictures.main(["--check"]) == 0


@pytest.mark.parametrize("name", draw_pictures.PICTURES)
def test_text_stays_in_its_picture(name: str) -> None:
    picture = ElementTree.fromstring((draw_pictures.PLACE / f"{name}.svg").read_text("utf-8"))
    width, height = int(picture.attrib["width"]), int(picture.attrib["height"])
    texts = picture.findall(f"{SVG}text")
    assert len(texts) > 10
    for text in texts:
        assert 0 < int(text.attrib["y"]) < height
        if text.attrib["text-anchor"] == "start":
            letters = len(text.text or "") * (6.4 if text.attrib["class"] == "small" else WIDEST_LETTER)
            assert int(text.attrib["x"]) + letters <= width, text.text


@pytest.mark.parametrize("name", draw_pictures.PICTURES)
def test_pictures_load_nothing(name: str) -> None:
    svg = (draw_pictures.PLACE / f"{name}.svg").read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|@import|<script|<image", svg)
