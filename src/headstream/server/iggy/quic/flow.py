"""BoundedQuicConnection: aioquic's connection with a limited receive window.

aioquic doubles a limit whenever half of it is used, so that a few packets with gaps could make it reserve gigabytes.
"""

from __future__ import annotations

from typing import Any, Final

from aioquic.quic.connection import QuicConnection

_STREAMS: Final = 100
"""Maximum number of concurrent requests per connection."""


class BoundedQuicConnection(QuicConnection):
    """The server's side of a connection.

    Attributes:
        window_bytes: Number of bytes that the peer can send ahead; initially the configured window. Increases apply to later
            packets.
        is_paused: Whether to stop increasing the peer's limits.
    """

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.window_bytes: int = self._configuration.max_data
        self.is_paused = False
        self._local_max_streams_bidi.value = self._local_max_streams_bidi.sent = _STREAMS
        self._local_max_streams_uni.value = self._local_max_streams_uni.sent = 0

    @property
    def unsent_bytes(self) -> int:
        """Number of response bytes that the peer has not acknowledged."""
        return sum(len(stream.sender._buffer) for stream in self._streams.values())

    def _ahead_bytes(self) -> int:
        """Return the number of bytes after the contiguous data: received bytes and gaps."""
        receivers = (stream.receiver for stream in self._streams.values())
        return sum(each.highest_offset - each.starting_offset() for each in receivers if not each.is_finished)

    def _write_connection_limits(self, builder: Any, space: Any) -> None:
        limit = self._local_max_data
        used = limit.used
        if not self.is_paused and used + self.window_bytes // 2 > limit.value:
            limit.value = max(limit.value, used - self._ahead_bytes() + self.window_bytes)
        limit.used = 0  # keeps aioquic from doubling the limit
        try:
            super()._write_connection_limits(builder=builder, space=space)
        finally:
            limit.used = used

    def _write_stream_limits(self, builder: Any, space: Any, stream: Any) -> None:
        receiver = stream.receiver
        highest = receiver.highest_offset
        if not self.is_paused and highest + self.window_bytes // 2 > stream.max_stream_data_local:
            stream.max_stream_data_local = max(stream.max_stream_data_local, receiver.starting_offset() + self.window_bytes)
        receiver.highest_offset = 0
        try:
            super()._write_stream_limits(builder=builder, space=space, stream=stream)
        finally:
            receiver.highest_offset = highest
