"""The server process: sockets, configuration and life cycle.

    run.py app.py    signals; starts, drains and stops the listeners
    iggy/            Iggy's protocol over TCP and QUIC, with a compiled fast path for small requests
    http/            Iggy's HTTP API, metrics, health, and the console
    kafka/           Kafka's protocol
    config/          all settings, from TOML, environment and command line
    network/ resources/ reporting/   sockets and TLS; threads and memory; logs

Imports broker, client (for the console), log, core. Read first: app.py, iggy/tcp/connection.py, kafka/apis.py.
"""
