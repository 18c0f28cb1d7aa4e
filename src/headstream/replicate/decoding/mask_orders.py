"""The byte order of a task's Avro column masks: inferred from rows, decided once per task, and stored.

Replicate's guide specifies little-endian, but no public sample proves this. A row contradicts a byte order if, in this order, the
column mask has a bit without a column, or omits a column that has a value. It also contradicts the order if the change mask omits
a column that differs from beforeData.

The format excludes the first two cases. So one row whose column mask contradicts exactly one order decides the order of its task.
A column can differ although the change mask omits it, so two changes are needed to decide by change masks: in one order, these
masks have exactly the columns that differ, and the rows contradict the other order. NaN equals NaN, and -0.0 equals 0.0.

The order of a task is stored in a file or object of the schema store, `_mask_orders/<server>/<task>`, which later runs and other
processes read. The file `<task>.evidence` has the reason for the decision, as JSON.
"""

from __future__ import annotations

import functools
import json
import os
import time
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headstream.errors import StorageError
from headstream.replicate.codec import Lineage
from headstream.replicate.storage.places import StorePlace
from headstream.replicate.storage.store_files import StoreFiles

RowMarks: TypeAlias = npt.NDArray[np.bool_]
"""One mark per row."""
Claims: TypeAlias = Callable[[], list[tuple[int, pa.Array]]]
"""Returns ordinals with one mark per row: whether the row has a value in the column, or has changed the column."""
Order = Literal["little", "big"]
_DIRECTORY: Final = "_mask_orders"
_EVIDENCE: Final = ".evidence"
_ASK_EVERY_S: Final = 5.0
"""Interval at which an object store is queried for an undecided order, seconds."""
_KEPT_VOTES: Final = 100
"""Number of change sequences kept per order of an undecided task."""


