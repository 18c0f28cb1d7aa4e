"""Histories of a PostgreSQL whose changes Debezium sends to a listener for Kafka's clients: the lake's tables equal the database.

    python -m tests.campaigns debezium --seeds 1-200

Sixteen seeds at a time are schemas of one database, with one engine and one pipeline. A seed decides the rows and the steps
in its schema, which run beside those of the others; the first one decides what is killed:

    changes         of every type; parts of a row, with TOASTed values untouched; of keys, swapped keys; of rows without a key
    transactions    over several tables, of several connections at once, rolled back; a row deleted, inserted and moved repeatedly
    tables          columns added, dropped, widened, of another type; other replica identities; truncations, incremental snapshots
    pipelines       of whole transactions; of type 2, whose current rows are compared
    accidents       the engine, the server and the pipeline are killed; a snapshot begins again, with a new slot
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time as time_module
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Final

import psycopg
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headstream.connect import connect
from headstream.replicate.run.pipeline import ReplicatePipeline
from headstream.replicate.settings.config_file import load_config
from headstream.replicate.tables.tables import table_path
from headstream.spark import session
from headstream.testing import DebeziumEngine, PostgresServer
from headstream.testing.temporary_server import HOST, find_free_ports
from tests.support.killed_jobs import Job
from tests.support.server.server_process import ServerProcess

__all__ = ["DebeziumHistory"]

_TABLES: Final = {"things": ("id",), "pairs": ("region", "no"), "whole": ("id",), "plain": ()}
_SETUP: Final = """
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE things (id bigint PRIMARY KEY, small smallint, i int, n numeric(20,4), free numeric, r real, d double precision,
  b boolean, t text, big text, bigs text[], bignums int[], blob bytea, c varchar(20), j jsonb, u uuid, raw bytea, day date,
  at time, seen timestamptz, local timestamp, m mood, tags text[],
  nums numeric(8,2)[], span interval, p point, net inet, grow int);
ALTER TABLE things ALTER big SET STORAGE EXTERNAL, ALTER bigs SET STORAGE EXTERNAL, ALTER bignums SET STORAGE EXTERNAL,
  ALTER blob SET STORAGE EXTERNAL;
