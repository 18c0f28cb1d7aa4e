"""What tests of stores share: an environment without settings of a store."""

from __future__ import annotations

import pytest

AWS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION")
OF_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
OTHERS = ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY", "AZURE_TENANT_ID",
          "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET",
          "AZURE_STORAGE_TOKEN", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_MASTER_KEY", "AZURE_STORAGE_CLIENT_SECRET",
          "AZURE_FEDERATED_TOKEN_FILE", "AZURE_AUTHORITY_HOST",
          "STORAGE_EMULATOR_HOST", "GOOGLE_SERVICE_ACCOUNT", "GOOGLE_APPLICATION_CREDENTIALS", "HADOOP_USER_NAME")  # fmt: skip


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*AWS, *OF_KEYS, *OTHERS):
        monkeypatch.delenv(name, raising=False)
