"""Statuses, errors, and the way between them."""

from __future__ import annotations

import pickle

import pytest

from headstream import errors
from headstream.core.wire.codes import EXTENSION_CODES, TABLE, Code, name_of_code
from headstream.core.wire.refusals import decode_refusal, encode_refusal, refusal, refusal_from_json, refusal_to_json, status_of
from headstream.core.wire.statuses import Status, http_status, name_of_status
from headstream.errors import HeadstreamError


@pytest.mark.parametrize("status", [*(status for status in Status if status), 6001, 12345, 20999, (1 << 32) - 1])
def test_refusal_of_every_status_is_an_error_that_remembers_it(status: int) -> None:
    error = refusal(status)
    assert isinstance(error, HeadstreamError)
    assert status_of(error, is_extended=True) == status
    if status < 20_000:
        assert status_of(error) == status
    else:
        assert status_of(error) < 20_000
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.status, str(again)) == (type(error), status, str(error))


def every_class(root: type[HeadstreamError]) -> list[type[HeadstreamError]]:
    return [root, *(found for kind in root.__subclasses__() for found in every_class(kind))]


@pytest.mark.parametrize("kind", every_class(HeadstreamError))
def test_status_of_every_error_is_one_that_existing_clients_know(kind: type[HeadstreamError]) -> None:
    error = kind.__new__(kind, "x")
    for is_extended in (False, True):
        status = status_of(error, is_extended=is_extended)
        assert status in Status.__members__.values()
        assert status > 0
        assert is_extended or status < 20_000


def test_existing_clients_learn_that_a_topic_under_legal_hold_may_not_be_deleted() -> None:
    error = errors.LegalHoldError("x")
    assert (status_of(error), status_of(error, is_extended=True)) == (Status.UNAUTHORIZED, Status.LEGAL_HOLD)


def test_status_of_foreign_exceptions_is_the_generic_one() -> None:
    assert status_of(RuntimeError("x")) == Status.ERROR
    assert "x" not in refusal_to_json(RuntimeError("x"))["reason"]


def test_refusals_are_of_the_classes_that_users_catch() -> None:
    for status, kind in (
        (1009, errors.StreamNotFoundError),
        (2011, errors.TopicNotFoundError),
        (3007, errors.PartitionNotFoundError),
        (5000, errors.GroupNotFoundError),
        (40, errors.AuthenticationError),
        (41, errors.PermissionDeniedError),
        (1012, errors.AlreadyExistsError),
        (3, errors.ServerError),
        (20002, errors.RebalancedError),
    ):
        assert type(refusal(status)) is kind


def test_encode_refusal_and_back_keeps_every_word() -> None:
    error = refusal(2011, "no topic eu", where="stream shop", advice="Create it")
    again = decode_refusal(2011, encode_refusal(error))
    assert str(again) == str(error) == "no topic eu (stream shop). Create it"
    for body in (b"", b"\xff", b"[]", b'{"what": 7}', b'{"what": "x", "kind": "CorruptSendError"}', b'{"what": "x", "kind": 7}'):
        assert decode_refusal(2011, body).status == 2011


def check_same(error: HeadstreamError, again: HeadstreamError | None) -> None:
    assert again is not None
    assert (type(again), str(again)) == (type(error), str(error))
    assert again.status == status_of(error, is_extended=True)
    for name in ("partition", "from_offset", "until_offset"):
        assert getattr(again, name, None) == getattr(error, name, None)


@pytest.mark.parametrize(
    "error",
    [
        errors.InvalidOptionError("retention_us is 0", advice="Use 1 or more"),
        errors.CorruptSendError("damaged", from_offset=3, until_offset=9, partition=2, where="shop/orders"),
        errors.GroupInUseError("in use", where="shop/orders"),
    ],
)
def test_a_refusal_comes_back_as_the_error_it_was(error: HeadstreamError) -> None:
    check_same(error, decode_refusal(status_of(error, is_extended=True), encode_refusal(error)))
    check_same(error, refusal_from_json(refusal_to_json(error)))


def test_read_refusal_reads_that_of_any_server_and_nothing_else() -> None:
    spelled = {"id": 2011, "code": "topic_name_not_found", "reason": "Topic with name: eu was not found.", "field": None}
    found = refusal_from_json(spelled)
    assert type(found) is errors.TopicNotFoundError
    assert found.what == "Topic with name: eu was not found."
    wrong: list[object] = [None, [], {}, {"id": "x"}, {"id": 0}]
    for document in wrong:
        assert refusal_from_json(document) is None


def test_spell_refusal_says_what_http_says() -> None:
    spelled = refusal_to_json(refusal(1009, "no stream 5"))
    del spelled["error"]
    assert spelled == {"id": 1009, "code": "stream_id_not_found", "reason": "no stream 5", "field": "stream_id"}


def test_http_status_tells_numbered_misses_from_named_ones() -> None:
    found = [http_status(status) for status in (1009, 1010, 2010, 2011, 40, 41, 3)]
    assert found == [404, 400, 404, 400, 401, 403, 400]


def test_names_of_what_is_unknown_say_its_number() -> None:
    assert name_of_status(999) == "unknown(999)"
    assert name_of_code(999) == "unknown(999)"
    assert name_of_code(101) == "message.send"


def test_the_table_has_every_code_once_and_no_route_twice() -> None:
    assert set(TABLE) == set(Code)
    routes = [(entry.route.method, entry.route.path) for entry in TABLE.values() if entry.route]
    assert len(set(routes)) == len(routes)
    assert {entry.name for entry in TABLE.values() if not entry.needs_login} == {
        "ping",
        "user.login",
        "personal_access_token.login",
    }
    assert all(entry.is_extension == (code in EXTENSION_CODES) for code, entry in TABLE.items())
