"""docs/server-http.md: its commands run, in one shell, against a server, and what they print has the form that is shown."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.server.http_servers import serving

DOCUMENT = Path(__file__).parents[2] / "docs" / "server-http.md"
END = "-- end of a block --"


def form_of(document: Any) -> Any:
    """The members of a document, by kind; those of the first item stand for all of a list."""
    if isinstance(document, dict):
        return {name: form_of(value) for name, value in document.items() if name != "error"}
    return [form_of(item) for item in document[:1]] if isinstance(document, list) else type(document).__name__


@pytest.mark.skipif(shutil.which("curl") is None or shutil.which("bash") is None, reason="needs curl and bash")
def test_the_commands_of_the_document_print_what_it_shows() -> None:
    blocks = re.findall(r"```bash\n(.*?)```\n(?:\n```json\n(.*?)```)?", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 6
    script = "set -eu\n" + "".join(f"{commands}\necho; echo '{END}'\n" for commands, _ in blocks)
    with serving() as http:
        script = script.replace("127.0.0.1:3000", f"{http.host}:{http.port}")
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    printed = done.stdout.split(END)
    for (commands, shown), text in zip(blocks, printed, strict=False):
        if shown:
            expected, found = form_of(json.loads(shown)), form_of(json.loads(text))
            assert found == expected or (expected.get("messages") == [] and set(found) == set(expected)), commands
