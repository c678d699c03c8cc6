"""The simulated upstream's other endpoints: embeddings, completions, moderations, images, audio and rerank.

Equal requests get equal replies. A text counts as a token for each four of its characters.
"""

from __future__ import annotations

import struct
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from email.parser import BytesParser
from email.policy import HTTP
from hashlib import sha256
from typing import Any

import orjson

from dragoman_server.simulator.error_replies import RequestRejected
from dragoman_server.simulator.parse_request import Json

DIMENSIONS = 8
"""Numbers of an embedding, unless the request asks for another count."""
PNG = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
"""The image of every reply: one pixel."""
AUDIO = b"ID3" + bytes(range(256)) * 64
"""The audio of every reply."""
TRANSCRIPT = "Hello from the simulator."
_JSON, _EVENTS, _TEXT = "application/json", "text/event-stream; charset=utf-8", "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class OtherReply:
    """A reply: its content type, and its body in the pieces in which it is sent."""

    content_type: str
    pieces: tuple[bytes, ...]


def parse_form(content_type: str, body: bytes) -> dict[str, Any]:
    """Return the fields of a multipart form: texts, and bytes for files. The last one of a name counts."""
    head = f"content-type: {content_type}\r\n\r\n".encode()
    fields: dict[str, Any] = {}
    for part in BytesParser(policy=HTTP).parsebytes(head + body).iter_parts():
        content = part.get_payload(decode=True)
        name = part.get_param("name", header="content-disposition")
        if isinstance(name, str) and isinstance(content, bytes):
            fields[name] = content if part.get_filename() is not None else content.decode()
    return fields


def reply_to(path: str, fields: Json) -> OtherReply:
    """Return the reply to a request; `path` is below `/v1`. Raises RequestRejected."""
    return _REPLIES[path](fields)


def _json(body: Json) -> OtherReply:
    return OtherReply(_JSON, (orjson.dumps(body),))


def _events(events: Iterable[Json], *, done: bool = False) -> OtherReply:
    frames = [b"data: " + orjson.dumps(event) + b"\n\n" for event in events]
    return OtherReply(_EVENTS, (*frames, b"data: [DONE]\n\n") if done else tuple(frames))


def _named_events(events: Iterable[Json]) -> OtherReply:
    frames = (b"event: %b\ndata: %b\n\n" % (event["type"].encode(), orjson.dumps(event)) for event in events)
    return OtherReply(_EVENTS, tuple(frames))


def _required(fields: Json, name: str) -> Any:
    if (value := fields.get(name)) is None:
        raise RequestRejected(f"Missing required parameter: '{name}'.", name, "missing_required_parameter")
    return value


