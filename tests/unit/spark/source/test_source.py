"""The data source: what a process imports with it."""

from __future__ import annotations

import subprocess
import sys

from pyspark import cloudpickle

from headstream.replicate.inputs.inputs import decoding_source

HEAVY = ("pandas", "headstream.spark.sink.sink", "headstream.client.transports.remote.caller")


def test_source_imports_neither_pandas_nor_sink_nor_client_when_a_process_plans_a_read_of_a_directory() -> None:
    """Spark starts a Python process for each stream: these imports were two fifths of its processor time."""
    script = f"import sys, headstream.spark.source.source; print([name for name in {HEAVY!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert ran.stdout.strip() == "[]"


def test_source_of_a_pipeline_imports_no_decoder_when_a_process_plans_its_stream() -> None:
    source = cloudpickle.dumps(decoding_source(lambda rows: rows)).hex()  # type: ignore[no-untyped-call]
    script = f"import pickle, sys; pickle.loads(bytes.fromhex({source!r})); print([n for n in sys.modules if '.replicate' in n])"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert ran.stdout.strip() == "[]"
