"""The worked cases of each cross direction give exactly the events of the tables they were worked out in.

`worked.txt` is those tables, typed in and not made: one line an event, in their own notation. The goldens show the
bytes; this is the truth they are held against.

    chat       `role`, `content` … are chunks whose delta has that key; `tc[i]` a fragment of call i; `fin` the finish
    messages   `start[i]`, `delta[i]`, `stop[i]` are `content_block_*` at index i
    responses  `#n` is the sequence number; `oi`/`ci` are the output and the content index; `ENV(x)` is an envelope
               around the block whose proof is x
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dragoman import Knobs, Translation, direction
from dragoman.reasoning.envelope import Envelope, unwrap, unwrap_citation
from dragoman.reply_context import ReplyContext
from oracles.grammar import sse
from support.paths import TRANSCRIPTS

WORKED = Path(__file__).with_name("worked.txt")
Json = dict[str, Any]
PROOFS = ("signature", "encrypted_content", "thoughtSignature")
"""The fields of a block that its proof may be in."""


def tables() -> dict[str, list[str]]:
    """Direction and case → the lines of its table."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in WORKED.read_text("utf-8").splitlines():
        if line.startswith("== "):
            lines = found[line[3:]] = []
        elif line:
            lines.append(line)
    return found


TABLES = tables()


def quoted(text: str | None) -> str:
    return "null" if text is None else json.dumps(text, ensure_ascii=False)


def proof(text: str) -> str:
    """An envelope as the proof inside it."""
    envelope = unwrap(text)
    if envelope is None:
        return text
    block = envelope.block
    assert block is not None
    return f"ENV({next(block[key] for key in PROOFS if block.get(key))})"


def cited(source: Json) -> str:
    return f"{source['url']} {quoted(source['title'])} {source['start_index']}-{source['end_index']}"


# --- chat -------------------------------------------------------------------------------------------------------------


def chat(payload: Json) -> str:
    if error := payload.get("error"):
        return f"`error` type={error['type']} code={error['code']} {quoted(error['message'])}"
    if not payload["choices"]:
        usage = payload["usage"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        counts = usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]
        return "`usage` p={} c={} t={} cached={}".format(*counts, cached)
    (choice,) = payload["choices"]
    delta = choice["delta"]
    if choice["finish_reason"]:
        return f"`fin` {choice['finish_reason']}"
    if "role" in delta:
        return f"`role` {delta['role']}, content {quoted(delta['content'])}"
    if "tool_calls" in delta:
        (call,) = delta["tool_calls"]
        head = f"id={call['id']} name={call['function']['name']} " if "id" in call else ""
        return f"`tc[{call['index']}]` {head}args {quoted(call['function']['arguments'])}"
    if "annotations" in delta:
        return f"`annotations` {cited(delta['annotations'][0]['url_citation'])}"
    ((key, text),) = delta.items()
    return f"`{key.removesuffix('_content')}` {quoted(text)}"


# --- messages ---------------------------------------------------------------------------------------------------------

_COUNTS = {"input_tokens": "in", "cache_read_input_tokens": "cache_read", "output_tokens": "out"}


def counts_of(usage: Json, *names: str) -> str:
    return " ".join(f"{_COUNTS[name]}={usage[name]}" for name in names or _COUNTS)


def messages(payload: Json) -> str:
    match payload["type"]:
        case "error":
            return f"`error` {payload['error']['type']} {quoted(payload['error']['message'])}"
        case "message_start":
            message = payload["message"]
            return f"`message_start` id={message['id']} usage {counts_of(message['usage'], 'input_tokens')}"
        case "content_block_start":
            block = payload["content_block"]
            if block["type"] == "tool_use":
                text = f"tool_use id={block['id']} name={block['name']} input {json.dumps(block['input'])}"
            else:
                text = f"{block['type']} {quoted(block[block['type']])}"
            return f"`start[{payload['index']}]` {text}"
        case "content_block_delta":
            delta = payload["delta"]
            kind = delta["type"].removesuffix("_delta")
            if kind == "citations":
                opened = unwrap_citation(delta["citation"]["encrypted_index"])
                assert opened is not None
                assert opened.block is not None
                return f"`delta[{payload['index']}]` {delta['citation']['type']} {cited(opened.block)}"
            text = delta["partial_json" if kind == "input_json" else kind]
            return f"`delta[{payload['index']}]` {kind} {quoted(proof(text) if kind == 'signature' else text)}"
        case "content_block_stop":
            return f"`stop[{payload['index']}]`"
        case "message_delta":
            delta = payload["delta"]
            details = delta.get("stop_details")
            why = f" stop_details.explanation={quoted(details['explanation'])}" if details else ""
            return f"`message_delta` stop_reason={delta['stop_reason']}{why} usage {counts_of(payload['usage'])}"
        case kind:
            return f"`{kind}`"


