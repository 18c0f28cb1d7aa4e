"""The Replicate pipeline: change-data-capture messages in (Qlik Replicate's, Debezium's), tables out that equal the source.

    settings/ storage/ checkpoint/   configuration; paths and object stores; the state that survives a restart
    inputs/ decoding/ codec/ schemas/ columns/   messages -> changes of tables, as columns
    parked/          messages that wait, and dead letters
    apply/           the semantics of a merge: type1/, type2/, moved_keys/, on_executors/
    engines/         runs a merge: deltalake in the driver, or Spark
    tables/          one target table: schema, memory of deletions, maintenance
    run/             micro-batches, transactions, status, metrics

Interface: run.pipeline for a running pipeline, run.report and parked.requests for observers and operators. Imports
spark, log (as a source), client. Read first: run/pipeline.py, run/processor.py, apply/type1/merge.py.
"""
