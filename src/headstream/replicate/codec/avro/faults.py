"""Error messages for the fault codes that the decoding of Avro rows reports."""

from __future__ import annotations

from typing import Final

from headstream.errors import DecodeError
from headstream.replicate.codec.avro import codes as avro_codes
from headstream.replicate.codec.avro.plan import NOTES, RowPlan

_TEXTS: Final = {
    avro_codes.LONG_VARINT: "{place} must have at most 64 bits",
    avro_codes.BRANCH: "{place} is branch {need} of a union of {have}",
    avro_codes.RANGE: "{place} is {need}, out of range for {kind}",
    avro_codes.LENGTH: "{place} has the negative length {need}",
    avro_codes.NOT_UTF8: "{place} is not UTF-8",
    avro_codes.NOT_BOOLEAN: "{place} must be a boolean (0 or 1), not {need}",
    avro_codes.DECIMAL_SIZE: "{place} must be a decimal of 1 to 16 bytes, not {need}",
    avro_codes.DECIMAL_DIGITS: "{place} must be a decimal of at most {precision} digits",
    avro_codes.ENDLESS: "{place} has more values than its bytes can hold",
    avro_codes.LEFT_OVER: "{have} unexpected bytes after the row",
}


def explain(plan: RowPlan, task: bytearray, start: int) -> DecodeError:
    """Return the error of the invalid row at `start`, at which the task's call stopped."""
    code, at, need, have, step = NOTES.unpack_from(task)[:5]
    place, kind, precision = "the row", "the row", 0
    if step:
        subject = plan.subjects[(step - avro_codes.NOTES_SIZE) // avro_codes.STEP_SIZE]
        if isinstance(subject, str):
            place, kind = subject, "its type"
        else:
            place, kind, precision = subject.place, subject.logical_type or subject.avro_type, subject.precision
    if code == avro_codes.CUT:
        return DecodeError(f"{place} is cut short", at - start, need, have)
    text = _TEXTS[code].format(place=place, kind=kind, precision=precision, need=need, have=have)
    return DecodeError(text, at - start)