CREATE TABLE pairs (region text, no int, amount numeric(10,2), note text, big text, PRIMARY KEY (region, no));
ALTER TABLE pairs ALTER big SET STORAGE EXTERNAL;
CREATE TABLE whole (id int PRIMARY KEY, body text, at timestamptz(3));
ALTER TABLE whole REPLICA IDENTITY FULL, ALTER body SET STORAGE EXTERNAL;
CREATE TABLE plain (a int, b text);
"""
_SIGNALS: Final = "CREATE TABLE public.signals (id varchar(64) PRIMARY KEY, type varchar(32), data varchar(2048))"
_KEYS: Final = 12


_KINDS: Final = (
    {"smallint": "small", "int": "i", "bigint": "i", "numeric(24,4)": "n"},
    {"text": "t", "varchar(20)": "c", "uuid": "u", "jsonb": "j", "inet": "net", "mood": "m"},
)
"""Types that can replace each other, and the column whose values they have."""


def _text(rng: random.Random) -> str:
    return rng.choice(["", "a\tb\nc", "Zürich \U0001f600", "\\N", "null", '{"x": 1}', "__debezium", "x" * rng.randint(1, 40)])


_EPOCH: Final = datetime(1901, 1, 1, tzinfo=UTC)
_VALUES: Final[dict[str, Callable[[random.Random], Any]]] = {
    "small": lambda rng: rng.randint(-(2**15), 2**15 - 1),
    "i": lambda rng: rng.randint(-(2**31), 2**31 - 1),
    "n": lambda rng: Decimal(rng.randint(-(10**20) + 1, 10**20 - 1)).scaleb(-4),
    "free": lambda rng: Decimal(rng.randint(-(10**30), 10**30)).scaleb(-rng.randint(0, 40)),
    "r": lambda rng: rng.choice([1.5, -0.25, float("inf"), 1e30, 0.0]),
    "d": lambda rng: rng.choice([rng.random() * 1e300, float("nan"), float("-inf"), 0.1]),
    "b": lambda rng: rng.random() < 0.5,
    "t": _text,
    "big": lambda rng: f"{rng.random()}" * 400,
    "bigs": lambda rng: [f"{rng.random()}" * 150 for _ in range(3)],
    "bignums": lambda rng: [rng.randint(-(2**31), 2**31 - 1) for _ in range(1200)],
    "blob": lambda rng: rng.randbytes(5000),
    "c": lambda rng: _text(rng)[:20],
    "j": lambda rng: json.dumps({"k": [rng.randint(0, 9), None, "ü"], "t": _text(rng)}),
    "u": lambda rng: f"{rng.getrandbits(128):032x}",
    "raw": lambda rng: rng.randbytes(rng.randint(0, 9)),
    "day": lambda rng: date(1600, 1, 1) + timedelta(rng.randint(0, 300_000)),
    "at": lambda rng: time(rng.randint(0, 23), 59, rng.randint(0, 59), rng.choice([0, 1, 120, 999_999])),
    "seen": lambda rng: _EPOCH + timedelta(microseconds=rng.randint(0, 10**16)),
    "local": lambda rng: (_EPOCH + timedelta(microseconds=rng.randint(0, 10**16))).replace(tzinfo=None),
    "m": lambda rng: rng.choice(["sad", "ok", "happy"]),
    "tags": lambda rng: [rng.choice(["a", "", None, '"']) for _ in range(rng.randint(0, 3))],
    "nums": lambda rng: [Decimal(rng.randint(-99999, 99999)).scaleb(-2) for _ in range(rng.randint(0, 3))],
    "span": lambda rng: timedelta(seconds=rng.randint(0, 10**6), milliseconds=rng.choice([0, 250, 500])),
    "p": lambda rng: f"({rng.randint(-9, 9)},{rng.randint(-9, 9) / 2})",
    "net": lambda rng: f"10.0.{rng.randint(0, 255)}.1",
    "grow": lambda rng: rng.randint(-(2**31), 2**31 - 1),
    "amount": lambda rng: Decimal(rng.randint(-(10**10) + 1, 10**10 - 1)).scaleb(-2),
    "note": _text,
    "body": lambda rng: f"{rng.random()}" * rng.choice([1, 400]),
}
_COLUMNS: Final = {
    "things": [name for name in _VALUES if name not in ("amount", "note", "body")],
    "pairs": ["amount", "note", "big"],
    "whole": ["body"],
}


class DebeziumHistory:
    """The histories of some seeds, at the same time.

    Args:
        seed: The first seed.
        spark: The session in which the pipeline runs. Without it the pipeline is killed too, in processes of its own; what they
            leave is applied in a session that all histories share.
        width: The number of seeds.
    """

    width = 16

    def __init__(self, seed: int, spark: SparkSession | None = None, width: int = width) -> None:
        self.counts = Counter[str]()
        self._seed, self._rng, self._spark = seed, random.Random(seed), spark
        self._has_kills = spark is None
        self._atomic = seed % 3 == 0
        self._sources = [_Source(each) for each in range(seed, seed + width)]
        topics = [f"shop/{source.schema}.{table}" for source in self._sources for table in _TABLES]
        self._topics = (*topics, "shop/transaction")

    def run(self, rounds: int = 4, steps: int = 25) -> None:
        """Run them in schemas of their own, and compare the tables.

        Raises:
            AssertionError: a table differs; the text has the seed.
        """
        database = _shared_database()
        with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
            self._directory = Path(directory)
            self._kafka = HOST, find_free_ports()[0]
            schemas = ",".join(source.schema for source in self._sources)
            settings = {"schema.include.list": f"public,{schemas}", "incremental.snapshot.chunk.size": "3"}
            settings["signal.data.collection"] = "public.signals"
            self._engine = DebeziumEngine(database, self._kafka, settings=settings, start_seconds=300)
            stack.callback(database.execute, f"DROP SCHEMA IF EXISTS {schemas}, public CASCADE; CREATE SCHEMA public")
            for source in self._sources:
                stack.enter_context(source.created_in(database))
            self._workers = stack.enter_context(ThreadPoolExecutor(len(self._sources)))
            database.execute(_SIGNALS)
            self._run_rounds(rounds, steps)

    def _run_rounds(self, rounds: int, steps: int) -> None:
        server = ServerProcess(self._directory / "log", "--kafka", f"{HOST}:{self._kafka[1]}")
        try:
            with connect(_url(server)) as log:
                for topic in (*self._topics, "shop/public.signals"):
                    log.create_topic(topic, partitions=2, limits="wide")
            self._work(steps)
            with self._engine:
                for number in range(rounds):
                    self._accident(number)
                    self._work(steps)
                    if number and self._rng.random() < 0.5:
                        server = self._accident_of_server(server)
                    self._engine.flush()
                    self._apply(server)
                self._engine.forget()
            for source in self._sources:
                source.compare(self._directory / "tables")
                self.counts += source.counts
        finally:
            server.kill()

    def _accident(self, number: int) -> None:
        """Kill the engine; in the first round it may be before or in its snapshot."""
        if number == 1 or self._rng.random() < 0.5:
            self._await_some_work()
            self._engine.kill()
            self._count("engine killed")
            self._work(3)
            if not self._engine.has_snapshot or (not self._atomic and self._rng.random() < 0.3):
                for source in self._sources:
                    source.leave_none_empty()
                self._engine.forget()
                self._count("snapshot again")
            self._engine.start()

    def _await_some_work(self) -> None:
        """Let the engine work for a while; when it is killed is up to the machine."""
        time_module.sleep(self._rng.random() * 4)

    def _accident_of_server(self, server: ServerProcess) -> ServerProcess:
        server.kill()
        self._count("server killed")
        return server.again()

    def _work(self, steps: int) -> None:
        """Change all schemas at the same time, so that their transactions are interleaved."""
        list(self._workers.map(lambda source: source.work(steps), self._sources))

    def _apply(self, server: ServerProcess) -> None:
        """Apply what was sent."""
        path = self._directory / "pipeline.toml"
        lines = [f'source = "{_url(server)}"', f"topics = {json.dumps(self._topics)}", f"atomic = {str(self._atomic).lower()}"]
        lines += ['tables = "tables"', 'checkpoint = "checkpoint"', "[debezium]", "[defaults]", 'on_type_narrowed = "evolve"']
        # Of the other tables, changes of key lack large columns, so that type 2 rejects them.
        lines += [f'[table."{source.schema}.whole"]\nscd_type = 2' for source in self._sources if source.has_history]
        path.write_text("\n".join(lines))
        if self._has_kills and self._rng.random() < 0.5:
            self._count("pipeline killed")
            tables, most = self._directory / "tables", 2 * len(self._sources)
            self._job(path).kill_at_work(
                lambda: len(list(tables.rglob("_delta_log/*.json"))), self._rng.randint(1, most), self._rng.random() / 10
            )
        summary = ReplicatePipeline(self._spark or _shared_session(), load_config(path, {"once": True})).run().to_dict()
        assert (summary["dead"], summary["parked"], summary["delayed"]) == (0, 0, 0), f"seed {self._seed}: {summary}"

    def _job(self, config: Path) -> Job:
        options = ["--once", "--output", "json", "--config", str(config)]
        return Job([sys.executable, "-m", "headstream.cli", "replicate", "run", *options], self._directory)

    def _count(self, name: str) -> None:
        self.counts[name] += 1


class _Source:
    """The tables of one seed, in a schema of its own."""

    def __init__(self, seed: int) -> None:
        self.schema = f"s{seed}"
        self.has_history = seed % 4 == 2
        self.counts = Counter[str]()
        self._seed, self._rng = seed, random.Random(seed)
        self._columns = {table: list(columns) for table, columns in _COLUMNS.items()}
        self._like = {name: name for name in _VALUES}
        self._added = 0
        self._is_none_empty = False

    @contextmanager
    def created_in(self, database: PostgresServer) -> Iterator[None]:
        """Create the tables, and be connected to them."""
        options = f"-c search_path={self.schema}"
        with (
            psycopg.connect(database.url, autocommit=True, options=options) as self._one,
            psycopg.connect(database.url, options=options) as self._other,
        ):
            self._one.execute(f"CREATE SCHEMA {self.schema}; {_SETUP}".encode())
            yield

    def work(self, steps: int) -> None:
        """Take random steps."""
        kinds: list[tuple[int, Callable[[], None]]] = [
            (10, self._change), (6, self._several), (2, self._interleaved), (2, self._swap), (2, self._again),
            (3, self._chain), (1, self._roll_back), (1, self._add_column), (1, self._drop_column), (1, self._replace_column),
            (1, self._identify), (1, self._widen), (1, self._truncate), (1, self._read_again),
        ]  # fmt: skip
        weights, chosen = zip(*kinds, strict=True)
        for step in self._rng.choices(chosen, weights, k=steps):
            self.counts[step.__name__.strip("_")] += 1
            step()

    def leave_none_empty(self) -> None:
        """Have a row in each table from now on: a snapshot sends nothing of an empty one, so nothing would replace its rows."""
        self._is_none_empty = True
        for table, row in {"things": "(0)", "whole": "(0)", "pairs": "('Z', 0)", "plain": "(0)"}.items():
            self._one.execute(f"INSERT INTO {table} SELECT * FROM (VALUES {row}) r ON CONFLICT DO NOTHING".encode())

    def _run(self, sql: str, values: list[Any], connection: psycopg.Connection[Any] | None = None) -> None:
        (connection or self._one).execute(sql.encode(), values)

    def _value(self, column: str) -> Any:
        return None if self._rng.random() < 0.15 else _VALUES[self._like[column]](self._rng)

    def _key(self, table: str) -> dict[str, Any]:
        if table == "pairs":
            return {"region": self._rng.choice(["N", "", "Ö"]), "no": self._rng.randint(1, _KEYS // 3)}
        return {"id": self._rng.randint(1, _KEYS)}

    def _change(
        self, connection: psycopg.Connection[Any] | None = None, table: str | None = None, keys: Sequence[dict[str, Any]] = ()
    ) -> None:
        """Insert, update, delete or move one row, or add rows to the table without a key.

        Args:
            keys: The keys to choose from, rather often to move a row between them.
        """
        rng = self._rng
        table = table or rng.choice(["things", "things", "pairs", "whole", "plain"])
        if table == "plain":
            values = ", ".join(["(%s, %s)"] * 2)
            self._run(f"INSERT INTO plain VALUES {values}", [rng.randint(1, 3), "x", rng.randint(1, 3), None], connection)
            return
        key, kind = (rng.choice(keys), rng.uniform(0.3, 1.2)) if keys else (self._key(table), rng.random())
        where = " AND ".join(f"{name} = %s" for name in key)
        columns = self._columns[table]
        if kind < 0.45:
            chosen = [name for name in columns if rng.random() < 0.8]
            names = [*key, *chosen]
            marks = ", ".join(["%s"] * len(names))
            updates = ", ".join(f"{name} = excluded.{name}" for name in chosen)
            conflict = f"DO UPDATE SET {updates}" if updates else "DO NOTHING"
            sql = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks}) ON CONFLICT ({', '.join(key)}) {conflict}"
            self._run(sql, [*key.values(), *map(self._value, chosen)], connection)
        elif kind < 0.75:
            chosen = rng.sample(columns, rng.randint(1, min(3, len(columns))))
            sql = f"UPDATE {table} SET {', '.join(f'{name} = %s' for name in chosen)} WHERE {where}"
            self._run(sql, [*map(self._value, chosen), *key.values()], connection)
        elif kind < 0.88:
            self._run(f"DELETE FROM {table} WHERE {where}", list(key.values()), connection)
        else:
            new = rng.choice(keys) if keys else self._key(table)
            taken = " AND ".join(f"o.{name} = %s" for name in new)
            sql = f"UPDATE {table} SET {', '.join(f'{name} = %s' for name in new)} WHERE {where}"
            sql += f" AND NOT EXISTS (SELECT FROM {table} o WHERE {taken})"
            self._run(sql, [*new.values(), *key.values(), *new.values()], connection)

    def _several(self) -> None:
        with self._one.transaction():
            for _ in range(self._rng.randint(2, 6)):
                self._change()

    def _interleaved(self) -> None:
        """Two transactions at once, over different tables: the one that began first commits last."""
        self._change(self._other, "pairs")
        self._several_of("things")
        self._change(self._other, "pairs")
        self._other.commit()

    def _several_of(self, table: str) -> None:
        with self._one.transaction():
            for _ in range(2):
                self._change(None, table)

    def _swap(self) -> None:
        """Swap the keys of two rows."""
        one, two = self._rng.sample(range(1, _KEYS + 1), 2)
        with self._one.transaction():
            for old, new in ((one, -1), (two, one), (-1, two)):
                self._run("UPDATE things SET id = %s WHERE id = %s", [new, old])

    def _again(self) -> None:
        """Delete a row and insert another one of its key."""
        key = self._key("things")
        with self._one.transaction():
            self._run("DELETE FROM things WHERE id = %s", [key["id"]])
            self._run("INSERT INTO things (id, t) VALUES (%s, 'again')", [key["id"]])

    def _chain(self) -> None:
        """Change and move the rows of few keys several times in one transaction."""
        table = self._rng.choice(["things", "pairs", "whole"])
        keys = [self._key(table) for _ in range(3)]
        with self._one.transaction():
            for _ in range(self._rng.randint(3, 9)):
                self._change(None, table, keys)

    def _roll_back(self) -> None:
        with self._one.transaction(force_rollback=True):
            self._change(None, "things")

    def _add_column(self) -> None:
        table = self._rng.choice(list(self._columns))
        self._added += 1
        self._columns[table].append(f"added_{self._added}")
        self._add(table, f"added_{self._added}", self._rng.choice(_KINDS))

    def _add(self, table: str, column: str, kinds: dict[str, str]) -> None:
        kind, self._like[column] = self._rng.choice([*kinds.items()])
        self._one.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind}".encode())

    def _drop_column(self) -> None:
        table = self._rng.choice(list(self._columns))
        if len(self._columns[table]) > 1:
            self._one.execute(f"ALTER TABLE {table} DROP COLUMN {self._columns[table].pop()}".encode())

    def _replace_column(self) -> None:
        """Drop a column, and add one of its name; no message shows that existing rows have lost its values until they change."""
        table = self._rng.choice(list(self._columns))
        column = self._rng.choice(self._columns[table])
        kinds = next((kinds for kinds in _KINDS if column not in ("n", "t") and self._like[column] in kinds.values()), None)
        if kinds is not None:
            with self._one.transaction():
                self._one.execute(f"ALTER TABLE {table} DROP COLUMN {column}".encode())
                self._add(table, column, kinds)
                self._one.execute(f"UPDATE {table} SET {column} = {column}".encode())

    def _identify(self) -> None:
        table, identity = self._rng.choice(["things", "pairs"]), self._rng.choice(["FULL", "DEFAULT"])
        self._one.execute(f"ALTER TABLE {table} REPLICA IDENTITY {identity}".encode())

    def _widen(self) -> None:
        if "grow" in self._columns["things"]:
            self._one.execute("ALTER TABLE things ALTER grow TYPE bigint")

    def _truncate(self) -> None:
        names = self._rng.sample(["things", "pairs", "whole", "plain"], self._rng.randint(1, 2))
        with self._one.transaction():
            self._one.execute(f"TRUNCATE {', '.join(names)}".encode())
            if self._is_none_empty:
                self.leave_none_empty()
            self._change()

    def _read_again(self) -> None:
        """Have the engine read tables in chunks between the changes: an incremental snapshot."""
        tables = [f"{self.schema}.{table}" for table in self._rng.sample(["things", "pairs", "whole"], self._rng.randint(1, 3))]
        data = json.dumps({"data-collections": tables, "type": "INCREMENTAL"})
        self._run("INSERT INTO public.signals VALUES (gen_random_uuid(), 'execute-snapshot', %s)", [data])

    # The comparison.

    def compare(self, tables: Path) -> None:
        """Compare the tables with those of the lake."""
        for table, keys in _TABLES.items():
            with self._one.cursor() as cursor:
                cursor.execute(f"SELECT * FROM {table}".encode())
                names = [one.name for one in cursor.description or ()]
                wanted = [dict(zip(names, map(_plain, row), strict=True)) for row in cursor.fetchall()]
            place = table_path(tables, self.schema, table)
            found = DeltaTable(str(place)).to_pyarrow_table().to_pylist() if (place / "_delta_log").exists() else []
            current = [row for row in found if row.get("_hs_current", True)]
            lake = [{name: _plain(row.get(name), lake=True) for name in names} for row in current]

            def order(row: dict[str, Any], keys: tuple[str, ...] = keys) -> str:
                return repr([row[name] for name in keys] or row)

            for one, other in zip(sorted(wanted, key=order), sorted(lake, key=order), strict=False):
                different = {name: (str(one[name])[:200], str(other[name])[:200]) for name in names if one[name] != other[name]}
                assert not different, f"seed {self._seed}: {table}, {order(one)}: {different}"
            assert len(wanted) == len(lake), f"seed {self._seed}: {table} has {len(wanted)} rows, in the lake {len(lake)}"


@cache
def _shared_database() -> PostgresServer:
    """Return the database of all histories, which ends with this process."""
    return PostgresServer(settings={"wal_level": "logical"}).start()


@cache
def _shared_session() -> SparkSession:
    return session("debezium-histories", master="local[2]", quick_start=True)


def _url(server: ServerProcess) -> str:
    return f"headstream://iggy:iggy@127.0.0.1:{server.tcp[1]}"


def _plain(value: Any, *, lake: bool = False) -> Any:
    """Return a value in the form in which both sides are compared."""
    if isinstance(value, float):
        return f"{value:.7g}" if 1e29 < abs(value) < 1e31 else repr(value)  # the one real without a short binary form
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo is not None else value.replace(tzinfo=UTC)
    if isinstance(value, time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value // timedelta(microseconds=1))
    if isinstance(value, (list, dict)):
        return json.dumps(value, sort_keys=True, default=_number)
    if isinstance(value, (date, bool)):
        return str(value).lower()
    if not isinstance(value, str):
        return value if value is None or isinstance(value, bytes) else str(value)
    if lake and value[:1] in ("[", "{") and value != '{"x": 1}':
        document = json.loads(value)
        if isinstance(document, dict) and "wkb" in document:
            return f"({document['x']:g},{document['y']:g})"
        items = [_plain(item) if isinstance(item, str) else item for item in document] if isinstance(document, list) else document
        return json.dumps(items, sort_keys=True)
    try:
        return _number(Decimal(value)) if value[-1:].isdigit() and value.lstrip("-")[:1].isdigit() and len(value) < 80 else value
    except ArithmeticError:
        return value


def _number(value: Any) -> str:
    plain = f"{value:f}"
    return plain.rstrip("0").rstrip(".") if "." in plain else plain
