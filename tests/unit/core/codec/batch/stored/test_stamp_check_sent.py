"""check_sent: what stamp() takes, and what it refuses, without making anything."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType

import pytest

from headstream.core.codec.binary import encode_sent
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message
from headstream.core.wire.refusals import status_of
from headstream.errors import DecodeError, LimitError
from tests.support import kernels
from tests.support.messages.batches import header, sent

VARIANTS = kernels.variants("batch.stored.stamp")
SEED = bytes(16)
MESSAGES = [
    Message(payload=b"first payload", key=b"42", headers=Headers({"text": "żółw", "n": 5, "ok": True})),
    Message(payload=None, headers=Headers([("a", 1.5), ("a", None)])),
    Message(payload=b"x" * 70),
]


def _outcome(call: Callable[[], int]) -> int | tuple[str, str, int]:
    try:
        return call()
    except (DecodeError, LimitError) as error:
        return type(error).__name__, str(error), status_of(error)


def _count_stamped(module: ModuleType, data: bytes, wide: bool) -> int:
    count: int = module.stamp(data, 0, 0, SEED, wide).count
    return count


@pytest.mark.parametrize("module", VARIANTS, ids=kernels.name_of)
def test_check_sent_counts_messages_that_a_topic_takes(module: ModuleType) -> None:
    assert module.check_sent(b"", False) == 0
    assert module.check_sent(encode_sent(MESSAGES), True) == 3
    assert module.check_sent(memoryview(sent(b"a") * 500), False) == 500


@pytest.mark.parametrize("module", VARIANTS, ids=kernels.name_of)
@pytest.mark.parametrize("wide", [False, True])
def test_check_sent_raises_what_stamp_raises_at_every_truncation_and_every_changed_byte(module: ModuleType, wide: bool) -> None:
    whole = encode_sent(MESSAGES)
    damaged = [whole[:size] for size in range(len(whole))]
    damaged += [whole[:at] + bytes([whole[at] ^ change]) + whole[at + 1 :] for at in range(len(whole)) for change in (1, 0x80)]
    refused = 0
    for data in damaged:
        checked = _outcome(partial(module.check_sent, data, wide))
        assert checked == _outcome(partial(_count_stamped, module, data, wide))
        refused += not isinstance(checked, int)
    assert 0 < refused < len(damaged)


@pytest.mark.parametrize("module", VARIANTS, ids=kernels.name_of)
def test_check_sent_refuses_what_is_beyond_the_limits_of_a_topic(module: ModuleType) -> None:
    wide_only = sent(b"", header("k", 2, b"x" * 300))
    assert module.check_sent(wide_only, True) == 1
    with pytest.raises(LimitError, match="300 bytes"):
        module.check_sent(wide_only, False)
