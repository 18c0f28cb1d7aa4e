#!/usr/bin/env bash
# The processes of compose.yaml without Docker, in one directory, until Ctrl-C:
#
#   HEADSTREAM_PASSWORD=… deploy/run.sh /data/shop
#
# PostgreSQL is started if initdb and pg_ctl are on the PATH, and Debezium if DEBEZIUM_HOME is a directory of Debezium Server.
# Each process has a session of its own (setsid): Ctrl-C reaches this script alone, which asks each one once to end.
# BIND is the address of all listeners (127.0.0.1), and HEADSTREAM the command (headstream).
set -euo pipefail
directory=${1:?usage: deploy/run.sh DIRECTORY}
: "${HEADSTREAM_PASSWORD:?is not set: it becomes the password of the users iggy and postgres}"
headstream=${HEADSTREAM:-headstream} bind=${BIND:-127.0.0.1}
tcp=${TCP_PORT:-8090} http=${HTTP_PORT:-3000} quic=${QUIC_PORT:-8080} kafka=${KAFKA_PORT:-9092} postgres=${POSTGRES_PORT:-5432}
export HEADSTREAM_USERNAME=iggy HEADSTREAM_PASSWORD IGGY_ROOT_USERNAME=iggy IGGY_ROOT_PASSWORD=$HEADSTREAM_PASSWORD
url=headstream://127.0.0.1:$tcp
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)
running=()
stop() {
    trap - EXIT
    for pid in "${running[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
    wait
    [ ! -f "$directory/postgres/postmaster.pid" ] || pg_ctl --pgdata "$directory/postgres" --mode fast --silent stop
}
trap stop EXIT
trap 'exit 130' INT TERM

if [ "$(id -u)" != 0 ] && command -v initdb >/dev/null && command -v pg_ctl >/dev/null; then
    if [ ! -d "$directory/postgres" ]; then
        initdb --pgdata "$directory/postgres" --username postgres --auth scram-sha-256 --pwfile <(echo "$HEADSTREAM_PASSWORD") >/dev/null
    fi
    pg_ctl --pgdata "$directory/postgres" --silent --wait --log "$directory/postgres.log" \
        --options "-p $postgres -c listen_addresses=$bind -c wal_level=logical -c unix_socket_directories=''" start
    echo "PostgreSQL: postgresql://postgres@$bind:$postgres/postgres"
else
    echo "PostgreSQL: this is root, or initdb and pg_ctl are not on the PATH, so none was started"
fi

setsid "$headstream" server --data "$directory/log" --tcp "$bind:$tcp" --http "$bind:$http" --quic "$bind:$quic" --kafka "$bind:$kafka" \
    >"$directory/server.log" 2>&1 &
running+=($!)
until "$headstream" ping --url "$url" >/dev/null 2>&1; do
    kill -0 "${running[0]}" 2>/dev/null || { cat "$directory/server.log" >&2; exit 1; }
    sleep 0.2
done
echo "server: $url, http://$bind:$http, quic://$bind:$quic, Kafka $bind:$kafka"
"$headstream" topic create shop/public.orders --partitions 2 --limits wide --if-not-exists --url "$url" >/dev/null

if [ -n "${DEBEZIUM_HOME:-}" ]; then
    mkdir -p "$directory/debezium/conf"
    cat >"$directory/debezium/conf/application.properties" <<PROPERTIES
debezium.source.connector.class=io.debezium.connector.postgresql.PostgresConnector
debezium.source.offset.storage.file.filename=$directory/debezium/offsets.dat
debezium.source.database.hostname=$bind
debezium.source.database.port=$postgres
debezium.source.database.user=postgres
debezium.source.database.password=$HEADSTREAM_PASSWORD
debezium.source.database.dbname=postgres
debezium.source.topic.prefix=shop
debezium.source.plugin.name=pgoutput
debezium.source.table.include.list=public.orders
debezium.source.skipped.operations=none
debezium.sink.type=kafka
debezium.sink.kafka.producer.bootstrap.servers=$bind:$kafka
debezium.sink.kafka.producer.key.serializer=org.apache.kafka.common.serialization.StringSerializer
debezium.sink.kafka.producer.value.serializer=org.apache.kafka.common.serialization.StringSerializer
debezium.sink.kafka.producer.acks=all
debezium.sink.kafka.producer.security.protocol=SASL_PLAINTEXT
debezium.sink.kafka.producer.sasl.mechanism=PLAIN
debezium.sink.kafka.producer.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="iggy" password="$HEADSTREAM_PASSWORD";
PROPERTIES
    (cd "$directory/debezium" && exec setsid java -cp "$DEBEZIUM_HOME/*:$DEBEZIUM_HOME/lib/*:conf" io.debezium.server.Main) \
        >"$directory/debezium.log" 2>&1 &
    running+=($!)
    echo "Debezium: the table public.orders, to $bind:$kafka"
else
    echo "Debezium: DEBEZIUM_HOME is not set, so none was started"
fi

setsid "$headstream" replicate run --source "$url" --format debezium --topics shop/public.orders \
    --tables "$directory/tables" --checkpoint "$directory/checkpoint" >"$directory/pipeline.log" 2>&1 &
running+=($!)
echo "pipeline: $directory/tables/public/orders is the table; Ctrl-C stops everything"
wait -n "${running[@]}" || true
echo "a process has ended: see the files *.log in $directory" >&2
exit 1