class MaskOrders:
    """The decided byte orders, in the directory or object store of the schema store.

    Args:
        schema_store: The directory of the schema store or of its copy.
        place: The schema store's URI, if it is in an object store.
        clock_s: Returns the time, seconds.
    """

    def __init__(
        self, schema_store: Path, place: StorePlace | None = None, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._directory = schema_store / _DIRECTORY
        self._place = None if place is None else place / _DIRECTORY
        self._clock_s = clock_s
        self._known: dict[tuple[str, str], Order] = {}
        self._asked_s: dict[tuple[str, str], float] = {}
        self._evidence: dict[tuple[str, str], dict[str, Any] | None] = {}
        self._votes: dict[tuple[str, str], dict[Order, set[str]]] = {}

    def find(self, lineage: Lineage) -> Order | None:
        """Return the byte order of a task's masks; None if undecided.

        Raises:
            StorageError: the file exists but cannot be read.
        """
        task = (lineage.server, lineage.task)
        if task not in self._known:
            text = self._read_file(lineage) if self._place is None else self._read_object(lineage, self._place)
            if text is None:
                return None
            self._known[task] = "big" if text.strip() == "big" else "little"
        return self._known[task]

    def _read_file(self, lineage: Lineage) -> str | None:
        path = self._path(lineage)
        try:
            return path.read_text()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"cannot read a mask order: {error.strerror}", where=str(path)) from error

    def _read_object(self, lineage: Lineage, place: StorePlace) -> str | None:
        """Return the order from the object store, read at most once per _ASK_EVERY_S, after storing any local order there."""
        task, now_s = (lineage.server, lineage.task), self._clock_s()
        if task in self._asked_s and now_s < self._asked_s[task] + _ASK_EVERY_S:
            return None
        self._asked_s[task] = now_s
        files, own = StoreFiles(place / self._name(lineage)), self._read_file(lineage)
        if own is not None:
            files.create(own.encode())
        found = files.read()
        return None if found is None else found[0].decode()

    def vote(self, lineage: Lineage, votes: dict[Order, set[str]]) -> dict[Order, set[str]]:
        """Add change sequences that support an order of a task; return all sequences so far, which are kept only in memory."""
        kept = self._votes.setdefault((lineage.server, lineage.task), {"little": set(), "big": set()})
        for order, sequences in votes.items():
            kept[order] = set(sorted(kept[order] | sequences)[:_KEPT_VOTES])
        return kept

    def decide(self, lineage: Lineage, order: Order, evidence: dict[str, Any] | None = None) -> Order:
        """Store the order of a task; return the stored order, which another process may have stored first.

        Args:
            lineage: A table of the task.
            evidence: The reason for the decision, for display, in JSON types.

        Raises:
            StorageError: the file cannot be written.
        """
        found = self.find(lineage)
        if found is not None:
            return found
        line = json.dumps({"order": order, **(evidence or {})}) + "\n"
        if self._place is None:
            self._write_file(self._path(lineage, _EVIDENCE), line)
            self._write_file(self._path(lineage), f"{order}\n")
        else:
            StoreFiles(self._place / (self._name(lineage) + _EVIDENCE)).create(line.encode())
            StoreFiles(self._place / self._name(lineage)).create(f"{order}\n".encode())
            self._asked_s.pop((lineage.server, lineage.task), None)
        return self.find(lineage) or order

    def evidence(self, lineage: Lineage) -> dict[str, Any] | None:
        """Return the evidence for the order of a task; None if unknown, because earlier versions did not store evidence.

        Raises:
            StorageError: the file exists but cannot be read.
        """
        task = (lineage.server, lineage.task)
        if task not in self._evidence:
            if self.find(lineage) is None:
                return None
            self._evidence[task] = self._read_evidence(lineage)
        return self._evidence[task]

    def _read_evidence(self, lineage: Lineage) -> dict[str, Any] | None:
        text: str | None = None
        if self._place is not None:
            found = StoreFiles(self._place / (self._name(lineage) + _EVIDENCE)).read()
            text = None if found is None else found[0].decode()
        try:
            text = self._path(lineage, _EVIDENCE).read_text() if text is None else text
            stored: dict[str, Any] = json.loads(text)
        except (FileNotFoundError, ValueError):
            return None
        except OSError as error:
            raise StorageError(
                f"cannot read a mask order: {error.strerror}", where=str(self._path(lineage, _EVIDENCE))
            ) from error
        return stored if stored.get("order") == self.find(lineage) else None

    def _write_file(self, path: Path, content: str) -> None:
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(content)
            try:
                os.link(temporary, path)
            except FileExistsError:
                pass
            finally:
                temporary.unlink()
        except OSError as error:
            raise StorageError(f"cannot write a mask order: {error.strerror}", where=str(path)) from error

    def _path(self, lineage: Lineage, suffix: str = "") -> Path:
        return self._directory / f"{self._name(lineage)}{suffix}"

    @staticmethod
    def _name(lineage: Lineage) -> str:
        server, task = (urllib.parse.quote(name, safe=" ").replace(".", "%2E") for name in (lineage.server, lineage.task))
        return f"{server or '%00'}/{task or '%00'}"


def reverse_masks(masks: pa.BinaryArray) -> pa.BinaryArray:
    """Return masks with the bytes in reverse order."""
    coded = masks.dictionary_encode()
    turned = pa.array([None if mask is None else mask[::-1] for mask in coded.dictionary.to_pylist()], pa.binary())
    return turned.take(coded.indices)


def wider_than(masks: pa.BinaryArray, ordinals: frozenset[int]) -> RowMarks:
    """Return which rows have a little-endian mask with a bit without a column.

    Args:
        masks: Column or change masks.
        ordinals: The ordinals of all columns.
    """
    found: RowMarks = np.zeros(len(masks), np.bool_)
    full = _full(ordinals)
    if all(not mask or not int.from_bytes(mask, "little") & ~full for mask in masks.unique().to_pylist()):
        return found  # as in all valid messages
    coded = masks.dictionary_encode()
    beyond = [mask is not None and int.from_bytes(mask, "little") & ~full != 0 for mask in coded.dictionary.to_pylist()]
    marks: RowMarks = pc.fill_null(pc.take(pa.array(beyond, pa.bool_()), coded.indices), False).to_numpy(zero_copy_only=False)
    return marks


