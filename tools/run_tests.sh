#!/usr/bin/env bash
# Run the whole suite, on as many processes as there are cores, four at most: each that gets to Spark has a JVM of its own.
set -eu
cd "$(dirname "$0")/.."
bin=.venv/bin
parts=(tests/unit tests/property tests/campaigns tests/vectors tests/behaviour)
if $bin/python -c 'import sys; from headstream.spark.sessions.java import main; sys.exit(main())'; then
  $bin/headstream jars --quiet
  # Made once a machine, in a minute; the suite starts some thirty JVMs, each of them seven seconds of CPU sooner for it.
  $bin/python -c 'from headstream.spark.sessions.class_archive import make; make()' || echo "JVMs start without an archive of classes, slower" >&2
  # First, since the longest are here.
  parts=(tests/integration "${parts[@]}")
else
  echo "The tests that need Java are left out: see the message above." >&2
  if [ "${CI:-}" = true ]; then exit 1; fi
fi
existing=()
for part in "${parts[@]}"; do if [ -d "$part" ]; then existing+=("$part"); fi; done
exec $bin/python tools/second_try.py -q --durations=10 -n auto --maxprocesses=4 --dist=worksteal "${existing[@]}"
