"""Fail where a function has more than 70 lines, and warn where a file has more than 800.

A file is one concept, so its length is a matter of judgement; a function has to fit in the head.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

LONG_FILE_LINES = 800
MAX_FUNCTION_LINES = 70


def main() -> int:
    """Print warnings and breaches, and return 1 if there is a breach."""
    breaches = []
    for path in sorted([*Path("src").rglob("*.py"), *Path("bench").glob("*.py"), *Path("tests").rglob("*.py")]):
        text = path.read_text(encoding="utf-8")
        lines = text.count("\n")
        if lines > LONG_FILE_LINES:
            print(f"warning: {path} has {lines} lines: is it still one concept?")  # noqa: T201
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
