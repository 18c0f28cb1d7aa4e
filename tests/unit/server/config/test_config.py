"""The configuration of a server: where it comes from, what it is made of, and what is refused."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

from headstream.core.model.quantities import parse_duration_us, parse_size_bytes
from headstream.core.model.topology import Fsync
from headstream.errors import InvalidOptionError, StorageError
from headstream.server.config.config import ServerConfig, load_config
from headstream.server.config.file import format_toml
from headstream.server.config.keys import SECRETS
from headstream.server.network.addresses import Address


def load(tmp_path: Path, text: str, environ: dict[str, str] | None = None, **options: Any) -> ServerConfig:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return load_config(path, environ or {}, {name.replace("__", "."): value for name, value in options.items()})


def refusal_of(tmp_path: Path, text: str, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(InvalidOptionError) as refused:
        load(tmp_path, text, environ)
    return str(refused.value)


def test_config_listens_on_this_machine_alone_when_nothing_is_said() -> None:
    config = load_config(None, {})
    assert (config.tcp_address, config.http_address) == (Address("127.0.0.1", 8090), Address("127.0.0.1", 3000))
    assert config.warnings == ()
    assert config.data == "local_data"


def test_config_prefers_the_command_line_to_variables_and_those_to_the_file(tmp_path: Path) -> None:
    file = '[tcp]\naddress = "127.0.0.1:1"\n[heartbeat]\nenabled = true\ninterval = "2 s"\n'
    assert load(tmp_path, file).tcp_address == Address("127.0.0.1", 1)
    variables = {"IGGY_TCP_ADDRESS": "127.0.0.1:2", "IGGY_HEARTBEAT_INTERVAL": "3 s"}
    assert load(tmp_path, file, variables).tcp_address == Address("127.0.0.1", 2)
    own = variables | {"HEADSTREAM_TCP_ADDRESS": "127.0.0.1:3"}
    assert load(tmp_path, file, own).tcp_address == Address("127.0.0.1", 3)
    config = load(tmp_path, file, own, tcp__address="127.0.0.1:4")
    assert config.tcp_address == Address("127.0.0.1", 4)
    assert config.settings.heartbeat_us == 3_000_000


@pytest.mark.parametrize("name", ["IGGY_CONFIG_PATH", "HEADSTREAM_CONFIG_PATH"])
def test_config_is_read_from_the_file_that_a_variable_names(tmp_path: Path, name: str) -> None:
    path = tmp_path / "named.toml"
    path.write_text("[personal_access_token]\nmax_tokens_per_user = 7\n")
    assert load_config(None, {name: str(path)}).settings.most_tokens == 7


def test_config_takes_variables_of_a_file_before_those_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("named.toml").write_text('[tcp]\naddress = "127.0.0.1:1"\n[heartbeat]\ninterval = "2 s"\n')
    Path(".env").write_text("IGGY_CONFIG_PATH=named.toml\nHEADSTREAM_TCP_ADDRESS=127.0.0.1:2\nDATABASE_URL=x\n")
    config = load_config(None, {})
    assert (config.tcp_address, config.values["heartbeat.interval"]) == (Address("127.0.0.1", 2), "2 s")
    assert config.read_from == (Path("named.toml"), Path(".env"))
    assert load_config(None, {"IGGY_TCP_ADDRESS": "127.0.0.1:3"}).tcp_address == Address("127.0.0.1", 3)
    Path("other.env").write_text("IGGY_TCP_ADDRES=127.0.0.1:4\n")
    for name in ("IGGY_ENV_PATH", "HEADSTREAM_ENV_PATH"):
        with pytest.raises(InvalidOptionError, match=r"other\.env: IGGY_TCP_ADDRES: unknown setting; did you mean"):
            load_config(None, {name: "other.env"})
    with pytest.raises(StorageError, match=r"missing\.env"):
        load_config(None, {"IGGY_ENV_PATH": "missing.env"})


def test_config_is_fresh_only_where_the_directory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidOptionError, match="Set --data DIR"):
        load_config(None, {}, is_fresh=True)
    assert load_config(None, {"IGGY_SYSTEM_PATH": "here"}, is_fresh=True).is_fresh
    assert not load_config(None, {}, {"system.path": "here"}).is_fresh


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[system.encryption]\nenabled = true", "system.encryption.enabled"),
        ("[telemetry]\nenabled = true", "telemetry.enabled"),
        ("[data_maintenance.archiver]\nenabled = true", "data_maintenance.archiver.enabled"),
        ("[data_maintenance.messages]\narchiver_enabled = true", "data_maintenance.messages.archiver_enabled"),
        ("[system.segment]\narchive_expired = true", "system.segment.archive_expired"),
    ],
)
def test_config_refuses_a_promise_that_is_not_kept(tmp_path: Path, text: str, key: str) -> None:
    refused = refusal_of(tmp_path, text)
    assert key in refused
    assert "unsupported" in refused


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[tcp]\nadress = "127.0.0.1:1"', "did you mean tcp.address?"),
        ("[heartbeats]\nenabled = true", "did you mean heartbeat.enabled?"),
        ('[tcp]\naddress = "8090"', "'8090' is not an address"),
        ('[tcp]\naddress = "127.0.0.1:65536"', "is not an address"),
        ('[tcp]\nipv6 = true\naddress = "127.0.0.1:1"', "not an IPv6 address"),
        ('[tcp]\nenabled = "yes"', "true or false is required"),
        ('[heartbeat]\ninterval = "5 parsecs"', "is not a duration"),
        ('[system.segment]\nsize = "2 GB"', "4096 to 1073741824 bytes is required"),
        ('[system.topic]\nmax_size = "1 MB"', "at least system.segment.size"),
        ('[system.topic]\nmax_size = "server_default"', "is not a size"),
        ('[system.segment]\nmessage_expiry = "server_default"', "is not a duration"),
        ('[http.jwt]\nalgorithm = "RS256"', "one of HS256, HS384, HS512"),
        ('[http.jwt]\nencoding_secret = "one of them"\ndecoding_secret = "another"', "must be equal"),
        ('[http.jwt]\nencoding_secret = "%%%"\nuse_base64_secret = true', "the secret must be base64"),
        ('[http.cors]\nallow_credentials = true\nallowed_origins = ["*"]', "credentials cannot be allowed"),
        ('[message_saver]\nenabled = 3', "a value such as True"),
        ('[system.runtime]\npath = "../elsewhere"', "the name of a directory"),
        ("[tcp", "not TOML"),
    ],
)  # fmt: skip
def test_config_refuses_what_cannot_be_used(tmp_path: Path, text: str, told: str) -> None:
    assert told in refusal_of(tmp_path, text)


def test_config_keeps_what_it_is_told_about_topics_of_existing_clients(tmp_path: Path) -> None:
    file = "[system.partition]\nenforce_fsync = true\n[system.message_deduplication]\nenabled = true\nmax_entries = 77\n"
    file += '[system.segment]\nsize = "1 MB"\nmessage_expiry = "7 days"\n[system.topic]\nmax_size = "2 GB"\n'
    config = load(tmp_path, file)
    settings = config.settings
    assert (settings.fsync, settings.deduplication_count) == (Fsync.ALWAYS, 77)
    assert (settings.message_expiry_us, settings.max_topic_bytes) == (7 * 86_400_000_000, 2 * 10**9)
    assert config.segment_bytes == 10**6
    settings = load(tmp_path, "").settings
    assert (settings.fsync, settings.deduplication_count) == (Fsync.INTERVAL, None)


def test_config_limits_how_long_nobody_may_be_logged_in(tmp_path: Path) -> None:
    for spelled, seconds in (("90 s", 90.0), ("none", math.inf)):
        assert load(tmp_path, f'[headstream]\nlogin_timeout = "{spelled}"').tcp.limits.login_s == seconds
    assert load(tmp_path, "").tcp.limits.login_s == 600


def test_config_tells_every_problem_at_once(tmp_path: Path) -> None:
    refused = refusal_of(tmp_path, "[tcp]\nx = 1\n[heartbeat]\nenabled = 2\n[telemetry]\nenabled = true\n")
    assert refused.count("\n  ") == 3


def test_config_never_shows_a_secret(tmp_path: Path) -> None:
    secret = "do not show me to anybody, whatever happens"
    config = load(
        tmp_path, "", {"IGGY_ROOT_USERNAME": "admin", "IGGY_ROOT_PASSWORD": secret, "IGGY_HTTP_JWT_ENCODING_SECRET": secret}
    )
    assert secret not in repr(config)
    assert secret not in format_toml(config.values.items())
    for key in SECRETS:
        section, _, name = key.rpartition(".")
        assert secret not in refusal_of(tmp_path, f'[{section}]\n{name} = ["{secret}"]')


def test_config_is_told_when_the_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be read"):
        load_config(tmp_path / "missing.toml", {})


@pytest.mark.parametrize(
    ("spelled", "microseconds"),
    [
        ("0", 0),
        ("0 s", 0),
        ("30 s", 30_000_000),
        ("1 m", 60_000_000),
        ("500ms", 500_000),
        ("7 days", 7 * 86_400_000_000),
        ("2 days 4 hours", 52 * 3_600_000_000),
        ("1h30m", 5_400_000_000),
        ("1 month", 2_630_016_000_000),
        ("1 M", 2_630_016_000_000),
    ],
)
def test_parse_microseconds_reads_durations_as_the_original_spells_them(spelled: str, microseconds: int) -> None:
    assert parse_duration_us(spelled) == microseconds


@pytest.mark.parametrize("spelled", ["", "5", "s", "-1 s", "5 parsecs", "1 s x", "1.5.5 s", True, None, 1.5, "9" * 18 + " y"])
def test_parse_microseconds_refuses_what_is_no_duration(spelled: Any) -> None:
    with pytest.raises(ValueError, match=r"is not a duration"):
        parse_duration_us(spelled)


@pytest.mark.parametrize(
    ("spelled", "size"), [("1 GB", 10**9), ("512 MB", 512 * 10**6), ("1 GiB", 1 << 30), (4096, 4096), ("100 KB", 100_000)]
)
def test_parse_bytes_reads_sizes_as_the_original_spells_them(spelled: Any, size: int) -> None:
    assert parse_size_bytes(spelled) == size


def test_the_settings_of_the_page_about_production_are_taken_without_a_warning(tmp_path: Path) -> None:
    page = (Path(__file__).parents[4] / "docs/production.md").read_text(encoding="utf-8")
    (settings,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    path = tmp_path / "server.toml"
    path.write_text(settings, encoding="utf-8")
    config = load_config(path, {"IGGY_ROOT_USERNAME": "admin", "IGGY_ROOT_PASSWORD": "a long password"})
    assert str(config.tcp_address) == "0.0.0.0:8090"
    assert config.tcp_tls is not None
    assert config.http_tls is not None
    assert config.warnings == ()


def test_config_refuses_a_directory_when_its_scheme_is_not_served(tmp_path: Path) -> None:
    assert "system.path: 's3://lake/log': the scheme s3: is not supported here" in refusal_of(
        tmp_path, '[system]\npath = "s3://lake/log"\n'
    )


def test_config_serves_kafkas_clients_as_it_is_told_when_that_is_asked_for(tmp_path: Path) -> None:
    text = """
[kafka]
enabled = true
address = "127.0.0.1:9999"
advertised_address = "shop.example:9092"
default_stream = "shop"
default_partitions = 6
[headstream]
max_connections = 7
max_frame_size = "2 MiB"
"""
    config = load(tmp_path, text)
    assert (config.kafka_address, config.kafka_tls) == (Address("127.0.0.1", 9999), None)
    assert config.kafka.advertised == Address("shop.example", 9092)
    assert (config.kafka.default_stream, config.kafka.default_partitions, config.kafka.max_connections) == ("shop", 6, 7)
    assert config.kafka.limits.frame_bytes == 2 << 20
    assert load_config(None, {}).kafka_address is None
    assert "a stream name must not contain a dot" in refusal_of(tmp_path, '[kafka]\ndefault_stream = "a.b"')
