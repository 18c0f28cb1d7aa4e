"""The bill of materials of a release (CycloneDX 1.6, JSON): what its wheel contains of others, and what it needs.

Contained: the JavaScript packages in the console's bundle, from console/package-lock.json. Needed: the packages of
`dependencies` and of the extras for users, with the versions that the tests ran with, from constraints.txt.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any, Final

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

__all__ = ["write_bill"]

_NOT_FOR_USERS: Final = {"dev", "all"}


def write_bill(root: Path, version: str, dist: Path) -> Path:
    """Write `headstream-VERSION.cdx.json` and return its path.

    Args:
        root: The repository.
        version: The release's version.
        dist: The directory of the release's files.
    """
    bill = Bom()
    product = _component("headstream", version, "pypi", license_text="Apache-2.0")
    bill.metadata.component = product
    bundled = [_component(name, of, "npm", license_text=text) for name, of, text in _bundled(root)]
    required, optional = _needed(root)
    needed = [_component(name, of, "pypi", ComponentScope.REQUIRED) for name, of in required]
    needed += [_component(name, of, "pypi", ComponentScope.OPTIONAL) for name, of in optional]
    for component in (*bundled, *needed):
        bill.components.add(component)
    bill.register_dependency(product, [*bundled, *needed])
    path = dist / f"headstream-{version}.cdx.json"
    path.write_text(JsonV1Dot6(bill).output_as_string(indent=2) + "\n", encoding="utf-8")
    return path


def _component(
    name: str, version: str, kind: str, scope: ComponentScope | None = None, *, license_text: str | None = None
) -> Component:
    url = PackageURL(type=kind, name=name, version=version)
    return Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        purl=url,
        bom_ref=str(url),
        scope=scope,
        licenses=[LicenseExpression(license_text)] if license_text else None,
    )


def _bundled(root: Path) -> list[tuple[str, str, str]]:
    """Return name, version and license of each package that the console's bundle contains."""
    packages: dict[str, Any] = json.loads((root / "console/package-lock.json").read_text(encoding="utf-8"))["packages"]
    return [
        (path.removeprefix("node_modules/"), package["version"], package["license"])
        for path, package in packages.items()
        if path and not package.get("dev")
    ]


def _needed(root: Path) -> tuple[list[tuple[NormalizedName, str]], list[tuple[NormalizedName, str]]]:
    """Return the packages that are always needed, and those of extras, with their tested versions."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = dict(line.split("==") for line in (root / "constraints.txt").read_text(encoding="utf-8").split())
    tested = {canonicalize_name(name): version for name, version in pins.items()}
    required = {_name(line) for line in project["dependencies"]}
    extras = {
        _name(line) for extra, lines in project["optional-dependencies"].items() if extra not in _NOT_FOR_USERS for line in lines
    }
    optional = extras - required - {"headstream"}
    return [(name, tested[name]) for name in sorted(required)], [(name, tested[name]) for name in sorted(optional)]


def _name(requirement: str) -> NormalizedName:
    return canonicalize_name(Requirement(requirement).name)
