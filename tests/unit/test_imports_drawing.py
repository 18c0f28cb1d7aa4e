"""docs/imports.svg is drawn from today's imports, and its arrows run down."""

from __future__ import annotations

import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from tools import draw_imports


@pytest.fixture(scope="module")
def imports() -> set[tuple[str, str]]:
    return draw_imports.read_imports()


def test_drawing_is_current_when_it_is_made_again(imports: set[tuple[str, str]]) -> None:
    drawn = draw_imports.draw(draw_imports.read_panels(imports))
    assert draw_imports.DRAWING.read_text("utf-8") == drawn, "docs/imports.svg is not current: run python tools/draw_imports.py"


def test_arrows_run_down_when_they_are_read_from_the_drawing() -> None:
    arrows = re.findall(r'<path d="M\d+ (\d+)C.* (\d+)" stroke', draw_imports.DRAWING.read_text("utf-8"))
    assert len(arrows) > 40
    assert all(int(begin) < int(end) for begin, end in arrows)


def test_imports_are_found_when_they_are_in_functions_or_compiled_code(tmp_path: Path) -> None:
    package = tmp_path / "headstream" / "core" / "wire"
    package.mkdir(parents=True)
    for path in (
        package.parents[1] / "__init__.py",
        package.parent / "__init__.py",
        package / "__init__.py",
        package / "codes.py",
    ):
        path.write_text("", "utf-8")
    imports = "from cython.cimports.headstream.core.wire.codes import x\nimport os\n"
    body = f"def f():\n    from headstream.core.wire import codes\n{imports}"
    (package / "user.py").write_text(body, "utf-8")
    assert draw_imports.read_imports(tmp_path) == {("headstream.core.wire.user", "headstream.core.wire.codes")}


def test_no_module_imports_itself_through_others(imports: set[tuple[str, str]]) -> None:
    order = TopologicalSorter[str]()
    for importer, imported in imports:
        if not importer.startswith(f"{imported}."):  # a package's own __init__, which may import its modules
            order.add(importer, imported)
    order.prepare()  # a circle, also one of type-checking imports, is a CycleError that names its modules


def test_drawing_is_refused_when_an_import_runs_up() -> None:
    with pytest.raises(draw_imports.UpwardImportError, match="core is not above log"):
        draw_imports.read_panels({("headstream.core.model.message", "headstream.log.log")})


def test_drawing_is_refused_when_rooms_of_one_row_import_each_other() -> None:
    with pytest.raises(draw_imports.UpwardImportError, match="client is not above broker"):
        draw_imports.read_panels({("headstream.client.client", "headstream.broker.broker")})


def test_arrow_is_left_out_when_a_longer_path_implies_it() -> None:
    imports = {("headstream.cli.a", "headstream.log.b"), ("headstream.log.b", "headstream.core.model.c")}
    panel, *_ = draw_imports.read_panels({*imports, ("headstream.cli.a", "headstream.core.model.c")})
    assert {(source.label, target.label) for source, target in panel.arrows} == {("cli", "log"), ("log", "core")}
