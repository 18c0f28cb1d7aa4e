"""Real Replicate messages for experiments; ORIGIN.md names their sources."""

from __future__ import annotations

from importlib.resources import files

__all__ = ["sample_messages"]

_FILES = (
    "salaries_metadata_v1.json",
    "salaries_metadata_v2.json",
    "salaries_refresh.json",
    "salaries_metadata_v2.avro",
    "salaries_refresh.avro",
    "without_schema_id.jsonl",
)


def sample_messages() -> list[tuple[str, bytes]]:
    """Return the messages of the samples with their file names, in delivery order."""
    messages: list[tuple[str, bytes]] = []
    for name in _FILES:
        content = files(__package__).joinpath(name).read_bytes()
        parts = content.splitlines() if name.endswith(".jsonl") else [content]
        messages += [(name, part) for part in parts if part.strip()]
    return messages
