"""Files of variables (`.env`): NAME=VALUE lines, as in a shell script.

    IGGY_TCP_ADDRESS=127.0.0.1:8090            # text after a blank and # is a comment
    export HEADSTREAM_DRAIN_TIMEOUT="5 s"      \\n \\" \\\\ \\$ work as in a shell, $NAME and ${NAME} expand
    IGGY_ROOT_PASSWORD='as it $tands'          taken literally

A quoted value can span several lines. Other programs often share such a file: a line of another form is ignored, unless it
begins with one of Headstream's prefixes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headstream.errors import InvalidOptionError, StorageError

__all__ = ["read_env_file"]

_ASSIGNMENT: Final = re.compile(
    r"""[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][\w.]*)[ \t]*=[ \t]*
    (?:'(?P<literal>[^']*)'|"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>(?:[^\s'"\#][^\r\n]*?)?))
    (?:[ \t]+\#[^\r\n]*|[ \t]*)(?:\r?\n|\Z)""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_OURS: Final = re.compile(r"[ \t]*(?:export[ \t]+)?(?:IGGY|HEADSTREAM)_")
_MEANING: Final = re.compile(r"\\(?P<escaped>[\\\"'$ n])|\$\{(?P<braced>\w+)\}|\$(?P<named>\w+)", re.ASCII)


def read_env_file(path: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a file.

    Args:
        path: The file.
        environ: The variables of the environment: `$NAME` expands to them first, then to those above it in the file.

    Raises:
        InvalidOptionError: a line with one of Headstream's prefixes is not NAME=VALUE, or the file is not UTF-8.
        StorageError: the file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidOptionError("a file of variables must be UTF-8 text", where=str(path)) from None
    except OSError as error:
        raise StorageError(f"the variables cannot be read: {error.strerror}", where=str(path)) from error
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _ASSIGNMENT.match(text, at)
        if match is not None:
            found[match["name"]] = _value_of(match, {**found, **environ})
            at = match.end()
            continue
        if _OURS.match(text, at):
            line = text.count("\n", 0, at) + 1
            raise InvalidOptionError(
                f"line {line} is not NAME=VALUE",
                where=str(path),
                advice="Close its quotes; quote values that contain quotes or spaces",
            )
        at = (text.find("\n", at) + 1) or len(text)
    return found


def _value_of(match: re.Match[str], variables: Mapping[str, str]) -> str:
    """Return the value of an assignment."""
    if match["literal"] is not None:
        return match["literal"]

    def mean(part: re.Match[str]) -> str:
        if part["escaped"] is not None:
            return part["escaped"].replace("n", "\n")
        return variables.get(part["braced"] or part["named"], "")

    return _MEANING.sub(mean, match["plain"] if match["quoted"] is None else match["quoted"])
