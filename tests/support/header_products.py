"""The classes by which Spring Kafka and Kafka Connect read and write headers, in a JVM; HeaderProducts.java is its other side."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from headstream.core.codec.kafka import KafkaHeader
from headstream.spark.sessions.jar_sets import BROKER, Jar, JarSet
from headstream.spark.sessions.jars import fetch
from headstream.spark.sessions.java import find_java

_JARS: Final = JarSet(
    "headers",
    (
        Jar("org.springframework.kafka", "spring-kafka", "4.0.0"),
        Jar("org.springframework", "spring-messaging", "7.0.1"),
        Jar("org.springframework", "spring-core", "7.0.1"),
        Jar("tools.jackson.core", "jackson-databind", "3.0.2"),
        Jar("tools.jackson.core", "jackson-core", "3.0.2"),
        Jar("com.fasterxml.jackson.core", "jackson-annotations", "2.20"),
        Jar("org.apache.kafka", "connect-api", "4.2.0"),
    ),
)


class SeenHeader(NamedTuple):
    """A header as an application sees it.

    Args:
        type: Its Java class, or Connect's type.
        text: Its value as text, or its bytes; None for null.
        copied: The bytes of a header that the product writes of it.
    """

    type: str
    text: bytes | None
    copied: bytes | None


class HeaderProducts:
    """The classes of the products; see HeaderProducts.java."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def spring(self, headers: Sequence[KafkaHeader]) -> dict[str, SeenHeader]:
        """Return the headers that a Spring application sees; spring_json_header_types is that of its copy."""
        fields = self._ask("spring", *(part for key, data in headers for part in (key.encode(), data)))
        seen = {self._key(fields[at]): self._seen(fields[at + 1 : at + 4]) for at in range(0, len(fields) - 1, 4)}
        return seen | {"spring_json_header_types": SeenHeader("", None, _decode(fields[-1]))}

    def connect(self, headers: Sequence[KafkaHeader]) -> list[SeenHeader]:
        """Return the headers that a sink of Connect sees."""
        fields = self._ask("connect", *(part for key, data in headers for part in (key.encode(), data)))
        return [self._seen(fields[at + 1 : at + 4]) for at in range(0, len(fields), 4)]

    def spring_written(self, values: Sequence[tuple[str, str, str]]) -> list[KafkaHeader]:
        """Return the headers that a Spring application sends.

        Args:
            values: Of each its key, the name of its Java class without package, and its text.
        """
        parts: list[bytes | str | None] = []
        for key, name, text in values:
            parts += [key.encode(), name, text.encode()]
        fields = self._ask("write", *parts)
        return [(self._key(fields[at]), _decode(fields[at + 1])) for at in range(0, len(fields), 2)]

    def _ask(self, *parts: bytes | str | None) -> list[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        spelled = [part if isinstance(part, str) else "-" if part is None else base64.b64encode(part).decode() for part in parts]
        self._process.stdin.write("\t".join(spelled) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().rstrip("\n").split("\t")

    @staticmethod
    def _key(field: str) -> str:
        return (_decode(field) or b"").decode()

    @staticmethod
    def _seen(fields: Sequence[str]) -> SeenHeader:
        return SeenHeader(fields[0], _decode(fields[1]), _decode(fields[2]))


def _decode(field: str) -> bytes | None:
    return None if field == "-" else base64.b64decode(field)


@contextmanager
def header_products() -> Iterator[HeaderProducts]:
    """Run the JVM as long as the body does.

    Raises:
        JavaError: Java is missing or too old.
        JarsError: the jars are missing and cannot be downloaded.
    """
    folders = [fetch(jar_set=jar_set)[0].parent for jar_set in (_JARS, BROKER)]
    places = ":".join(f"{folder}/*" for folder in folders)
    program = Path(__file__).with_name("HeaderProducts.java")
    command = [str(find_java().executable), "-Xmx256m", "-cp", places, str(program)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield HeaderProducts(process)
        finally:
            process.kill()