def contradictions(masks: pa.BinaryArray, claims: Claims, ordinals: frozenset[int]) -> RowMarks:
    """Return which rows have a little-endian mask that omits a column that the row contains.

    Args:
        masks: One mask per row; nulls are ignored.
        claims: Returns which rows have a value in each column; called if a mask omits a column.
        ordinals: The ordinals of all columns.
    """
    found: RowMarks = np.zeros(len(masks), np.bool_)
    full = _full(ordinals)
    if all(not mask or int.from_bytes(mask, "little") & full == full for mask in masks.unique().to_pylist()):
        return found  # whole images
    width = (max(ordinals, default=0) + 7) // 8
    coded = masks.dictionary_encode()
    bits = []
    needed = []
    for mask in coded.dictionary.to_pylist():
        number = full if not mask else int.from_bytes(mask, "little")
        needed.append(number & full != full)
        low = (number & ((1 << width * 8) - 1)).to_bytes(width, "little")
        bits.append(np.unpackbits(np.frombuffer(low, np.uint8), bitorder="little"))
    table = np.array(bits, dtype=np.bool_)
    indices = pc.fill_null(coded.indices, 0).to_numpy()
    valid = masks.is_valid().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(np.array(needed)[indices] & valid)
    present = table[indices[rows]]
    for ordinal, values in claims():
        values_here = values.to_numpy(zero_copy_only=False)[rows].astype(np.bool_)
        found[rows] |= values_here & ~present[:, ordinal - 1]
    return found


def exact_masks(masks: pa.BinaryArray, claims: Claims) -> RowMarks:
    """Return which rows have a little-endian mask with exactly the columns that the row has changed (at least one).

    Args:
        masks: Change masks; a null mask is not exact.
        claims: Returns the comparable columns, and which rows have changed in each column.
    """
    texts = masks.to_pylist()
    numbers = [int.from_bytes(mask, "little") if mask else 0 for mask in texts]
    wanted = [0] * len(texts)
    known = 0
    for ordinal, marks in claims():
        known |= 1 << ordinal - 1
        for row in np.flatnonzero(marks.to_numpy(zero_copy_only=False).astype(np.bool_)).tolist():
            wanted[row] |= 1 << ordinal - 1
    return np.array([number != 0 and number & known == want for number, want in zip(numbers, wanted, strict=True)], np.bool_)


def without_columns(masks: pa.BinaryArray, absent: frozenset[int], ordinals: frozenset[int]) -> pa.BinaryArray:
    """Return little-endian masks without the bits of columns that never occur in the rows.

    Args:
        masks: Column masks; a null or empty mask means every column.
        absent: Ordinals of the columns to remove.
        ordinals: The ordinals of all columns.
    """
    if not absent:
        return masks
    full = _full(ordinals)
    kept = ~sum(1 << ordinal - 1 for ordinal in absent)
    width = (max(ordinals) + 7) // 8
    coded = masks.dictionary_encode(null_encoding="encode")
    numbers = [int.from_bytes(mask, "little") if mask else full for mask in coded.dictionary.to_pylist()]
    narrowed = pa.array([(number & kept).to_bytes(max(width, (number.bit_length() + 7) // 8), "little") for number in numbers])
    return narrowed.cast(pa.binary()).take(coded.indices)


@functools.lru_cache(maxsize=1024)
def _full(ordinals: frozenset[int]) -> int:
    """Return the integer value of a little-endian mask that has every column."""
    return sum(1 << ordinal - 1 for ordinal in ordinals)
