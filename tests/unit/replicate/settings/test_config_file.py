"""The TOML file: what it can say, and how it tells what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headstream.errors import InvalidOptionError, StorageError
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.settings.config_file import load_config
from headstream.replicate.settings.merge_settings import MergeSettings
from headstream.replicate.settings.registry_settings import RegistrySettings

EXAMPLE = Path(__file__).parents[4] / "examples" / "replicate.toml"
STORAGE = """
[storage]
endpoint = "http://h:9000"
access_key_id = "AKIA1"
secret_access_key = "hidden"
path_style = false
retry = "5s"
"""
LEAST = 'source = "file:///x"\ntopics = ["cdc/data"]\ntables = "t"\ncheckpoint = "c"\n'


def write(directory: Path, text: str) -> Path:
    path = directory / "pipeline.toml"
    path.write_text(text)
    return path


def test_load_config_reads_the_example() -> None:
    config = load_config(EXAMPLE)
    orders, audit = config.rules.settings_of("shop", "orders"), config.rules.settings_of("shop", "audit_7")
    assert (orders.scd_type, orders.rename_columns) == (2, {"order date": "order_date"})
    assert (audit.keys, audit.partition_by) == (("id", "line"), ("day",))
    assert not config.rules.wants("shop", "tmp_1")


def test_load_config_reads_what_becomes_of_transactions(tmp_path: Path) -> None:
    text = f'atomic = true\ntransaction_wait = "2m"\non_incomplete_transaction = "apply"\n{LEAST}'
    config = load_config(write(tmp_path, text))
    assert (config.atomic, config.transaction_wait_us, config.on_incomplete_transaction) == (True, 120_000_000, "apply")
    with pytest.raises(InvalidOptionError, match="'applied' is not one of wait, apply, fail; did you mean 'apply'"):
        load_config(write(tmp_path, f'on_incomplete_transaction = "applied"\n{LEAST}'))
    with pytest.raises(InvalidOptionError, match="on_incomplete_transaction"):
        ReplicateConfig(
            source=None,
            topics=("cdc",),
            tables=tmp_path / "t",
            checkpoint=tmp_path / "c",
            on_incomplete_transaction="never",  # type: ignore[arg-type]
        )


def test_load_config_reads_how_changes_are_merged(tmp_path: Path) -> None:
    of_tables = '[table."shop.*"]\nmerge_strategy = "rewrite"\n'
    config = load_config(
        write(tmp_path, f'{LEAST}[merge]\nstrategy = "deletion-vectors"\nkey_index = "k"\nkey_index_size = "1MB"\n{of_tables}')
    )
    assert config.merge_settings == MergeSettings(key_index=tmp_path / "k", key_index_size=1_000_000)
    assert config.rules.settings_of("shop", "orders").merge_strategy == "rewrite"
    assert config.rules.settings_of("crm", "orders").merge_strategy == "deletion-vectors"
    least = load_config(write(tmp_path, LEAST))
    assert least.merge_settings == MergeSettings(key_index=tmp_path / "c" / "key-index")
    assert least.rules.defaults.merge_strategy == "auto"
    with pytest.raises(InvalidOptionError, match=r":6: merge.strategy: 'vectors' is not one of auto"):
        load_config(write(tmp_path, f'{LEAST}[merge]\nstrategy = "vectors"\n'))
    with pytest.raises(InvalidOptionError, match="a size must not be negative"):
        load_config(write(tmp_path, f"{LEAST}[merge]\nrewrite_below = -1\n"))


def test_load_config_takes_paths_from_the_files_directory_and_overrides_from_the_caller(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, LEAST), {"once": True, "topics": ("cdc/other",)})
    assert (config.tables, config.once, config.topics) == (tmp_path / "t", True, ("cdc/other",))


def test_load_config_tells_every_error_at_once_with_its_line(tmp_path: Path) -> None:
    text = """source = "file:///x"
