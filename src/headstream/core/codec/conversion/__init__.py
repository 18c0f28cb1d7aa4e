"""Conversion of a message to another dialect, and a plan of the losses.

    plan_conversion(message, to="kip82")                     the findings: losses, and values that change their kind
    convert(message, to="kip82")                             the message in that dialect; a loss is an error
    convert(message, to="kip82", on_loss=("text", "drop"))   a loss is accepted by the first policy that has a remedy

    dialect               what it is                                                            what convert() returns
    binary                Iggy's binary transport, within the limits of existing Iggy clients   bytes
    binary-wide           the same within the limits of a wide topic                            bytes
    binary-first          the same before messages had a state and a checksum                   bytes
    json, json-wide       Iggy's JSON transport, with the same two limits                       bytes
    kip82                 a message of KIP-82                                                   bytes
    kip82-1, kip82-0      its predecessors: no headers, no time in the last                     bytes
    kafka                 a Kafka record, with Headstream's convention for kinds                KafkaRecord
    replicate             a Qlik Replicate envelope, whose headers are a map of strings         bytes
    row                   the columns of a Spark row, as format("headstream") writes it         dict

Messages with an offset and a timestamp are written as stored messages, other messages (binary and JSON only) as sent messages.
"""

from __future__ import annotations

from headstream.core.codec.conversion.dialects import DIALECTS, convert, convert_all, fit_message, plan_conversion, read_messages
from headstream.core.codec.conversion.findings import POLICIES, Finding

__all__ = ["DIALECTS", "POLICIES", "Finding", "convert", "convert_all", "fit_message", "plan_conversion", "read_messages"]
