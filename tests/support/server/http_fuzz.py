"""Requests made at random out of the description of the interface: mostly right, in places wrong, and now and then garbage."""

from __future__ import annotations

import json
import string
from typing import Any, NamedTuple
from urllib.parse import quote

from hypothesis import strategies as st


class Asked(NamedTuple):
    """One request."""

    method: str
    path: str
    body: bytes | None


_TEXTS = st.text(max_size=20) | st.sampled_from(["iggy", "s", "t", "1", "0", "", "a/b", "é", "x" * 256, "AQAAAA==", "consumer:7"])
_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 130), 1 << 130) | st.floats(allow_nan=False) | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=8,
)


class _Schemas:
    """Strategies of the schemas of one description."""

    def __init__(self, description: Any) -> None:
        self._schemas = description["components"]["schemas"]

    def of(self, schema: Any) -> st.SearchStrategy[Any]:
        """What fits a schema, or is about to."""
        if "$ref" in schema:
            return self.of(self._schemas[schema["$ref"].rpartition("/")[2]])
        if "anyOf" in schema:
            return st.one_of([self.of(one) for one in schema["anyOf"]])
        if "enum" in schema:
            return st.sampled_from(schema["enum"])
        kind = schema.get("type")
        if kind == "integer":
            low, high = schema.get("minimum", 0), schema.get("maximum", 1 << 32)
            return st.sampled_from([low, 1, 2, high]) | st.integers(0, 5) | st.integers(low, high)
        if kind == "array":
            return st.lists(self.of(schema["items"]), max_size=4)
        if kind == "object":
            return self._object(schema)
        if kind == "boolean":
            return st.booleans()
        if schema.get("contentEncoding") == "base64":
            return st.sampled_from(["", "aGVsbG8=", "AQAAAA==", "AA==", "not base64"])
        return _TEXTS if kind == "string" else _ANYTHING

    def _object(self, schema: Any) -> st.SearchStrategy[Any]:
        members = {name: self.of(one) for name, one in schema.get("properties", {}).items()}
        needed = {name: members.pop(name) for name in schema.get("required", ()) if name in members}
        fixed = st.fixed_dictionaries(needed, optional=members)
        if not schema.get("additionalProperties"):
            return fixed  # none are described, or none are allowed
        names = st.integers(0, 5).map(str) if "propertyNames" in schema else _TEXTS
        return st.dictionaries(names, self.of(schema["additionalProperties"]), max_size=3)


@st.composite
def requests(draw: st.DrawFn, description: Any) -> Asked:
    """A request of one of the routes."""
    schemas = _Schemas(description)
    routes = [(path, method) for path, methods in sorted(description["paths"].items()) for method in methods]
    path, method = draw(st.sampled_from(routes))
    operation = description["paths"][path][method]
    query = []
    for parameter in operation.get("parameters", ()):
        value = draw(schemas.of(parameter["schema"]) if draw(st.integers(0, 9)) else _ANYTHING)
        spelled = quote(value if isinstance(value, str) else json.dumps(value), safe=draw(st.sampled_from(["", "/%"])))
        if parameter["in"] == "path":
            path = path.replace("{" + parameter["name"] + "}", spelled or "x")
        elif parameter["required"] or draw(st.booleans()):
            query.append(f"{parameter['name']}={spelled}")
    body = None
    if "requestBody" in operation:
        body = draw(_body(schemas.of(operation["requestBody"]["content"]["application/json"]["schema"])))
    return Asked(method.upper(), path + ("?" + "&".join(query) if query else ""), body)


@st.composite
def _body(draw: st.DrawFn, right: st.SearchStrategy[Any]) -> bytes:
    """A body of JSON: right, with a member or two that are not, or garbage."""
    how = draw(st.integers(0, 9))
    if how == 0:
        return draw(st.binary(max_size=50))
    document = draw(right if how > 1 else _ANYTHING)
    if isinstance(document, dict) and document and how < 5:
        document[draw(st.sampled_from(sorted(document)))] = draw(_ANYTHING)
    data = json.dumps(document, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")
    if how != 5:
        return data
    at = draw(st.integers(0, max(len(data) - 1, 0)))
    return (
        data[:at] + draw(st.sampled_from([b"", b"\xff", b"{", b'"', *(char.encode() for char in string.digits)])) + data[at + 1 :]
    )
