#!/usr/bin/env bash
# Install what nightly tests need beside `make setup`: servers of Azure's, Google's and HDFS' storage, Iggy's Rust client, and the console's packages.
# What cannot be installed here is said, and its tests are skipped by name.
set -u
cd "$(dirname "$0")/.."
place="$PWD/.cache/store-servers"
mkdir -p "$place/bin"
if ! [ -x "$place/bin/azurite-blob" ]; then
  { command -v npm >/dev/null && npm install --silent --no-audit --no-fund --prefix "$place" azurite &&
    ln -sf ../node_modules/.bin/azurite-blob "$place/bin/azurite-blob"; } || echo "Azurite cannot be installed: it needs npm (Node 20)" >&2
fi
if ! [ -x "$place/bin/fake-gcs-server" ]; then
  { command -v go >/dev/null && GOBIN="$place/bin" go install github.com/fsouza/fake-gcs-server@latest; } ||
    echo "fake-gcs-server cannot be installed: it needs Go" >&2
fi
{ command -v cargo >/dev/null &&
  CARGO_TARGET_DIR=.cache/iggy-rust/target cargo build -q --manifest-path tests/integration/iggy/rust/Cargo.toml; } ||
  echo "the scenarios of Iggy's Rust client cannot be built: they need cargo (Rust 1.95)" >&2
[ -d console/node_modules ] || (cd console && npm ci --no-audit --no-fund --loglevel=error) || echo "the console's packages cannot be installed: they need npm" >&2
.venv/bin/python -c 'from headstream.spark.sessions.jar_sets import NAMENODE; from headstream.spark.sessions.jars import fetch; fetch(jar_set=NAMENODE)' >/dev/null ||
  echo "the HDFS server cannot be fetched" >&2
