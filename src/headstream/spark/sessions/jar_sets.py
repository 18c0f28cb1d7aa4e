"""The jar sets that Spark needs for Delta, Kafka and object stores, and the jars of test servers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Jar:
    """Coordinates of a jar, for example `io.delta`, `delta-storage`, `4.4.0`."""

    organisation: str
    name: str
    revision: str

    @property
    def file_name(self) -> str:
        """`name-revision.jar`."""
        return f"{self.name}-{self.revision}.jar"

    def __str__(self) -> str:
        return f"{self.organisation}:{self.name}:{self.revision}"


@dataclass(frozen=True, slots=True)
class JarSet:
    """Jars that were tested together.

    Args:
        transitive: Whether the jars' dependencies are fetched too.
    """

    name: str
    jars: tuple[Jar, ...]
    transitive: bool = False

    @property
    def folder_name(self) -> str:
        """The set's name and a digest of its coordinates."""
        digest = hashlib.sha256(" ".join(map(str, self.jars)).encode()).hexdigest()
        return f"{self.name}-{digest[:8]}"


SPARK: Final = JarSet(
    "spark",
    (
        Jar("io.delta", "delta-spark_4.2_2.13", "4.4.0"),
        Jar("io.delta", "delta-storage", "4.4.0"),
        # A thin layer over code that spark-sql contains since 4.0; 4.1.1 is the newest version available.
        Jar("org.apache.spark", "spark-avro_2.13", "4.1.1"),
        Jar("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
        Jar("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.2.0"),
        Jar("org.apache.kafka", "kafka-clients", "3.9.2"),
        Jar("org.apache.commons", "commons-pool2", "2.13.1"),
    ),
)
"""Delta, Avro and Kafka for PySpark 4.2.1, tested together."""
BROKER: Final = JarSet(
    "broker",
    # Without the second jar, the broker has no logger and reports no failures.
    (Jar("org.apache.kafka", "kafka_2.13", "4.2.0"), Jar("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.3")),
    transitive=True,
)
"""A Kafka broker, for tests."""
_AWS: Final = (
    "annotations", "apache-client", "arns", "auth", "aws-core", "aws-query-protocol", "aws-xml-protocol", "checksums",
    "checksums-spi", "crt-core", "endpoints-spi", "http-auth", "http-auth-aws", "http-auth-aws-eventstream",
    "http-auth-spi", "http-client-spi", "identity-spi", "json-utils", "metrics-spi", "netty-nio-client", "profiles",
    "protocol-core", "regions", "retries", "retries-spi", "s3", "s3-transfer-manager", "sdk-core", "sts",
    "third-party-jackson-core", "utils", "utils-lite",
)  # fmt: skip
"""Parts of the AWS SDK that hadoop-aws uses; the bundle that hadoop-aws declares is over 600 MB. Spark contains the other
dependencies of these parts (Netty, slf4j, the HTTP client, commons)."""
S3: Final = JarSet(
    "s3",
    (
        Jar("org.apache.hadoop", "hadoop-aws", "3.5.0"),
        Jar("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1"),
        Jar("org.wildfly.openssl", "wildfly-openssl", "2.2.5.Final"),
        Jar("org.reactivestreams", "reactive-streams", "1.0.4"),
        Jar("software.amazon.eventstream", "eventstream", "1.0.1"),
        *(Jar("software.amazon.awssdk", name, "2.35.4") for name in _AWS),
    ),
)
"""Spark's access to S3, tested with the set SPARK."""
AZURE: Final = JarSet(
    "azure",
    (
        Jar("org.apache.hadoop", "hadoop-azure", "3.5.0"),
        Jar("org.wildfly.openssl", "wildfly-openssl", "2.2.5.Final"),
        Jar("org.hdrhistogram", "HdrHistogram", "2.2.2"),
    ),
)
"""Spark's access to Azure, tested with the set SPARK. Other dependencies are in Spark, or are used only by wasb://."""
_GOOGLE: Final = {
    "com.google.cloud.bigdataoss": {"gcs-connector": "hadoop3-2.2.26", "gcsio": "2.2.26", "util": "2.2.26",
                                    "util-hadoop": "hadoop3-2.2.26"},
    "com.google.api-client": {"google-api-client": "2.7.0"},
    "com.google.apis": {
        "google-api-services-storage": "v1-rev20240105-2.0.0",
        "google-api-services-iamcredentials": "v1-rev20211203-2.0.0",
    },
    "com.google.auth": {"google-auth-library-credentials": "1.29.0", "google-auth-library-oauth2-http": "1.29.0"},
    "com.google.http-client": {
        "google-http-client": "1.45.0", "google-http-client-apache-v2": "1.45.0", "google-http-client-gson": "1.45.0",
        "google-http-client-jackson2": "1.42.3",
    },
    "com.google.oauth-client": {"google-oauth-client": "1.34.1"},
    "com.google.flogger": {"flogger": "0.7.1", "flogger-system-backend": "0.7.1", "google-extensions": "0.7.1"},
    "com.google.api": {"gax": "2.57.0"},
    "io.opencensus": {"opencensus-api": "0.31.1", "opencensus-contrib-http-util": "0.31.1"},
    "io.grpc": {"grpc-api": "1.67.1", "grpc-context": "1.67.1"},
}  # fmt: skip
"""Google's connector without gRPC and without jars that Spark contains: 3 MB instead of 47 MB."""
GCS: Final = JarSet("gcs", tuple(Jar(group, *jar) for group, jars in _GOOGLE.items() for jar in jars.items()))
"""Spark's access to Google Cloud Storage, tested with the set SPARK."""
NAMENODE: Final = JarSet(
    "namenode",
    (
        Jar("org.apache.hadoop", "hadoop-client-minicluster", "3.5.0"),
        Jar("org.junit.jupiter", "junit-jupiter-api", "5.13.3"),
        Jar("org.junit.platform", "junit-platform-commons", "1.13.3"),
        Jar("org.mockito", "mockito-core", "4.11.0"),
        Jar("org.opentest4j", "opentest4j", "1.3.0"),
    ),
)
"""Libraries for an HDFS in one process, for tests; Spark contains the HDFS client."""
YARN: Final = JarSet(
    "yarn", tuple(Jar("org.bouncycastle", name, "1.82") for name in ("bcpkix-jdk18on", "bcprov-jdk18on", "bcutil-jdk18on"))
)
"""Jars that YARN's servers need in addition to NAMENODE, for tests."""
POSTGRESQL: Final = JarSet("postgresql", (Jar("org.postgresql", "postgresql", "42.7.8"),))
"""The JDBC driver with which Spark reads PostgreSQL."""
MARIADB: Final = JarSet("mariadb", (Jar("org.mariadb.jdbc", "mariadb-java-client", "3.5.6"),))
"""The JDBC driver with which Spark reads MariaDB and MySQL."""
_DEBEZIUM_VERSION: Final = "3.6.1.Final"
DEBEZIUM: Final = JarSet(
    "debezium",
    (
        Jar("io.debezium", "debezium-embedded", _DEBEZIUM_VERSION),
        Jar("io.debezium", "debezium-connector-postgres", _DEBEZIUM_VERSION),
        Jar("org.slf4j", "slf4j-simple", "2.0.17"),
    ),
    transitive=True,
)
"""Debezium's embedded engine and its connector for PostgreSQL, for tests and `headstream demo --postgres`."""
SETS: Final = {each.name: each for each in (SPARK, BROKER, S3, AZURE, GCS, POSTGRESQL, MARIADB, NAMENODE, YARN, DEBEZIUM)}
"""All sets by name."""
