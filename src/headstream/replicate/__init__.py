"""The Replicate pipeline: reads change messages of Qlik Replicate and Debezium, and keeps tables that equal the source tables.

    settings/ storage/ checkpoint/   configuration; paths and object stores; state that survives a restart
    inputs/ decoding/ codec/ schemas/ columns/   messages -> changes of tables, as columns
    parked/          parked messages and dead letters
    apply/           the semantics of a merge: type1/, type2/, moved_keys/, on_executors/
    engines/         run a merge: deltalake in the driver, or Spark
    tables/          one target table: schema, tombstones, maintenance
    run/             micro-batches, transactions, status, metrics

Interface: run.pipeline runs a pipeline; run.report and parked.requests are for observers and operators. Imports spark, log (as a
source), client. Read first: run/pipeline.py, run/processor.py, apply/type1/merge.py.
"""
