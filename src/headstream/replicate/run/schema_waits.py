"""Messages that wait for their schema: parked, and after `schema_wait` delayed, given up, or the end of the run."""

from __future__ import annotations

from dataclasses import replace

from headstream.errors import SchemaError
from headstream.replicate.parked.bounds import WaitingBounds
from headstream.replicate.parked.parking import ParkingLot
from headstream.replicate.run.unit import Parts, Unit

__all__ = ["SchemaWaits"]


class SchemaWaits:
    """The messages of one pipeline that wait for their schema.

    Args:
        parking: The store of waiting messages.
        bounds: The limits of waiting messages.
    """

    def __init__(self, parts: Parts, parking: ParkingLot, bounds: WaitingBounds) -> None:
        self._config = parts.config
        self._summary = parts.summary
        self._now_us = parts.clock_us
        self._parking = parking
        self._bounds = bounds

    def park(self, unit: Unit) -> Unit:
        """Park a unit's messages without a schema.

        Raises:
            ReplicateError: too many messages would wait.
        """
        if not unit.decoded.waiting:
            return unit
        self._bounds.check_messages(unit.decoded.waiting)
        self._parking.park(unit.decoded.waiting, self._now_us())
        return replace(unit, decoded=replace(unit.decoded, waiting=()))

    def settle_overdue(self) -> bool:
        """Delay or dead-letter messages that waited too long; return whether there were any.

        Raises:
            SchemaError: there are some, and the policy is `fail`.
        """
        overdue = self._parking.overdue(self._now_us() - self._config.schema_wait_us)
        if not overdue:
            return False
        count = sum(parcel.count for parcel in overdue)
        if self._config.on_missing_schema == "fail":
            ids = ", ".join(sorted({str(parcel.schema_id) for parcel in overdue})[:3])
            raise SchemaError(
                f"{count} messages wait for a missing schema: schema id {ids}",
                where=", ".join(self._config.topics),
                advice="Send its metadata message, or run with --on-missing-schema delayed",
            )
        if self._config.on_missing_schema == "delayed":
            self._parking.delay(overdue)
            return True
        for parcel in overdue:
            reason = f"its schema has not come in {self._config.schema_wait_us / 1e6:g} s: schema id {parcel.schema_id}"
            self._parking.give_up([parcel], reason, self._now_us())
        self._summary.dead += count
        return True
