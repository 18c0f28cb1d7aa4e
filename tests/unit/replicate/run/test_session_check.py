"""The reason of a failed job, in one line."""

import pytest

pytest.importorskip("pyspark")

from headstream.replicate.run import session_check

_JOB = """Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent failure: Lost task 0.3 \
(TID 3) (node-1 executor 2): org.apache.spark.SparkException: {printed}
\tat org.apache.spark.errors.SparkCoreErrors$.eofExceptionWhileReadPortNumberError(SparkCoreErrors.scala:55)
\tat org.apache.spark.util.SparkErrorUtils.tryWithSafeFinally(SparkErrorUtils.scala:83)
"""


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        (
            '\nError from python worker:\n  Traceback (most recent call last):\n    File "daemon.py", line 127, in manager\n'
            "  OSError: AF_UNIX path too long\nPYTHONPATH was:\n  /pyspark.zip\norg.apache.spark.SparkException: EOFException.",
            "OSError: AF_UNIX path too long",
        ),
        (
            "\nError from python worker:\n  /opt/python: No module named pyspark.daemon\nPYTHONPATH was:\n  /pyspark.zip",
            "/opt/python: No module named pyspark.daemon",
        ),
        (
            '\njava.io.IOException: Cannot run program "/opt/python": error=2, No such file or directory',
            'java.io.IOException: Cannot run program "/opt/python": error=2, No such file or directory',
        ),
    ],
)
def test_reason_is_what_the_workers_python_or_the_executor_said(printed: str, reason: str) -> None:
    assert session_check._reason(_JOB.format(printed=printed)) == reason


def test_reason_of_an_error_without_one_is_unknown() -> None:
    assert session_check._reason("") == "unknown"
