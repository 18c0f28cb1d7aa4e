"""Write docs/api.md: every name that `import headstream as hs` gives, with its docstring.

    python tools/make_api_reference.py [--check]

--check writes nothing, and exits with 1 where the page is not what would be written.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import headstream as hs
from headstream.core.model.constructors import KindType

PAGE = Path(__file__).parents[1] / "docs/api.md"
HEAD = """# API reference

For Python developers: the parameters, results and errors of every public name of `import headstream as hs`.

`make docs` generates this page from the docstrings. The pages about [connecting and producing](client.md),
[consuming](consuming.md) and [headers](headers.md) describe how to use the names together.
"""
ROOMS: dict[str, tuple[str, ...]] = {
    "Connecting": ("connect", "connect_async", "Client", "AsyncClient", "Server", "AsyncServer"),
    "Producing": ("Producer", "AsyncProducer", "Receipt", "Delivered", "ProducerStats", "Partitioning"),
    "Consuming": (
        *("Consumer", "TopicsConsumer", "AsyncConsumer", "AsyncTopicsConsumer"),
        *("Retry", "PollingStrategy", "Group", "GroupMember", "GroupPartition"),
    ),
    "Handlers": ("App",),
    "Messages": ("Message", "ReceivedMessage", "MessageState", "checksum", "convert", "plan_conversion"),
    "Headers": ("Headers", "HeaderValue", "HeaderKind"),
    "Topics": ("Stream", "Topic", "Partition", "Limits", "Fsync"),
}


def pages_names() -> Iterator[tuple[str, list[str]]]:
    """Iterate over the rooms of the page and their names; what is in none is with the others."""
    left = [name for name in [*hs.__all__, "bool"] if name != "__version__"]
    for room, names in ROOMS.items():
        found = [name for name in names if name in left]
        left = [name for name in left if name not in found]
        yield room, found
    kinds = [name for name in left if isinstance(getattr(hs, name), KindType)]
    yield "Constructors of header values", kinds
    errors = [name for name in left if name not in kinds and issubclass(getattr(hs, name), BaseException)]
    yield "Other types", [name for name in left if name not in kinds and name not in errors]
    yield "Errors", errors


def signature_of(thing: Any) -> str:
    """Return a signature as its source has it, without the modules' names."""
    try:
        text = str(inspect.signature(thing))
    except (TypeError, ValueError):
        return "(...)"
    text = re.sub(r"<[^<>]* at 0x[0-9a-f]+>", "...", text)
    return re.sub(r"<(\w+)\.(\w+): .*?>", r"\1.\2", text.replace("'", ""))


def text_of(thing: Any) -> str:
    """Return a docstring as Markdown: its sections as lists."""
    doc = inspect.getdoc(thing) or ""
    lines: list[str] = []
    section, has_options = "", False
    for line in doc.splitlines():
        if re.fullmatch(r"(Args|Returns|Raises|Attributes):", line):
            section = line[:-1]
            lines += ["", f"*{section}*", ""]
        elif section == "Returns" and line.startswith("    ") and lines[-1]:
            lines[-1] += f" {line.strip()}"  # the next line of a sentence
        elif section and line.startswith("    ") and not line.startswith("     "):
            name, colon, rest = line.strip().partition(": ")
            is_named = bool(colon) and re.fullmatch(r"[\w*, ]+", name) is not None
            lines.append(f"- `{name}`: {rest}" if is_named else f"- {line.strip()}")
            has_options = rest == "By name:"
        elif section and has_options and (option := re.fullmatch(r" {8}([a-z]\w*(?:, \w+)*): (.+)", line)):
            lines.append(f"    - `{option[1]}`: {option[2]}")
        elif section and line.startswith("     "):
            lines[-1] += f" {line.strip()}"
        else:
            section = "" if line.strip() else section
            lines.append(f"    {line}" if line.startswith("    ") else line)
    return "\n".join(lines).strip()


def members_of(kind: type) -> Iterator[tuple[str, Any]]:
    """Iterate over the public methods and properties of a class that Headstream defines, by their order in the source."""
    seen: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("headstream"):
            seen |= {name: value for name, value in vars(base).items() if not name.startswith("_")}
    for name, value in seen.items():
        plain = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        if isinstance(plain, property) or inspect.isfunction(plain):
            yield name, plain


def describe(name: str) -> str:
    """Return what the page says of a name."""
    thing = getattr(hs, name)
    parts = []
    if isinstance(thing, KindType):
        return f"### `hs.{name}(value)`\n\n{text_of(thing)}"
    if not inspect.isclass(thing):
        parts.append(f"### `hs.{name}{signature_of(thing)}`\n\n{text_of(thing)}")
        return "\n".join(parts)
    bases = [base.__name__ for base in thing.__bases__ if base.__name__ in hs.__all__]
    kinds = f" ({', '.join(bases)})" if bases else ""
    parts.append(f"### `hs.{name}`{kinds}\n\n{text_of(thing)}")
    if issubclass(thing, BaseException):
        return "\n".join(parts)
    for member, value in members_of(thing):
        if isinstance(value, property):
            parts.append(f"\n**`.{member}`** {text_of(value)}")
        else:
            shown = re.sub(r"^\((self|cls)(, )?", "(", signature_of(value))
            awaited = "await " if inspect.iscoroutinefunction(value) else ""
            parts.append(f"\n#### `{awaited}.{member}{shown}`\n\n{text_of(value)}")
    return "\n".join(parts)


def page() -> str:
    """Return the whole page."""
    parts = [HEAD]
    for room, names in pages_names():
        if names:
            parts += [f"## {room}\n", *(describe(name) + "\n" for name in names)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"


def main() -> None:
    """Write the page, or compare it."""
    text = page()
    if "--check" in sys.argv[1:]:
        is_current = PAGE.exists() and PAGE.read_text("utf-8") == text
        sys.exit(0 if is_current else "docs/api.md is not what today's docstrings give: run `make docs`")
    PAGE.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
