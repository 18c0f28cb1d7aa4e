#!/usr/bin/env bash
# Install what nightly tests need beside `make setup`: servers of Azure's, Google's and HDFS' storage, Iggy's Rust client, the
# console's packages, MariaDB, Chromium, and readers of Iceberg tables.
# The script names what it cannot install; the tests that need it are skipped, with the reason.
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

# Debian's packages, unpacked: they need no administrator, and change nothing else on this machine.
unpack() { # NAME PACKAGES...: a directory .cache/NAME has what the packages contain
  unpacked="$PWD/.cache/$1" && shift
  [ -d "$unpacked" ] && return
  rm -rf "$unpacked.part" && mkdir -p "$unpacked.part/packages" &&
    (cd "$unpacked.part/packages" && apt-get -qq download "$@" 2>/dev/null && for package in *.deb; do dpkg -x "$package" .. || exit 1; done) &&
    rm -r "$unpacked.part/packages" && mv "$unpacked.part" "$unpacked"
}
unpack mariadb mariadb-server-core mariadb-client-core libmariadb3 liburing2 libaio1 libncurses6 ||
  echo "MariaDB cannot be unpacked: it needs apt-get and dpkg of Debian 12" >&2
# A browser for the tests of the console, with the libraries that this machine lacks.
if ! command -v chromium >/dev/null && ! command -v chromium-browser >/dev/null; then
  unpack chromium chromium $(apt-get -qq -s install --no-install-recommends chromium 2>/dev/null | awk '/^Inst/ && $2 != "chromium" { print $2 }') &&
    cat >.cache/chromium/chromium <<'END' && chmod +x .cache/chromium/chromium || echo "Chromium cannot be unpacked: it needs apt-get and dpkg of Debian 12" >&2
#!/bin/sh
unpacked=$(dirname "$(readlink -f "$0")")/usr/lib
libraries=$(ls -d "$unpacked"/*-linux-gnu)
LD_LIBRARY_PATH="$libraries:$libraries/pulseaudio:$libraries/samba" exec "$unpacked/chromium/chromium" "$@"
END
fi

# Readers of Iceberg tables, in directories of their own: DuckDB's extensions end at 1.5.5, Iceberg's runtime at Spark 4.1.
readers="$PWD/.cache/iceberg-readers"
install_reader() { # NAME PACKAGES...: a directory of that name is complete
  name=$1 && shift
  [ -d "$readers/$name" ] && return
  rm -rf "$readers/.$name"
  .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --target "$readers/.$name" "$@" && mv "$readers/.$name" "$readers/$name"
}
install_reader duckdb duckdb==1.5.5 duckdb-extension-avro==1.5.5 duckdb-extension-iceberg==1.5.5 pytz ||
  echo "DuckDB with its extensions for Iceberg cannot be installed" >&2
install_reader spark pyspark==4.1.4 py4j==0.10.9.9 || echo "Spark 4.1 cannot be installed" >&2
if ! [ -d "$readers/jars" ] && [ -d "$readers/spark" ]; then
  rm -rf "$readers/.jars"
  java -Divy.default.ivy.user.dir="$readers/.ivy" -jar "$readers"/spark/pyspark/jars/ivy-*.jar -settings tests/samples/iceberg_readers/settings.xml \
    -ivy tests/samples/iceberg_readers/ivy.xml -retrieve "$readers/.jars/[conf]/[artifact](-[classifier])-[revision].[ext]" >"$readers/ivy.log" 2>&1 &&
    (cd "$readers/.jars" && sha256sum --quiet --check "$OLDPWD/tests/samples/iceberg_readers/jars.sha256") && mv "$readers/.jars" "$readers/jars" ||
    echo "Iceberg's runtime and its REST catalog cannot be fetched" >&2
fi
