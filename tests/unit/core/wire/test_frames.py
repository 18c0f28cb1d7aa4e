"""Frames out of received bytes, in every way that the loop over them runs."""

from __future__ import annotations

from headstream.core.wire.frames import FrameBuffer, FrameBufferPool, encode_request, encode_response, request_head, response_head


def receive(frames: FrameBuffer, data: bytes) -> list[tuple[int, bytes]]:
    got = []
    while data:
        room = frames.writable()
        count = min(len(room), len(data))
        room[:count] = data[:count]
        data = data[count:]
        got += [(frame.number, bytes(frame.payload)) for frame in frames.received(count)]
        frames.done()
    return got


def test_a_frame_buffer_holds_nothing_between_requests() -> None:
    pool = FrameBufferPool()
    frames = FrameBuffer.for_requests(pool)
    payload = bytes(range(256)) * 4000
    assert receive(frames, encode_request(101, payload) + encode_request(1)) == [(101, payload), (1, b"")]
    assert frames.pending_bytes == 0
    assert 0 < pool.size_bytes <= 1 << 23


def test_a_frame_buffer_grows_with_what_came_not_with_what_is_claimed() -> None:
    pool = FrameBufferPool()
    frames = FrameBuffer.for_requests(pool)
    assert receive(frames, request_head(101, 60 << 20) + bytes(1000)) == []
    assert len(frames.writable()) < 1 << 17
    assert frames.pending_bytes == 1008


def test_a_frame_buffer_copies_a_long_frame_once_however_much_of_it_comes() -> None:
    frames, buffers, most_writable = FrameBuffer.for_requests(), list[object](), 0
    data = memoryview(encode_request(101, bytes(20 << 20)))
    at = 0
    while at < len(data):
        room = frames.writable()
        pending = frames.pending_bytes
        assert pending + len(room) <= max(2 * pending, 1 << 20)
        most_writable = max(most_writable, len(room))
        if not buffers or buffers[-1] is not frames._buffer:
            buffers.append(frames._buffer)
        count = min(len(room), 256 << 10, len(data) - at)
        room[:count] = data[at : at + count]
        found = frames.received(count)
        at += count
        if found:
            assert [(frame.number, len(frame.payload)) for frame in found] == [(101, 20 << 20)]
        frames.done()
    assert len(buffers) == 3  # the first bytes, a step, and all of it


def test_frame_buffer_reports_a_frame_that_is_too_long_and_stops_reading() -> None:
    frames = FrameBuffer.for_requests(most_bytes=1000)
    assert receive(frames, encode_request(1) + request_head(101, 4_000_000_000 - 4)) == [(1, b"")]
    assert frames.fault is not None
    assert (frames.fault.need, frames.fault.have) == (4_000_000_004, 1000)
    assert receive(frames, encode_request(1) * 100_000) == []


def test_a_pool_keeps_no_more_than_it_should() -> None:
    pool = FrameBufferPool(100_000)
    pool.give(bytearray(65_536))
    pool.give(bytearray(65_536))
    assert pool.size_bytes == 65_536
    assert len(pool.take(100)) == 100, "who asks for little may keep it for long"
    assert len(pool.take(65_536)) == 65_536
    assert pool.size_bytes == 0
    pool.give(bytearray(100))
    assert pool.size_bytes == 0


def test_a_frame_buffer_holds_little_when_little_is_allowed_and_pending() -> None:
    frames = FrameBuffer.for_requests(most_bytes=4096)
    burst = encode_request(1) * 1000 + request_head(1, 1000)
    assert len(frames.received(frames.copy_in(memoryview(burst)))) == 1000
    frames.done()
    assert (frames.pending_bytes, frames.needed_bytes) == (8, 4096)


def test_a_frame_buffer_reads_what_was_too_long_when_more_is_allowed() -> None:
    frames = FrameBuffer.for_requests(most_bytes=1000)
    sent = encode_request(1) + encode_request(101, bytes(2000)) + encode_request(2)
    assert [frame.number for frame in frames.received(frames.copy_in(memoryview(sent)))] == [1]
    assert frames.fault is not None
    frames.done()
    frames.set_max_bytes(4096)
    assert frames.fault is None
    assert [frame.number for frame in frames.received(0)] == [101, 2]


def test_feed_keeps_payloads_good() -> None:
    frames = FrameBuffer.for_responses()
    whole = encode_response(0, [b"ab", b"cd"]) + encode_response(3) + response_head(0, 4)
    assert [(f.number, bytes(f.payload)) for f in frames.feed(whole)] == [(0, b"abcd"), (3, b"")]
    assert [bytes(f.payload) for f in frames.feed(b"wxyz")] == [b"wxyz"]
