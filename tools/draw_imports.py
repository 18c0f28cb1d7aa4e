"""Draw docs/imports.svg: the rooms of src/headstream, and which imports which.

    python tools/draw_imports.py            writes the drawing
    python tools/draw_imports.py --check    fails if the drawing is not current

The rows are the layers of import-linter's contracts in pyproject.toml; the arrows are read from the files: every import
statement of every module, those of functions, of type checkers and of compiled code included. An arrow that another path
implies is left out. An import that does not run down ends the tool with an error.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
SRC: Final = ROOT / "src"
DRAWING: Final = ROOT / "docs" / "imports.svg"

_CHAR: Final = 7.3
"""Width of a character of the font, pixels."""
_BOX_HEIGHT: Final = 26
_ROW_HEIGHT: Final = 64
_GAP: Final = 28
_MARGIN: Final = 24
_TITLE: Final = 30
_COLORS: Final = ("#0b5fa5", "#a54a0b", "#1c7c3a", "#7a2fa0", "#8a6d00", "#a01545", "#007a80", "#444444")
_STYLE: Final = (
    "text{font:12px ui-monospace,monospace;fill:#222}.title{font-weight:bold;font-size:14px}"
    "rect{fill:#f4f6f8;stroke:#8a94a0}path{fill:none;stroke-width:1.3}"
)


class Room(NamedTuple):
    """One box of a drawing.

    Args:
        label: The text in it.
        names: Its packages and modules: more than one where they may import each other.
    """

    label: str
    names: tuple[str, ...]


class Panel(NamedTuple):
    """The rooms of one package.

    Args:
        container: The package.
        rows: Its rooms, the upper layers first.
        arrows: Pairs of rooms of which the first imports the second.
    """

    container: str
    rows: tuple[tuple[Room, ...], ...]
    arrows: frozenset[tuple[Room, Room]]


class UpwardImportError(Exception):
    """An import does not run down."""


def read_imports(src: Path = SRC) -> set[tuple[str, str]]:
    """Return pairs of modules of which the first imports the second.

    Args:
        src: The folder that has the package headstream.
    """
    paths = {".".join(path.relative_to(src).with_suffix("").parts): path for path in (src / "headstream").rglob("*.py")}
    modules = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    found = set()
    for name, path in modules.items():
        for target in _targets(ast.parse(path.read_text("utf-8"))):
            while target not in modules:
                target = target.rpartition(".")[0]
            found.add((name, target))
    return found


def _targets(tree: ast.Module) -> Iterator[str]:
    """Yield the names of this package that a module imports."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        # No expression has imports: most nodes are left out.
        left += [
            child for child in ast.iter_child_nodes(node) if isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case))
        ]
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            plain = name.removeprefix("cython.cimports.")
            if plain == "headstream" or plain.startswith("headstream."):
                yield plain


def read_panels(imports: set[tuple[str, str]]) -> list[Panel]:
    """Return one panel per contract of layers.

    Args:
        imports: Pairs of modules, as read_imports() returns them.

    Raises:
        UpwardImportError: an import runs up, or between two rooms of one row.
    """
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = [contract for contract in settings["tool"]["importlinter"]["contracts"] if contract["type"] == "layers"]
    return [_panel(contract["containers"][0], contract["layers"], imports) for contract in contracts]


def _panel(container: str, layers: list[str], imports: set[tuple[str, str]]) -> Panel:
    rows = tuple(tuple(map(_room, layer.split("|"))) for layer in layers)
    room_of = {f"{container}.{name}": room for row in rows for room in row for name in room.names}
    level = {room: number for number, row in enumerate(rows) for room in row}
    arrows = set()
    for source, target in imports:
        above, below = _find(room_of, container, source), _find(room_of, container, target)
        if above is None or below is None or above == below:
            continue
        if level[above] >= level[below]:
            raise UpwardImportError(f"{source} imports {target}: {above.label} is not above {below.label}")
        arrows.add((above, below))
    return Panel(container, rows, frozenset(_reduced(arrows)))


def _room(text: str) -> Room:
    names = tuple(name.strip() for name in text.split(":"))
    return Room(names[0] if len(names) == 1 else f"{len(names)} modules: {', '.join(names)}", names)


def _find(room_of: dict[str, Room], container: str, module: str) -> Room | None:
    """Return the room of a module; None if it is outside the container."""
    depth = container.count(".") + 2
    return room_of.get(".".join(module.split(".")[:depth]))