def _tokens(value: Any) -> int:
    return -(-len(value if isinstance(value, str) else orjson.dumps(value)) // 4)


def _texts(value: Any) -> list[Any]:
    """Return the inputs of a request that may have one or several."""
    several = isinstance(value, list) and not (value and isinstance(value[0], int))
    return value if several else [value]


def _embeddings(fields: Json) -> OtherReply:
    given = _texts(_required(fields, "input"))
    size = fields.get("dimensions") or DIMENSIONS
    data = []
    for index, text in enumerate(given):
        digest = sha256(orjson.dumps(text)).digest()
        numbers = [digest[at % len(digest)] / 256 for at in range(size)]
        vector: Any = numbers
        if fields.get("encoding_format") == "base64":
            vector = b64encode(struct.pack(f"<{size}f", *numbers)).decode()
        data.append({"object": "embedding", "index": index, "embedding": vector})
    used = sum(map(_tokens, given))
    usage = {"prompt_tokens": used, "total_tokens": used}
    return _json({"object": "list", "data": data, "model": _required(fields, "model"), "usage": usage})


def _completions(fields: Json) -> OtherReply:
    prompt = _required(fields, "prompt")
    base = {"id": "cmpl-sim", "object": "text_completion", "created": 0, "model": _required(fields, "model")}
    words = ("Hello", " from", " the", " simulator.")
    usage = {"prompt_tokens": _tokens(prompt), "completion_tokens": len(words)}
    usage["total_tokens"] = sum(usage.values())

    def choice(text: str, reason: str | None) -> list[Json]:
        return [{"index": 0, "text": text, "logprobs": None, "finish_reason": reason}]

    if not fields.get("stream"):
        return _json({**base, "choices": choice("".join(words), "stop"), "usage": usage})
    chunks: list[Json] = [{**base, "choices": choice(word, None)} for word in words]
    chunks.append({**base, "choices": choice("", "stop")})
    if (fields.get("stream_options") or {}).get("include_usage"):
        chunks.append({**base, "choices": [], "usage": usage})
    return _events(chunks, done=True)


def _moderations(fields: Json) -> OtherReply:
    names = ("harassment", "hate", "self-harm", "sexual", "violence")
    result = {
        "flagged": False,
        "categories": dict.fromkeys(names, False),
        "category_scores": dict.fromkeys(names, 0.0),
        "category_applied_input_types": {name: ["text"] for name in names},
    }
    results = [result for _ in _texts(_required(fields, "input"))]
    return _json({"id": "modr-sim", "model": fields.get("model") or "omni-moderation-latest", "results": results})


def _image(fields: Json, kind: str) -> OtherReply:
    usage: Json = {"input_tokens": _tokens(fields.get("prompt") or ""), "output_tokens": 100}
    usage["total_tokens"] = sum(usage.values())
    usage["input_tokens_details"] = {"text_tokens": usage["input_tokens"], "image_tokens": 0}
    encoded = b64encode(PNG).decode()
    if fields.get("stream") in (True, "true"):
        shape = {"b64_json": encoded, "created_at": 0, "size": "1024x1024", "quality": "low"}
        shape |= {"background": "opaque", "output_format": "png"}
        part = {"type": f"{kind}.partial_image", "partial_image_index": 0, **shape}
        return _named_events((part, {"type": f"{kind}.completed", "usage": usage, **shape}))
    return _json({"created": 0, "data": [{"b64_json": encoded}] * int(fields.get("n") or 1), "usage": usage})


def _generation(fields: Json) -> OtherReply:
    _required(fields, "prompt")
    return _image(fields, "image_generation")


def _edit(fields: Json) -> OtherReply:
    _required(fields, "prompt")
    if not any(name.startswith("image") for name in fields):
        _required(fields, "image")
    return _image(fields, "image_edit")


def _variation(fields: Json) -> OtherReply:
    _required(fields, "image")
    return _image(fields, "image_variation")


def _speech(fields: Json) -> OtherReply:
    text = _required(fields, "input")
    pieces = tuple(AUDIO[at : at + 4096] for at in range(0, len(AUDIO), 4096))
    if fields.get("stream_format") != "sse":
        return OtherReply("audio/mpeg", pieces)
    usage = {"input_tokens": _tokens(text), "output_tokens": 50, "total_tokens": _tokens(text) + 50}
    events: list[Json] = [{"type": "speech.audio.delta", "audio": b64encode(piece).decode()} for piece in pieces]
    return _events([*events, {"type": "speech.audio.done", "usage": usage}])


def _transcription(fields: Json) -> OtherReply:
    size = len(_required(fields, "file"))
    given, made = -(-size // 1000), _tokens(TRANSCRIPT)
    usage = {"type": "tokens", "input_tokens": given, "output_tokens": made, "total_tokens": given + made}
    if fields.get("stream") == "true":
        deltas = [{"type": "transcript.text.delta", "delta": f"{word} "} for word in TRANSCRIPT.split()]
        return _events([*deltas, {"type": "transcript.text.done", "text": TRANSCRIPT, "usage": usage}])
    if fields.get("response_format") in ("text", "srt", "vtt"):
        return OtherReply(_TEXT, (TRANSCRIPT.encode() + b"\n",))
    return _json({"text": TRANSCRIPT, "usage": usage})


def _rerank(fields: Json) -> OtherReply:
    documents = _required(fields, "documents")
    words = set(str(_required(fields, "query")).lower().split())
    scores = [len(words & set(str(document).lower().split())) / max(1, len(words)) for document in documents]
    order = sorted(range(len(documents)), key=lambda index: -scores[index])[: fields.get("top_n") or None]
    results = [{"index": index, "relevance_score": scores[index]} for index in order]
    used = sum(map(_tokens, documents))
    return _json(
        {"id": "rerank-sim", "model": fields.get("model"), "results": results, "usage": {"total_tokens": used}}
    )


_REPLIES: Mapping[str, Callable[[Json], OtherReply]] = {
    "embeddings": _embeddings,
    "completions": _completions,
    "moderations": _moderations,
    "images/generations": _generation,
    "images/edits": _edit,
    "images/variations": _variation,
    "audio/speech": _speech,
    "audio/transcriptions": _transcription,
    "audio/translations": _transcription,
    "rerank": _rerank,
}
PATHS = tuple(_REPLIES)
"""The endpoints' paths below `/v1`."""
