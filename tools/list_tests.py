"""Print the modules without a test file of the same path and name in tests/unit, and the share of those that have one.

tools/list_tests.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = ROOT / "src" / "headstream"
TESTS: Final = ROOT / "tests" / "unit"


def main() -> int:
    """Print the list; return 0."""
    modules = [path.relative_to(SOURCE) for path in sorted(SOURCE.rglob("*.py")) if path.name != "__init__.py"]
    missing = [module for module in modules if not (TESTS / module.parent / f"test_{module.name}").exists()]
    for module in missing:
        print(module)  # noqa: T201
    count = len(modules) - len(missing)
    print(f"{count} of {len(modules)} modules have a test file of their own: {100 * count / len(modules):.0f} %")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
