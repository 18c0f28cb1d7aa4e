# The server with all listeners, built from this repository alone:    docker build -t headstream .
# The pipeline, with Java, Spark and Delta's jars:                    docker build -t headstream-pipeline --target pipeline .
FROM python:3.12 AS build
COPY . /source
RUN pip wheel --no-deps --wheel-dir /wheels /source

FROM python:3.12-slim AS base
COPY --from=build /wheels /source/requirements.lock /tmp/
# pip takes only files whose digests are in the lock file; without what only Spark, tests and tools need.
RUN awk '/^[^ ]/ { wanted = !/^(pyspark|py4j|deltalake|pandas|grpcio|mypy|ruff)==/ } wanted' /tmp/requirements.lock >/tmp/server.lock \
    && pip install --no-cache-dir --no-deps --require-hashes -r /tmp/server.lock \
    && pip install --no-cache-dir --no-deps /tmp/*.whl \
    && useradd --system --create-home headstream && install -d -o headstream -m 700 /data

FROM base AS pipeline
ENV HEADSTREAM_JARS=/opt/headstream/jars
RUN apt-get update && apt-get install -y --no-install-recommends default-jre-headless && rm -rf /var/lib/apt/lists/* \
    && awk '/^[^ ]/ { wanted = /^(pyspark|py4j|deltalake|pandas)==/ } wanted' /tmp/requirements.lock >/tmp/pipeline.lock \
    && pip install --no-cache-dir --no-deps --no-build-isolation --require-hashes -r /tmp/pipeline.lock \
    && headstream jars --quiet && chmod -R a+rX /opt/headstream
USER headstream
VOLUME /data
ENTRYPOINT ["headstream", "replicate", "run"]

FROM base AS server
USER headstream
VOLUME /data
EXPOSE 8090/tcp 3000/tcp 8080/udp 9092/tcp
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:3000/health', timeout=2)"]
STOPSIGNAL SIGTERM
# Needs IGGY_ROOT_USERNAME and IGGY_ROOT_PASSWORD: with the default password it refuses to listen on these addresses.
ENTRYPOINT ["headstream", "server", "--data", "/data", "--tcp", "0.0.0.0:8090", "--http", "0.0.0.0:3000", "--quic", "0.0.0.0:8080", "--kafka", "0.0.0.0:9092"]
