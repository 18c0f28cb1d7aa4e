#!/usr/bin/env bash
# Run the whole suite: the quick part first, then what needs processes, then what needs Java.
set -eu
cd "$(dirname "$0")/.."
bin=.venv/bin
parts=(tests/unit tests/property tests/vectors tests/behaviour)
if $bin/python -m headstream.spark.java; then
  $bin/headstream jars --quiet
  parts+=(tests/integration)
else
  echo "The tests that need Java are left out: see the message above." >&2
  if [ "${CI:-}" = true ]; then exit 1; fi
fi
existing=()
for part in "${parts[@]}"; do if [ -d "$part" ]; then existing+=("$part"); fi; done
exec $bin/python -m pytest -q --durations=10 "${existing[@]}"
