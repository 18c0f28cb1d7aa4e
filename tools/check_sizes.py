"""Fail where a file has more than 400 lines or a function more than 70: that is where to look for the seam."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 70


def main() -> int:
    """Print each breach and return 1 if there is one."""
    breaches = []
    for path in sorted([*Path("src").rglob("*.py"), *Path("bench").glob("*.py"), *Path("tests").rglob("*.py")]):
        text = path.read_text(encoding="utf-8")
        lines = text.count("\n")
        if lines > MAX_FILE_LINES:
            breaches.append(f"{path}: {lines} lines (at most {MAX_FILE_LINES})")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > MAX_FUNCTION_LINES:
                    breaches.append(f"{path}:{node.lineno}: {node.name} has {length} lines (at most {MAX_FUNCTION_LINES})")
    for breach in breaches:
        print(breach)  # noqa: T201
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
