from __future__ import annotations

from py4j.protocol import Py4JJavaError, Py4JNetworkError

from headstream.replicate.inputs.collecting import find_source_fault, is_too_big, reason_of


class UnreadableError(Py4JJavaError):  # type: ignore[misc]
    """Spark's error after its Java process ran out of memory: its text would be asked of that process."""

    def __init__(self) -> None:
        Exception.__init__(self)

    def __str__(self) -> str:
        raise Py4JNetworkError("Answer from Java side is empty")


def test_an_error_whose_text_cannot_be_asked_for_is_one_of_too_little_memory() -> None:
    assert is_too_big(UnreadableError())
    assert is_too_big(Py4JNetworkError("java.lang.OutOfMemoryError: Java heap space"))
    assert not is_too_big(Py4JNetworkError("Answer from Java side is empty"))


def test_reason_of_is_the_errors_type_when_its_text_is_empty() -> None:
    assert reason_of(KeyError()) == "KeyError"
    assert find_source_fault(KeyError()) is None
