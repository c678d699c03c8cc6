"""The check of a dialect's codec against its recorded streams and its request fields."""

from __future__ import annotations

from dataclasses import fields

from dragoman.dialects.codec import Codec
from dragoman.wire.json_codec import loads
from dragoman.wire.sse_parser import Parser
from support.paths import TRANSCRIPTS


def check_codec(codec: Codec, request_fields: frozenset[str]) -> None:
    """Its parts are of the dialect's own package, or shared; its paths and fields are those of the dialect."""
    facts = codec.dialect.facts
    home = f"dragoman.dialects.{codec.dialect}."
    for part in fields(codec):
        value = getattr(codec, part.name)
        if callable(value):
            assert value.__module__.startswith((home, "dragoman.dialects.openai.", "dragoman.stages.")), part.name
    assert {facts.instructions, facts.conversation} - {None} <= request_fields
    assert codec.conversation[0] in request_fields
    frame = Parser().parse((TRANSCRIPTS / codec.dialect / "text.sse").read_bytes())[0]
    assert frame.data is not None
    for path in codec.model_paths:
        found = loads(frame.data)
        for key in path:
            found = found[key]
        assert isinstance(found, str)
        assert found
