"""Converts a message to another dialect, and plans the losses.

    plan_conversion(message, to="kip82")                     returns the losses, and the values whose kind changes
    convert(message, to="kip82")                             returns the message in the dialect; a loss raises an error
    convert(message, to="kip82", on_loss=("text", "drop"))   applies the first policy that has a remedy for a loss

    dialect               format                                                                result of convert()
    binary                Iggy's binary transport, within the limits of existing Iggy clients   bytes
    binary-wide           Iggy's binary transport within the limits of a wide topic             bytes
    binary-first          Iggy's first binary format, without state and checksum                bytes
    json, json-wide       Iggy's JSON transport, with the same two limits                       bytes
    kip82                 a message of KIP-82                                                   bytes
    kip82-1, kip82-0      predecessors of kip82: no headers; kip82-0 also has no time           bytes
    kafka                 a Kafka record, with Headstream's convention for kinds                KafkaRecord
    replicate             a Qlik Replicate envelope, whose headers are a map of strings         bytes
    row                   the columns of a Spark row, as format("headstream") writes it         dict

Messages with an offset and a timestamp are written as stored messages, other messages (binary and JSON only) as sent messages.
"""

from __future__ import annotations

from headstream.core.codec.conversion.dialects import DIALECTS, convert, convert_all, fit_message, plan_conversion, read_messages
from headstream.core.codec.conversion.findings import POLICIES, Finding

__all__ = ["DIALECTS", "POLICIES", "Finding", "convert", "convert_all", "fit_message", "plan_conversion", "read_messages"]
