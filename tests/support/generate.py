"""Chunks of Gemini's streams, requests to it, and Google's own types as the judge of those."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from google.genai import types
from pydantic import TypeAdapter

from dragoman import Knobs, Profile, builtin_profile
from dragoman.canonical.events import Error, Event, expand_runs
from dragoman.dialects import Dialect
from dragoman.dialects.all_codecs import CODECS
from dragoman.dialects.generate.request.write import write_request
from dragoman.dialects.generate.stream.reader import GenerateReader
from dragoman.knobs import DEFAULT_KNOBS
from dragoman.limits import DEFAULT_LIMITS
from dragoman.losses import Losses
from dragoman.policies import apply
from dragoman.reasoning.envelope import Envelope
from dragoman.reply_context import ReplyContext
from dragoman.stages.grammar.checker import GrammarChecker
from dragoman.tools.bridge import bridge_tools
from dragoman.tools.duplicate_call_ids import pair_calls
from dragoman.tools.names import NameTable, all_valid
from dragoman.wire.json_codec import dumps
from dragoman.wire.sse import encode_frames
from dragoman.wire.sse_parser import Parser

Json = dict[str, Any]
GEMINI = builtin_profile("generate").replace({"family": "generate"})
"""An upstream with models of the line 3."""
OLDER = GEMINI.replace(
    {
        "thinking": "budget",
        "thinking_off": True,
        "signed_calls": False,
        "images_in_tool_results": False,
        "media_resolution": False,
    }
)
"""One with models of the line 2.5."""


# --- replies ----------------------------------------------------------------------------------------------------------


def chunk(parts: Sequence[Any] | None = None, finish: str | None = None, **fields: Any) -> Json:
    """A chunk whose candidate has these parts. `usage` is prompt, output, reasoning and cached tokens; other fields are
    of the candidate."""
    names = ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "cachedContentTokenCount")
    usage = fields.pop("usage", None)
    candidate: Json = {} if parts is None else {"content": {"parts": list(parts), "role": "model"}}
    candidate |= ({"finishReason": finish} if finish else {}) | {"index": 0, **fields}
    counts = {} if usage is None else {"usageMetadata": dict(zip(names, usage, strict=False))}
    return {"candidates": [candidate], **counts, "modelVersion": "m", "responseId": "x"}


def sse(chunks: Iterable[Json], end: bytes = b"\r\n\r\n") -> bytes:
    """Chunks as the bytes of a stream."""
    return b"".join(b"data: " + dumps(each) + end for each in chunks)


def new_context(client: str = "messages", **options: Any) -> ReplyContext:
    """The context of a reply for a client of this dialect."""
    context = ReplyContext("client-model", 1, "req_x", include_usage=True, input_estimate=20, **options)
    if client != "chat":
        context.envelope = Envelope("generate", "upstream-model")
    return context


def read(pieces: Iterable[bytes] | bytes, context: ReplyContext | None = None, *, whole: bool = True) -> list[Event]:
    """The events of a stream, one for each text. `whole` is that of the parser."""
    context = context or new_context()
    parser, reader = Parser(context.limits, whole=whole, bare=True), GenerateReader(context)
    events: list[Event] = []
    for piece in (pieces,) if isinstance(pieces, bytes) else pieces:
        events += reader.feed(parser.feed(piece))
    events += reader.feed(parser.finish())
    events += reader.finish()
    return expand_runs(events)


def written(events: list[Event], client: str, context: ReplyContext) -> bytes:
    """The stream that a client gets, which is checked against the grammar of its dialect."""
    codec = CODECS[Dialect(client)]
    data = encode_frames(codec.writer(context).feed(events))
    checker = GrammarChecker(codec.grammar(context))
    checker.feed(data)
    if not any(isinstance(event, Error) for event in events):
        checker.finish()
    assert checker.violation is None, checker.violation
    return data


# --- requests ---------------------------------------------------------------------------------------------------------


class Sent:
    """A request to Gemini: its body, its losses, and the names of its tools."""

    def __init__(self, client: str, body: Json, profile: Profile, knobs: Knobs, losses: Losses) -> None:
        codec = CODECS[Dialect(client)]
        self.losses = losses
        request = codec.read_request(body, losses, knobs, DEFAULT_LIMITS)
        self.names = NameTable(profile.tool_name_max)
        distinct, settled, ids, whole, _ = pair_calls(request.turns)
        self.names.ids_fit = distinct and all_valid(ids, profile.call_id_max)
        bridge_tools(request, whole, profile, knobs, losses, self.names)
        apply(request, dialect="generate", profile=profile, knobs=knobs, losses=losses, settled=settled)
        options: Json = {"profile": profile, "knobs": knobs, "losses": losses, "names": self.names}
        self.body: Json = json.loads(dumps(write_request(request, model="gemini", **options)))
        judge(self.body)

    @property
    def contents(self) -> list[Json]:
        contents: list[Json] = self.body["contents"]
        return contents

    @property
    def config(self) -> Json:
        config: Json = self.body.get("generationConfig", {})
        return config

    @property
    def codes(self) -> list[str]:
        return [loss.code.value for loss in self.losses]


def send(
    client: str, body: Json, profile: Profile = GEMINI, knobs: Knobs = DEFAULT_KNOBS, *, strict: bool = False
) -> Sent:
    """The request that a client's becomes."""
    base: Json = {"model": "m", "max_tokens": 100} if client == "messages" else {"model": "m"}
    return Sent(client, base | body, profile, knobs, Losses(strict=strict))


_FIELDS: dict[str, TypeAdapter[Any]] = {
    "contents": TypeAdapter(list[types.Content]),
    "systemInstruction": TypeAdapter(types.Content),
    "tools": TypeAdapter(list[types.Tool]),
    "toolConfig": TypeAdapter(types.ToolConfig),
    "generationConfig": TypeAdapter(types.GenerationConfig),
    "serviceTier": TypeAdapter(str),
}


def judge(body: Json) -> None:
    """Fail unless a body consists of what Google's own types know, with no other field at any level."""
    assert types.Content.model_config["extra"] == "forbid"
    for key, value in body.items():
        _FIELDS[key].validate_json(json.dumps(value))
    roles = [content["role"] for content in body["contents"]]
    assert all(first != second for first, second in pairwise(roles)), roles
    for before, content in pairwise(body["contents"]):
        calls = [part["functionCall"] for part in before["parts"] if "functionCall" in part]
        results = [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]
        assert [(each["id"], each["name"]) for each in calls] == [(each["id"], each["name"]) for each in results]
    assert all(content["parts"] for content in body["contents"])