topics = "cdc"
tables = "t"
schema_wait = "soon"
max_dead_rate = 7
topcs = 3
[defaults]
deletes = "sofft"
[registry]
url = "ftp://h"
[table."a.*"]
kes = ["a"]
scd_type = 3
"""
    path = write(tmp_path, text)
    with pytest.raises(InvalidOptionError) as caught:
        load_config(path)
    lines = [line.strip().removeprefix(f"{path}:") for line in str(caught.value).splitlines()[1:]]
    assert [line.split(" ")[0] for line in lines if line[0].isdigit()] == [
        "2:", "4:", "5:", "6:", "8:", "9:", "12:", "13:",
    ]  # fmt: skip
    assert any("checkpoint: the setting is missing" in line for line in lines)
    assert "did you mean topics?" in str(caught.value)
    assert "did you mean 'soft'?" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("source = ", "not TOML"),
        (LEAST + 'defaults = 3\n', "must be a section"),
        (LEAST + '[defaults]\ntarget = "{tabel}.x"\n', "tabel"),
        (LEAST + '[defaults]\nrename_columns = { a = "x", b = "x" }\n', "two columns become 'x'"),
        (LEAST + '[kafka]\n"kafka.x" = "y"\n', "require a Kafka source"),
        (LEAST + '[format]\nfields = { operatoin = "op" }\n', "did you mean operation"),
        (LEAST + "once = 1\n", "true or false"),
        (LEAST + 'max_parked_bytes = "10 gallons"\n', "not a size"),
        (LEAST + 'change_tables = "a%20b"\n', r"toml:5: change_tables: Delta tables cannot be in '.*a%20b'"),
        (LEAST + 'dead_letter_table = "a[b"\n', r"dead_letter_table: Delta tables cannot be in '.*a\[b'"),
    ],
)  # fmt: skip
def test_load_config_names_what_cannot_be_used(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(InvalidOptionError, match=what):
        load_config(write(tmp_path, text))


def test_load_config_says_that_a_file_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"nowhere\.toml"):
        load_config(tmp_path / "nowhere.toml")


PATHS = ("tables", "checkpoint", "zone", "schemas", "change_tables", "dead_letter_table", "metrics")


@pytest.mark.parametrize("setting", PATHS)
def test_load_config_refuses_a_path_when_its_scheme_is_not_served(tmp_path: Path, setting: str) -> None:
    lines = [line for line in LEAST.splitlines() if not line.startswith(setting)]
    with pytest.raises(InvalidOptionError, match=rf":\d+: {setting}: .*the scheme ftp: is not supported here"):
        load_config(write(tmp_path, "\n".join([f'{setting} = "ftp://lake/x"', *lines])))
    values: dict[str, Any] = {"tables": tmp_path / "t", "checkpoint": tmp_path / "c", setting: Path("ftp://host/x")}
    with pytest.raises(InvalidOptionError, match="the scheme ftp: is not supported here") as caught:
        ReplicateConfig(source=None, topics=("cdc",), **values)
    assert caught.value.where == setting


@pytest.mark.parametrize("setting", PATHS)
def test_load_config_takes_a_uri_of_a_store_for_each_place(tmp_path: Path, setting: str) -> None:
    lines = [line for line in LEAST.splitlines() if not line.startswith(setting)]
    text = "\n".join([f'{setting} = "s3a://lake/x"', *lines, STORAGE])
    config = load_config(write(tmp_path, text))
    place = getattr(config, setting)
    assert (str(place), place.storage) == ("s3://lake/x", config.storage)
    assert (config.storage.endpoint, config.storage.path_style, config.storage.retry_us) == ("http://h:9000", False, 5_000_000)
    assert "hidden" not in repr(config)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('acces_key_id = "x"', r"storage\.acces_key_id: the setting does not exist; did you mean access_key_id\?"),
        ('endpoint = "h:9000"', r"storage: the endpoint of the object store must be a URL\. Write, for example, https://"),
        ('secret_access_key = "hidden"', r"storage: the object store's access_key_id is missing"),
        ('retry = "soon"', r"storage\.retry: "),
    ],
)
def test_load_config_names_what_is_wrong_in_the_section_of_the_store(tmp_path: Path, line: str, what: str) -> None:
    with pytest.raises(InvalidOptionError, match=what) as caught:
        load_config(write(tmp_path, f"{LEAST}[storage]\n{line}\n"))
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("setting", ["directory", "ca_file"])
def test_load_config_refuses_a_path_of_the_registry_when_its_scheme_is_not_served(tmp_path: Path, setting: str) -> None:
    url = 'url = "https://h"\n' if setting == "ca_file" else ""
    text = f'{LEAST}[registry]\n{url}{setting} = "gs://lake/x"\n'
    with pytest.raises(InvalidOptionError, match=rf"registry.{setting}: 'gs://lake/x': the scheme gs: is not supported here"):
        load_config(write(tmp_path, text))
    with pytest.raises(InvalidOptionError, match="the scheme gs: is not supported here"):
        RegistrySettings(**{"url": "https://h" if url else None, setting: Path("gs://lake/x")})  # type: ignore[arg-type]


def test_load_config_refuses_a_catalogs_name_unless_it_is_told_to_be_a_directory(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match=r"change_tables: 'main\.cdc\.changes' looks like a catalog table name"):
        load_config(write(tmp_path, f'change_tables = "main.cdc.changes"\n{LEAST}'))
    config = load_config(write(tmp_path, f'change_tables = "./main.cdc.changes"\n{LEAST}'))
    assert config.change_tables == tmp_path / "main.cdc.changes"


def test_load_config_takes_file_urls_for_paths(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, f'zone = "file:///data/zone"\n{LEAST}'))
    assert config.zone == Path("/data/zone")


def test_load_config_reads_how_much_a_micro_batch_takes_and_settings_of_spark(tmp_path: Path) -> None:
    settings = '[spark]\ndriver.memory = "4g"\n"spark.sql.shuffle.partitions" = 7\nui.enabled = false\n'
    config = load_config(write(tmp_path, f'max_bytes_per_batch = "500MiB"\n{LEAST}{settings}'))
    assert config.max_bytes_per_batch == 500 << 20
    assert config.spark == {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "7", "spark.ui.enabled": "false"}
    with pytest.raises(InvalidOptionError, match="spark: driver must be a string, a number, true or false"):
        load_config(write(tmp_path, f"{LEAST}[spark]\ndriver = [1]\n"))
    with pytest.raises(InvalidOptionError, match="max_bytes_per_batch: Spark's Kafka source ignores this limit"):
        load_config(write(tmp_path, f"max_bytes_per_batch = 5\n{LEAST.replace('file:///x', 'kafka://h:1')}"))
    with pytest.raises(InvalidOptionError, match=r"'driver\.memory' is not a Spark setting"):
        ReplicateConfig(
            source=None, topics=("cdc",), tables=tmp_path / "t", checkpoint=tmp_path / "c", spark={"driver.memory": "1g"}
        )


def test_load_config_reads_the_iceberg_catalog_by_its_properties_or_by_its_name(tmp_path: Path) -> None:
    text = f'{LEAST}[iceberg]\nnamespace = "lake.{{schema}}"\ntables = "shop.*"\n[iceberg.catalog]\ntype = "rest"\nuri = "http://h:1"\n'
    found = load_config(write(tmp_path, f'{text}name = "prod"\ns3.endpoint = "http://h:2"\n')).iceberg
    assert found is not None
    assert found.catalog_name == "prod"
    assert found.catalog_properties == {"type": "rest", "uri": "http://h:1", "s3.endpoint": "http://h:2"}
    assert found.identify("shop", "orders") == ("lake", "shop", "orders")
    assert found.identify("hr", "people") is None
    named = load_config(write(tmp_path, f'{LEAST}[iceberg]\ncatalog = "glue"\n')).iceberg
    assert named is not None
    assert (named.catalog_name, named.catalog_properties, named.identify("", "t")) == ("glue", {}, ("default", "t"))
    with pytest.raises(InvalidOptionError, match="iceberg: the catalog is missing"):
        load_config(write(tmp_path, f"{LEAST}[iceberg]\n"))
    with pytest.raises(InvalidOptionError, match=r"\{task\} is not \{schema\} or \{table\}"):
        load_config(write(tmp_path, f'{LEAST}[iceberg]\ncatalog = "c"\ntable = "{{task}}"\n'))