def _reduced(arrows: set[tuple[Room, Room]]) -> set[tuple[Room, Room]]:
    """Return the arrows that no longer path implies."""
    below: dict[Room, set[Room]] = {}
    for source, target in arrows:
        below.setdefault(source, set()).add(target)

    def reaches(source: Room, target: Room) -> bool:
        return any(room == target or reaches(room, target) for room in below.get(source, ()))

    return {
        (source, target)
        for source, target in arrows
        if not any(reaches(room, target) for room in below[source] if room != target)
    }


class _Box(NamedTuple):
    x: float
    y: float
    width: float


def _lines(label: str) -> list[str]:
    """Return a label in lines of at most 100 characters."""
    lines = [""]
    for word in label.split(" "):
        if lines[-1] and len(lines[-1]) + len(word) >= 100:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _layout(panel: Panel, width: float, top: float) -> tuple[dict[Room, _Box], float]:
    """Return the place of each room, and where the panel ends."""
    boxes, y = {}, top + _TITLE
    for row in panel.rows:
        widths = [max(map(len, _lines(room.label))) * _CHAR + 20 for room in row]
        x = (width - sum(widths) - _GAP * (len(row) - 1)) / 2
        for room, box_width in zip(row, widths, strict=True):
            boxes[room] = _Box(x, y, box_width)
            x += box_width + _GAP
        y += _ROW_HEIGHT + 15 * (max(len(_lines(room.label)) for room in row) - 1)
    return boxes, y


def _height(room: Room) -> int:
    return _BOX_HEIGHT + 15 * (len(_lines(room.label)) - 1)


def draw(panels: list[Panel]) -> str:
    """Return the drawing as SVG.

    Args:
        panels: What to draw, from top to bottom.
    """
    width = 860.0
    parts: list[str] = []
    top = float(_MARGIN)
    for panel in panels:
        boxes, end = _layout(panel, width, top)
        parts.append(f'<text class="title" x="{_MARGIN}" y="{top + 12:.0f}">{escape(panel.container)}</text>')
        order = {room: number for number, room in enumerate(boxes)}
        for source, target in sorted(panel.arrows, key=lambda arrow: (order[arrow[0]], order[arrow[1]])):
            parts.append(_arrow(boxes[source], _height(source), boxes[target], _COLORS[order[source] % len(_COLORS)]))
        for room, box in boxes.items():
            parts += _box(room, box)
        top = end + _MARGIN
    marks = "".join(
        f'<marker id="m{color[1:]}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0L8 4L0 8z" style="fill:{color}"/></marker>'
        for color in _COLORS
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {top:.0f}" width="{width:.0f}" height="{top:.0f}">'
    body = "\n".join(parts)
    title = "<title>Imports of headstream: every arrow runs down</title>"
    return "\n".join((head, title, f"<style>{_STYLE}</style>", f"<defs>{marks}</defs>", body, "</svg>", ""))


def _arrow(source: _Box, source_height: int, target: _Box, color: str) -> str:
    """Return an arrow from the lower edge of one box to the upper edge of another, at their nearest points."""
    x = min(max(target.x + target.width / 2, source.x + 12), source.x + source.width - 12)
    to_x = min(max(x, target.x + 12), target.x + target.width - 12)
    y, to_y = source.y + source_height, target.y - 1
    bend = (to_y - y) / 2
    path = f"M{x:.0f} {y:.0f}C{x:.0f} {y + bend:.0f} {to_x:.0f} {to_y - bend:.0f} {to_x:.0f} {to_y:.0f}"
    return f'<path d="{path}" stroke="{color}" marker-end="url(#m{color[1:]})"/>'


def _box(room: Room, box: _Box) -> list[str]:
    parts = [f'<rect x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" height="{_height(room)}" rx="5"/>']
    for number, line in enumerate(_lines(room.label)):
        parts.append(f'<text x="{box.x + 10:.0f}" y="{box.y + 17 + 15 * number:.0f}">{escape(line)}</text>')
    return parts


def main() -> int:
    """Write the drawing, or with --check compare it; return the exit code."""
    drawing = draw(read_panels(read_imports()))
    if "--check" not in sys.argv:
        DRAWING.write_text(drawing, "utf-8")
        return 0
    if DRAWING.exists() and DRAWING.read_text("utf-8") == drawing:
        return 0
    sys.stderr.write("docs/imports.svg is not current: run python tools/draw_imports.py\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
