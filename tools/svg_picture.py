"""Picture: boxes, arrows and texts as SVG, on a grid of pixels. Colours follow the reader's light or dark scheme."""

from __future__ import annotations

from html import escape
from typing import Final

__all__ = ["LINE", "Picture"]

_STYLE: Final = """
text { font: 13px system-ui, sans-serif; fill: #1c2430 }
.title { font-weight: 600 } .small { font-size: 11.5px; fill: #55606e } .code { font: 12px ui-monospace, monospace }
.box { fill: #f4f6fa; stroke: #8a96a8 } .main { fill: #e3ecfb; stroke: #3f6fc4 } .done { fill: #e2f3e6; stroke: #3c8a53 }
.bad { fill: #fbe7e4; stroke: #c2503f } .line { stroke: #55606e; fill: none; stroke-width: 1.4 } .head { fill: #55606e }
@media (prefers-color-scheme: dark) {
text { fill: #e6eaf0 } .small { fill: #a7b2c2 } .box { fill: #232a35; stroke: #66738a } .main { fill: #1d3153; stroke: #6f9be8 }
.done { fill: #1c3a27; stroke: #5fb37a } .bad { fill: #45231e; stroke: #dc7b6c } .line { stroke: #a7b2c2 } .head { fill: #a7b2c2 }
}
"""
LINE: Final = 17


class Picture:
    """An SVG picture.

    Args:
        width: In pixels.
        height: In pixels.
        title: What a screen reader says.
    """

    def __init__(self, width: int, height: int, title: str) -> None:
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"',
            ' role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE}</style>",
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
            '<path class="head" d="M0 0L8 4L0 8z"/></marker></defs>',
        ]

    def box(
        self, x: int, y: int, width: int, height: int, title: str = "", *lines: str, kind: str = "box", code: bool = False
    ) -> None:
        """Draw a box with a title and lines of text, from its upper left corner."""
        self._parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>')
        if title:
            self.text(x + 12, y + 21, title, "code" if code else "title")
        for number, line in enumerate(lines):
            self.text(x + 12, y + 21 + LINE * (number + bool(title)), line, "small")

    def text(self, x: int, y: int, text: str, kind: str = "", *, anchor: str = "start") -> None:
        """Write one line; x is its beginning, middle or end."""
        self._parts.append(f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>')

    def arrow(self, *points: tuple[int, int]) -> None:
        """Draw an arrow along points."""
        path = "L".join(f"{x} {y}" for x, y in points)
        self._parts.append(f'<path class="line" d="M{path}" marker-end="url(#head)"/>')

    def line(self, *points: tuple[int, int]) -> None:
        """Draw a line along points."""
        self._parts.append(f'<path class="line" d="M{"L".join(f"{x} {y}" for x, y in points)}"/>')

    def svg(self) -> str:
        """Return the picture."""
        return "\n".join([*self._parts, "</svg>", ""])
