"""Writes the upstream's reply of a capture as a transcript, in the form of the golden tests of this repository.

Such a transcript is `transcripts/UPSTREAM/NAME.sse`, in which the upstream's model is named `upstream-model`. The
tests translate it for each client; `dragoman translate` reads it as well.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from dragoman import Dialect
from dragoman.wire import json_dumps
from dragoman_server.observability.captures.replay import NotReplayable, captured_upstream_reply, check_translated
from dragoman_server.observability.captures.store import Capture

MODEL: Final = "upstream-model"
"""The model's name in transcripts."""
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,100}\Z")
_FIELDS: Final = b"|".join(dict.fromkeys(dialect.facts.model_field.encode() for dialect in Dialect))
_MEMBER: Final = re.compile(rb'("(?:' + _FIELDS + rb')"\s*:\s*)"(?:[^"\\]|\\.)*"')


def write_fixture(capture: Capture, folder: Path, name: str | None = None) -> Path:
    """Write the transcript and return its path. Raises NotReplayable, ValueError for a name, and OSError."""
    name = name or capture.summary["id"]
    if not _NAME.match(name):
        raise NotReplayable("the name of a fixture has letters, digits, '_' and '-'")
    check_translated(capture)
    body = captured_upstream_reply(capture)
    if capture.exchange["attempts"][-1]["reply"]["truncated"]:
        raise NotReplayable("its reply is truncated")
    upstream = Dialect(capture.exchange["replay"]["upstream"])
    suffix = "sse" if capture.exchange["replay"]["stream"] and body.lstrip()[:1] not in (b"{", b"[") else "json"
    path = folder / "transcripts" / upstream / f"{name}.{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_MEMBER.sub(rb"\1" + json_dumps(MODEL), body))
    return path
