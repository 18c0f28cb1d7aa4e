"""Fail where a function, a folder or the number of modules is too large: the limits are the constants below.

A function has at most 70 lines and 9 parameters, a folder 30 modules, no module imports one that imports it, and no small module
has one importer, its neighbour.

A file is one concept: above 800 lines there is a warning, since its length is a matter of judgement. A module of under 80 lines
that only its neighbour imports was cut off from that neighbour, unless SMALL_MODULES says why it stands alone. A function has
to fit in the head.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

SRC: Final = Path("src")
LONG_FILE_LINES: Final = 800
MAX_FUNCTION_LINES: Final = 70
MAX_PARAMETERS: Final = 9
SMALL_MODULE_LINES: Final = 80
MAX_FOLDER_MODULES: Final = 30

_COMMAND: Final = "one file per noun of the commands, which table.py joins"
_SERIALIZER: Final = "imported only where its library is installed"
SMALL_MODULES: Final = {
    "headstream.broker.commands.leases": _COMMAND,
    "headstream.broker.commands.partitions": _COMMAND,
    "headstream.broker.commands.producers": _COMMAND,
    "headstream.broker.commands.tokens": _COMMAND,
    "headstream.broker.streams": "one file per noun of the broker",
    "headstream.log.segments.send_positions": "the one cache of a segment's reader, with tests of its own",
    "headstream.cli.importing.reading": "pure: lines of a file -> messages, without a log",
    "headstream.cli.top.keys": "the terminal's keyboard, the only part that needs a terminal",
    "headstream.core.codec.kip82.down_conversion": "a step of the proposal of its own, named in docs/formats.md",
    "headstream.replicate.apply.type1.soft": "soft deletions, one concept of its own",
    "headstream.replicate.codec.avro.faults": "interpreted: the compiled rows.py calls it for rare faults",
    "headstream.replicate.iceberg.cleaning": "removal of files, apart from the commits that make them needless",
    "headstream.serializers.avro_values": _SERIALIZER,
    "headstream.serializers.json_values": _SERIALIZER,
    "headstream.serializers.msgspec_values": _SERIALIZER,
    "headstream.serializers.pydantic_values": _SERIALIZER,
    "headstream.server.iggy.fast_path.uncompiled_socket_primitives": "the interpreted twin of socket_primitives.pxd",
}
"""Why small modules with one importer stand alone; fewer than 20."""

WIDE_FUNCTIONS: Final = {
    ("src/headstream/cli/messages.py", "poll"),
    ("src/headstream/cli/messages.py", "send"),
    ("src/headstream/cli/mirror.py", "mirror"),
}
"""Commands of the command line with a parameter per option."""


def main() -> int:
    """Print warnings and breaches, and return 1 if there is a breach."""
    breaches: list[str] = []
    for path in sorted([*SRC.rglob("*.py"), *Path("bench").glob("*.py"), *Path("tests").rglob("*.py")]):
        text = path.read_text(encoding="utf-8")
        lines = text.count("\n")
        if lines > LONG_FILE_LINES:
            print(f"warning: {path} has {lines} lines: is it still one concept?")  # noqa: T201
        breaches += _long_functions(path, ast.parse(text))
        if path.is_relative_to(SRC):
            breaches += _wide_functions(path, ast.parse(text))
    breaches += _imports()
    for folder in sorted({path.parent for path in SRC.rglob("*.py")}):
        modules = len(list(folder.glob("*.py")))
        if modules > MAX_FOLDER_MODULES:
            breaches.append(f"{folder} has {modules} modules (at most {MAX_FOLDER_MODULES}): which of them belong together?")
    for breach in breaches:
        print(breach)  # noqa: T201
    return 1 if breaches else 0


def _long_functions(path: Path, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                yield f"{path}:{node.lineno}: {node.name} has {length} lines (at most {MAX_FUNCTION_LINES})"


def _wide_functions(path: Path, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or "core/codec" in path.as_posix():
            continue
        names = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        count = len([name for name in names if name not in ("self", "cls")])
        if count > MAX_PARAMETERS and (path.as_posix(), node.name) not in WIDE_FUNCTIONS:
            yield f"{path}:{node.lineno}: {node.name} has {count} parameters (at most {MAX_PARAMETERS}): make a value of them"


def _imports() -> Iterator[str]:
    """Iterate over the breaches of imports: a cycle, type-checking imports included, and small modules with one importer."""
    paths = {".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__"): path for path in SRC.rglob("*.py")}
    importers: dict[str, set[str]] = defaultdict(set)
    for module, path in paths.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    importers[inner if inner in paths else node.module].add(module)
    try:
        TopologicalSorter(importers).prepare()
    except CycleError as error:
        yield f"these modules import each other: {' -> '.join(error.args[1])}"
    small = set()
    for module, path in paths.items():
        text = path.read_text(encoding="utf-8")
        lines = text.count("\n")
        may_be_small = path.name == "__init__.py" or "\nif __name__ ==" in text  # a program
        if may_be_small or lines >= SMALL_MODULE_LINES or len(importers[module]) != 1:
            continue
        (importer,) = importers[module]
        if paths[importer].parent == path.parent:
            small.add(module)
            if module not in SMALL_MODULES:
                yield f"{path} has {lines} lines and one importer, {importer}: make it part of that, or say why in SMALL_MODULES"
    for module in sorted(SMALL_MODULES.keys() - small):
        yield f"tools/check_sizes.py: {module} needs no reason any more"


if __name__ == "__main__":
    sys.exit(main())
