"""Unit tests of headstream.replicate.iceberg.access: what it uses of pyiceberg is as it was when it was tested."""

from __future__ import annotations

import inspect

from pyiceberg import manifest
from pyiceberg.catalog import AVAILABLE_CATALOGS, Catalog, CatalogType
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.manifest import DATA_FILE_TYPE, ManifestEntry, ManifestFile, ManifestWriterV2
from pyiceberg.table import update


def test_what_is_used_of_pyiceberg_is_unchanged() -> None:
    """When this fails with a new version: read access.py against it, run the campaign, then write the new form here."""
    fields = [field.name for field in DATA_FILE_TYPE[2].fields]
    assert fields == [
        "content", "file_path", "file_format", "partition", "record_count", "file_size_in_bytes", "column_sizes", "value_counts",
        "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds", "key_metadata", "split_offsets", "equality_ids",
        "sort_order_id",
    ]  # fmt: skip
    assert _parameters(ManifestWriterV2.__init__) == ["self", "spec", "schema", "output_file", "snapshot_id", "avro_compression"]
    assert _parameters(ManifestFile.fetch_manifest_entry) == ["self", "io", "discard_deleted"]
    assert _parameters(manifest.write_manifest_list) == [
        "format_version", "output_file", "snapshot_id", "parent_snapshot_id", "sequence_number", "avro_compression",
    ]  # fmt: skip
    assert _parameters(Catalog.commit_table) == ["self", "table", "requirements", "updates"]
    assert CatalogType.REST in AVAILABLE_CATALOGS
    assert _parameters(RestCatalog._create_session) == ["self"]
    assert {"_meta", "content", "add", "existing", "delete", "to_manifest_file"} <= set(dir(ManifestWriterV2))
    assert {"status", "snapshot_id", "sequence_number", "file_sequence_number", "data_file"} <= set(dir(ManifestEntry))
    for name in ("AddSchemaUpdate", "AddSnapshotUpdate", "SetSnapshotRefUpdate", "RemoveSnapshotsUpdate", "AssertRefSnapshotId"):
        assert hasattr(update, name), name


def _parameters(function: object) -> list[str]:
    return list(inspect.signature(function).parameters)  # type: ignore[arg-type]