# --- responses --------------------------------------------------------------------------------------------------------


def responses(payload: Json) -> str:
    kind = payload["type"].removeprefix("response.")
    head = f"#{payload['sequence_number']} `{kind}`"
    if "response" in payload:
        return head + ending(payload["response"], kind)
    head += f" oi={payload['output_index']}"
    if "item" in payload:
        return f"{head} {item_of(payload['item'])}"
    if "part" in payload:
        part = payload["part"]
        text = part.get("text", part.get("refusal"))
        return f"{head} ci={payload['content_index']} {part['type']}" + (f" {quoted(text)}" if text else "")
    if "annotation" in payload:
        return f"{head} {cited(payload['annotation'])}"
    return f"{head} {quoted(next(payload[key] for key in ('delta', 'arguments', 'text', 'refusal') if key in payload))}"


def item_of(item: Json) -> str:
    text = f"{item['type']} {item['id']}"
    if item["type"] == "function_call":
        text += f" call_id={item['call_id']} name={item['name']}"
    text += f" {item['status']}"
    if item["status"] == "in_progress":
        return text
    if item["type"] == "function_call":
        return f"{text} args {quoted(item['arguments'])}"
    if item["type"] == "message":
        (part,) = item["content"]
        return f"{text} [{part['type']} {quoted(part.get('text', part.get('refusal')))}]"
    return text + (f" enc={proof(item['encrypted_content'])}" if "encrypted_content" in item else "")


def ending(response: Json, kind: str) -> str:
    if kind in ("created", "in_progress"):
        assert response["status"] == "in_progress"
        return ""
    text = f" status={response['status']}"
    if response["incomplete_details"]:
        text += f" reason={response['incomplete_details']['reason']}"
    if response["error"]:
        text += f" error.code={response['error']['code']}"
    items = ", ".join(f"{item['type']}:{item['status']}" for item in response["output"])
    number = len(response["output"])
    text += f" output={number} item{'s' if number > 1 else ''} ({items})"
    usage = response["usage"]
    if usage:
        cached = usage["input_tokens_details"]["cached_tokens"]
        counts = usage["input_tokens"], cached, usage["output_tokens"], usage["total_tokens"]
        text += " usage in={} cached={} out={} total={}".format(*counts)
    return text


NOTATIONS = {"chat": chat, "messages": messages, "responses": responses}


def notation(client: str, data: bytes) -> list[str]:
    """A client's stream in the notation of the tables."""
    lines = []
    for item in sse.split(data):
        if item.data is None:
            lines.append("`: keep-alive`")
        elif item.data == b"[DONE]":
            lines.append("`[DONE]`")
        else:
            lines.append(NOTATIONS[client](json.loads(item.data)))
    return lines


@pytest.mark.parametrize("name", TABLES)
def test_a_worked_case_has_the_events_of_its_table(name: str) -> None:
    pair, case = name.split("/")
    client, upstream = pair.split("_from_")
    way = direction(client, upstream)
    # The tables hold the `native` value of what is `completed` by default (mapping §9.3).
    context = ReplyContext("client-model", 1, "req_x", include_usage=True, input_estimate=20)
    context.knobs = Knobs(refusal_terminal="native", block_order="interleave")
    context.envelope = Envelope(upstream, "upstream-model") if way.client.restore_reasoning is not None else None
    machine = Translation(way, b"", True, context, "upstream-model").stream_machine()
    data = (TRANSCRIPTS / upstream / f"{case}.sse").read_bytes()
    lines = notation(client, machine.feed(data) + machine.finish())
    # The tables mint every id from `x`; the transcripts of Messages and Responses call their reply `u`.
    assert [re.sub(r"\b(msg|rs|fc)_u", r"\1_x", line) for line in lines] == TABLES[name]
