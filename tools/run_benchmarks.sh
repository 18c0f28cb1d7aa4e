#!/usr/bin/env bash
# Run every benchmark, or those named: tools/run_benchmarks.sh kernels log
set -eu
cd "$(dirname "$0")/.."
subjects=("$@")
if [ ${#subjects[@]} -eq 0 ]; then
  for file in bench/*.py; do subjects+=("$(basename "$file" .py)"); done
fi
mkdir -p bench/results
for subject in "${subjects[@]}"; do
  grep -q '^def main' "bench/$subject.py" || continue  # what several benchmarks share
  echo "== $subject"
  .venv/bin/python -m "bench.$subject"
done
