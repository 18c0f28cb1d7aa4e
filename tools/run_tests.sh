#!/usr/bin/env bash
# Run the tests of the first tier, or those that a pytest expression of markers selects; more arguments are options of pytest.
set -eu
cd "$(dirname "$0")/.."
bin=.venv/bin
parts=(tests/unit tests/property tests/campaigns tests/vectors tests/behaviour)
tier=()
if [ $# -gt 0 ]; then tier=(-m "$@" --); fi
if $bin/python -c 'import sys; from headstream.spark.sessions.java import main; sys.exit(main())'; then
  $bin/headstream jars --quiet
  # Made once per machine, in a minute: each JVM that the tests start needs seven seconds of processor time less.
  $bin/python tools/class_archive.py || echo "JVMs start without an archive of classes, slower" >&2
  parts=(tests/integration "${parts[@]}")
else
  echo "The tests that need Java are left out: see the message above." >&2
  if [ "${CI:-}" = true ]; then exit 1; fi
fi
status=0
$bin/python tools/run_test_parts.py ${tier[@]+"${tier[@]}"} "${parts[@]}" || status=$?
if [ $# -eq 0 ]; then $bin/python tools/suite_budget.py || true; fi # the budget is of the first tier
exit $status
