"""Conversion: one message in another dialect, and what it would lose by that, told before.

    plan_conversion(message, to="kip82")                     the findings: what is lost, what is kept under another kind
    convert(message, to="kip82")                             the message in that dialect; a loss is refused by name
    convert(message, to="kip82", on_loss=("text", "drop"))   a loss is accepted by the first policy that has a remedy

    dialect               what it is                                                            what convert() returns
    binary                Iggy's binary transport, within what existing Iggy clients take       bytes
    binary-wide           the same with all that a wide topic takes                             bytes
    binary-first          the same before messages had a state and a checksum                   bytes
    json, json-wide       Iggy's JSON transport, with the same two limits                       bytes
    kip82                 a message of KIP-82                                                   bytes
    kip82-1, kip82-0      its predecessors: no headers, no time in the last                     bytes
    kafka                 a record of Kafka, with Headstream's convention for kinds                     KafkaRecord
    replicate             a Qlik Replicate envelope, whose headers are a map of strings         bytes
    row                   the columns of a row of Spark's, as format("headstream") writes it    dict

Messages that have an offset and a timestamp are written as a log delivers them, others (binary and JSON alone) as a
sender sends them.
"""

from __future__ import annotations

from headstream.codec.conversion.dialects import DIALECTS, convert, convert_all, fit_message, plan_conversion, read_messages
from headstream.codec.conversion.findings import POLICIES, Finding

__all__ = ["DIALECTS", "POLICIES", "Finding", "convert", "convert_all", "fit_message", "plan_conversion", "read_messages"]
