"""Requests of `n` of something, for each client dialect: what a hostile client sends to make a gateway slow.

Each shape is a function of `n` that gives the body for one dialect. What a dialect has no word for is left out, so a
shape is a dict of dialect → function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.reasoning.compacted_history import CompactedHistory, digest, wrap_history

Json = dict[str, Any]
Shape = Callable[[int], Json]

SCHEMA: Json = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def chat(messages: list[Json], **rest: Any) -> Json:
    """A Chat body."""
    return {"model": "m", "messages": messages, **rest}


def messages(messages: list[Json], **rest: Any) -> Json:
    """A Messages body."""
    return {"model": "m", "max_tokens": 100, "messages": messages, **rest}


def responses(items: list[Json], **rest: Any) -> Json:
    """A Responses body."""
    return {"model": "m", "input": items, **rest}


def _chat_call(call_id: str, name: str = "f") -> Json:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}


def _use(call_id: str, name: str = "f") -> Json:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {}}


def _result(call_id: str) -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "r"}


def _item_call(call_id: str, name: str = "f") -> Json:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": "{}"}


def _output(call_id: str) -> Json:
    return {"type": "function_call_output", "call_id": call_id, "output": "r"}


USER: Json = {"role": "user", "content": "u"}
ANSWER: Json = {"role": "assistant", "content": "a"}
MARK: Json = {"cache_control": {"type": "ephemeral"}}
IMAGE: Json = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
IMAGE_URL: Json = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + PIXEL}}
INPUT_IMAGE: Json = {"type": "input_image", "image_url": "data:image/png;base64," + PIXEL}


def _calls(n: int, one_id: bool, answered: Callable[[int], int]) -> dict[str, Json]:
    """A turn of `n` calls, then as many results as `answered` gives of them."""
    ids = ["c" if one_id else f"c{i}" for i in range(n)]
    back = ids[: answered(n)]
    return {
        "chat": chat(
            [
                USER,
                {"role": "assistant", "content": None, "tool_calls": [_chat_call(i) for i in ids]},
                *({"role": "tool", "tool_call_id": i, "content": "r"} for i in back),
                USER,
            ]
        ),
        "messages": messages(
            [
                USER,
                {"role": "assistant", "content": [_use(i) for i in ids]},
                {"role": "user", "content": [*(_result(i) for i in back), {"type": "text", "text": "u"}]},
            ]
        ),
        "responses": responses([USER, *(_item_call(i) for i in ids), *(_output(i) for i in back), USER]),
    }


def _turns(chat_turns: Callable[[int], list[Json]], same: bool = True) -> dict[str, Shape]:
    """A shape of plain messages that all three dialects write the same way."""
    return {
        "chat": lambda n: chat(chat_turns(n)),
        "messages": lambda n: messages(chat_turns(n)),
        "responses": lambda n: responses(chat_turns(n)),
    }


def _each(build: Callable[..., dict[str, Json]], *given: Any) -> dict[str, Shape]:
    def of(dialect: str) -> Shape:
        return lambda n: build(n, *given)[dialect]

    return {dialect: of(dialect) for dialect in ("chat", "messages", "responses")}


def _all(n: int) -> int:
    return n


def _none(n: int) -> int:
    return 0


def _half(n: int) -> int:
    return n // 2


def _steps(n: int, one_id: bool, answered: bool) -> dict[str, Json]:
    """`n` turns of one call each, with results or without."""
    stated: list[Json] = [USER]
    used: list[Json] = [USER]
    items: list[Json] = [USER]
    for i in range(n):
        call_id = "c" if one_id else f"c{i}"
        stated.append({"role": "assistant", "content": None, "tool_calls": [_chat_call(call_id)]})
        used.append({"role": "assistant", "content": [_use(call_id)]})
        items.append(_item_call(call_id))
        if answered:
            stated.append({"role": "tool", "tool_call_id": call_id, "content": "r"})
            used.append({"role": "user", "content": [_result(call_id)]})
            items.append(_output(call_id))
        else:
            stated.append(USER)
            used.append(USER)
            items.append(USER)
    return {"chat": chat([*stated, USER]), "messages": messages([*used, USER]), "responses": responses([*items, USER])}


def _strays(n: int, one_turn: bool) -> dict[str, Json]:
    """Results without calls."""
    results = [_result(f"c{i}") for i in range(n)]
    inside: list[Json] = (
        [{"role": "user", "content": results}] if one_turn else [{"role": "user", "content": [r]} for r in results]
    )
    return {
        "chat": chat([USER, *({"role": "tool", "tool_call_id": f"c{i}", "content": "r"} for i in range(n)), USER]),
        "messages": messages([USER, *inside, USER]),
        "responses": responses([USER, *(_output(f"c{i}") for i in range(n)), USER]),
    }


def _mixed(n: int) -> dict[str, Json]:
    """Results and words by turns, behind one turn of all calls."""
    call_ids = [f"c{i}" for i in range(n)]
    back = [pair for i in call_ids for pair in ({"role": "tool", "tool_call_id": i, "content": "r"}, USER)]
    return {
        "chat": chat(
            [USER, {"role": "assistant", "content": None, "tool_calls": [_chat_call(i) for i in call_ids]}, *back]
        ),
        "messages": messages(
            [
                USER,
                {"role": "assistant", "content": [_use(i) for i in call_ids]},
                *({"role": "user", "content": [{"type": "text", "text": "u"}, _result(i)]} for i in call_ids),
            ]
        ),
        "responses": responses(
            [USER, *(_item_call(i) for i in call_ids), *(item for i in call_ids for item in (USER, _output(i)))]
        ),
    }


def _instructed(n: int) -> dict[str, Json]:
    """Instructions between a turn of calls and each result."""
    call_ids = [f"c{i}" for i in range(n)]
    word: Json = {"role": "system", "content": "s"}
    return {
        "chat": chat(
            [
                USER,
                {"role": "assistant", "content": None, "tool_calls": [_chat_call(i) for i in call_ids]},
                *(x for i in call_ids for x in (word, {"role": "tool", "tool_call_id": i, "content": "r"})),
            ]
        ),
        "messages": messages(
            [
                USER,
                {"role": "assistant", "content": [_use(i) for i in call_ids]},
                *(x for i in call_ids for x in (word, {"role": "user", "content": [_result(i)]})),
            ]
        ),
        "responses": responses(
            [USER, *(_item_call(i) for i in call_ids), *(x for i in call_ids for x in (word, _output(i)))]
        ),
    }


def _open_calls(n: int) -> dict[str, Json]:
    """A call that no one answers, an instruction, and `n` turns of the assistant's."""
    word: Json = {"role": "system", "content": "s"}
    return {
        "chat": chat(
            [USER, *([ANSWER] * n), {"role": "assistant", "content": None, "tool_calls": [_chat_call("c")]}, word]
            + [ANSWER] * n
        ),
        "messages": messages(
            [USER, *([ANSWER] * n), {"role": "assistant", "content": [_use("c")]}, word] + [ANSWER] * n
        ),
        "responses": responses([USER, *([ANSWER] * n), _item_call("c"), word] + [ANSWER] * n),
    }


def _parts(n: int, what: str, role: str) -> dict[str, Json]:
    """`n` parts in one message."""
    text: Json = {"type": "text", "text": "t"}
    assistant_turn = "output_text" if role == "assistant" else "input_text"
    item_text: Json = {"type": assistant_turn, "text": "t"}
    if what == "image":
        three = [IMAGE_URL] * n, [IMAGE] * n, [INPUT_IMAGE] * n
    elif what == "marked":
        three = [text | MARK] * n, [text | MARK] * n, [item_text | MARK] * n
    elif what == "empty":
        three = [text | {"text": ""}] * n, [text | {"text": ""}] * n, [item_text | {"text": ""}] * n
    elif what == "cited":
        citation: Json = {"type": "char_location", "cited_text": "x", "document_index": 0, "document_title": None}
        citation |= {"start_char_index": 0, "end_char_index": 1}
        note: Json = {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}
        three = [text] * n, [text | {"citations": [citation]}] * n, [item_text | {"annotations": [note]}] * n
    else:
        three = [text] * n, [text] * n, [item_text] * n
    inside = [{"role": role, "content": parts} for parts in three]
    return {
        "chat": chat([inside[0], USER]),
        "messages": messages([inside[1], USER]),
        "responses": responses([inside[2], USER]),
    }


def _reasonings(n: int, signed: bool, one_turn: bool) -> dict[str, Json]:
    """`n` reasoning of the assistant's, in one turn or in `n`."""
    reasoned: Json = {"type": "thinking", "thinking": "t", "signature": "s" if signed else ""}
    item: Json = {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "t"}]}
    if signed:
        item["encrypted_content"] = "e"
    if one_turn:
        blocks = [reasoned | {"thinking": f"t{i}"} for i in range(n)]
        inside = [{"role": "assistant", "content": [*blocks, {"type": "text", "text": "a"}]}]
    else:
        inside = [
            {"role": "assistant", "content": [reasoned | {"thinking": f"t{i}"}, {"type": "text", "text": "a"}]}
            for i in range(n)
        ]
    return {
        "chat": chat([USER, *({**ANSWER, "reasoning_content": f"t{i}"} for i in range(n)), USER]),
        "messages": messages([USER, *inside, USER]),
        "responses": responses([USER, *([item] * n if one_turn else [item, ANSWER] * n), USER]),
    }


def _results_with_images(n: int) -> dict[str, Json]:
    back: list[Json] = []
    for i in range(n):
        back.append({"role": "assistant", "content": [_use(f"c{i}")]})
        back.append({"role": "user", "content": [_result(f"c{i}") | {"content": [IMAGE]}]})
    stated: list[Json] = []
    items: list[Json] = []
    for i in range(n):
        stated.append({"role": "assistant", "content": None, "tool_calls": [_chat_call(f"c{i}")]})
        stated.append({"role": "tool", "tool_call_id": f"c{i}", "content": [IMAGE_URL]})
        items += _item_call(f"c{i}"), _output(f"c{i}") | {"output": [INPUT_IMAGE]}
    return {
        "chat": chat([USER, *stated, USER]),
        "messages": messages([USER, *back, USER]),
        "responses": responses([USER, *items, USER]),
    }


def _tools(n: int, kind: str) -> dict[str, Json]:
    """`n` tools."""
    names = [f"f{i}" for i in range(n)]
    if kind == "long":
        names = ["x" * 70 + name for name in names]
    elif kind == "dots":
        names = [f"a.{name}" for name in names]
    extra: Json = {"defer_loading": True} if kind == "deferred" else {}
    choice_chat: Json = {}
    choice_items: Json = {}
    if kind == "allowed":
        listed = [{"type": "function", "function": {"name": name}} for name in names]
        choice_chat = {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": listed}}}
        named = [{"type": "function", "name": name} for name in names]
        choice_items = {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": named}}
    called = [_use(f"c{i}", name) for i, name in enumerate(names)]
    results = [_result(f"c{i}") for i in range(n)]
    hosted = kind == "hosted"
    return {
        "chat": chat(
            [USER],
            tools=[{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in names],
            **choice_chat,
        ),
        "messages": messages(
            [USER, {"role": "assistant", "content": called}, {"role": "user", "content": results}],
            tools=[
                {"type": "web_search_20250305", "name": name}
                if hosted
                else {"name": name, "input_schema": SCHEMA} | extra
                for name in names
            ],
        ),
        "responses": responses(
            [USER],
            tools=[
                {"type": "web_search", "search_context_size": f"{name}"}
                if hosted
                else {"type": "function", "name": name, "parameters": SCHEMA, "strict": False} | extra
                for name in names
            ],
            **choice_items,
        ),
    }


def _schema(n: int, kind: str) -> Json:
    properties = {f"p{i}": {"type": "string"} for i in range(n)}
    if kind == "wide":
        return {"type": "object", "properties": properties, "required": list(properties)}
    if kind == "one_of":
        return {"type": "object", "anyOf": [{"properties": {f"p{i}": {}}, "required": [f"p{i}"]} for i in range(n)]}
    if kind == "two_wide":
        side: Json = {"type": "object", "properties": properties, "required": list(properties)}
        return {"type": "object", "anyOf": [side, {**side, "required": list(reversed(side["required"]))}]}
    if kind == "same_property":
        return {"anyOf": [{"type": "object", "properties": {"p": {"enum": [i]}}} for i in range(n)]}
    if kind == "refs":
        return {
            "type": "object",
            "properties": {f"p{i}": {"$ref": "#/$defs/d"} for i in range(n)},
            "$defs": {"d": {"type": "object", "properties": {"x": {"type": "string"}}}},
        }
    if kind == "refs_to_wide":
        return {
            "type": "object",
            "properties": {f"p{i}": {"$ref": "#/$defs/d"} for i in range(n)},
            "$defs": {"d": {"enum": list(range(n))}},
        }
    if kind == "ref_graph":
        return {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/d0"}},
            "$defs": {
                f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{(i + 1) % n}"}, {"$ref": f"#/$defs/d{(i + 2) % n}"}]}
                for i in range(n)
            },
        }
    deep: Json = {"type": "string"}
    for _ in range(min(n, 200)):
        deep = {"type": "object", "properties": {"x": deep}}
    return {"type": "object", "properties": {"deep": deep}}


def _schemas(n: int, kind: str, many: bool = False) -> dict[str, Json]:
    """One tool whose schema has `n` of something, or `n` tools whose schemas have a few each."""
    schemas = [_schema(12, kind) for _ in range(n)] if many else [_schema(n, kind)]
    return {
        "chat": chat(
            [USER],
            tools=[
                {"type": "function", "function": {"name": f"f{i}", "parameters": schema, "strict": True}}
                for i, schema in enumerate(schemas)
            ],
        ),
        "messages": messages(
            [USER],
            tools=[{"name": f"f{i}", "input_schema": schema, "strict": True} for i, schema in enumerate(schemas)],
        ),
        "responses": responses(
            [USER],
            tools=[
                {"type": "function", "name": f"f{i}", "parameters": schema, "strict": True}
                for i, schema in enumerate(schemas)
            ],
        ),
    }


def _namespaces(n: int, described: bool) -> Json:
    inner = [{"type": "function", "name": f"f{i}", "parameters": SCHEMA, "strict": False} for i in range(n)]
    space: Json = {"type": "namespace", "name": "x" * (1 if described else n), "tools": inner}
    if described:
        space["description"] = "d" * n * 16
    return responses([USER], tools=[space])


def _searches(n: int) -> Json:
    items: list[Json] = []
    for i in range(n):
        tool = {"type": "function", "name": f"f{i}", "parameters": SCHEMA, "strict": False, "defer_loading": True}
        items.append({"type": "tool_search_call", "call_id": f"c{i}", "execution": "client", "arguments": {}})
        items.append({"type": "tool_search_output", "call_id": f"c{i}", "execution": "client", "tools": [tool]})
    return responses(
        [USER, *items, USER],
        tools=[{"type": "tool_search", "execution": "client", "description": "d", "parameters": SCHEMA}],
    )


def _added_tools(n: int) -> Json:
    change = [
        {
            "type": "tool_addition",
            "tool": {"type": "tool_definition", "definition": {"name": f"f{i}", "input_schema": SCHEMA}},
        }
        for i in range(n)
    ]
    return messages([USER, {"role": "system", "content": change}, USER])


def _custom(n: int) -> dict[str, Json]:
    calls = [{"id": f"c{i}", "type": "custom", "custom": {"name": "f", "input": "x"}} for i in range(n)]
    back = [{"role": "tool", "tool_call_id": f"c{i}", "content": "r"} for i in range(n)]
    items = [{"type": "custom_tool_call", "call_id": f"c{i}", "name": "f", "input": "x"} for i in range(n)]
    out = [{"type": "custom_tool_call_output", "call_id": f"c{i}", "output": "r"} for i in range(n)]
    return {
        "chat": chat(
            [USER, {"role": "assistant", "content": None, "tool_calls": calls}, *back],
            tools=[{"type": "custom", "custom": {"name": "f"}}],
        ),
        "responses": responses([USER, *items, *out], tools=[{"type": "custom", "name": "f"}]),
    }


def _nested(n: int) -> Any:
    value: Any = "x"
    for _ in range(min(n, 300)):
        value = {"x": value}
    return value


def _history(number: int) -> Json:
    history = CompactedHistory(f"summary {number}", [USER], [ANSWER], frozenset([digest(number)]))
    return {"type": "compaction", "encrypted_content": wrap_history(history, "m")}


SHAPES: dict[str, dict[str, Shape]] = {
    "turns by turns": _turns(lambda n: [USER, ANSWER] * n + [USER]),
    "users": _turns(lambda n: [USER] * n),
    "assistants": _turns(lambda n: [USER, *([ANSWER] * n), USER]),
    "last assistants": _turns(lambda n: [USER, *([ANSWER] * n)]),
    "instructions": _turns(lambda n: [*([{"role": "system", "content": "s"}] * n), USER]),
    "late instructions": _turns(lambda n: [USER, *([ANSWER, {"role": "system", "content": "s"}] * n), USER]),
    "instructions between users": _turns(lambda n: [USER, {"role": "system", "content": "s"}] * n + [USER]),
    "bare assistants": {
        "chat": lambda n: chat([USER, *([{"role": "assistant", "content": None}] * n), USER]),
        "messages": lambda n: messages([USER, *([{"role": "assistant", "content": []}] * n), USER]),
        "responses": lambda n: responses([USER, *([{"role": "assistant", "content": []}] * n), USER]),
    },
    "named assistants": {
        "chat": lambda n: chat([USER, *({**ANSWER, "name": f"n{i}"} for i in range(n)), USER]),
        "responses": lambda n: responses([USER, *({**ANSWER, "phase": "commentary"} for i in range(n)), USER]),
    },
    "empty texts": _turns(
        lambda n: [USER, *([{"role": "assistant", "content": ""}] * n), *([{"role": "user", "content": ""}] * n), USER]
    ),
    "unknown keys": {
        "chat": lambda n: chat([USER], **{f"k{i}": i for i in range(n)}),
        "messages": lambda n: messages([USER], **{f"k{i}": i for i in range(n)}),
        "responses": lambda n: responses([USER], **{f"k{i}": i for i in range(n)}),
    },
    "odd old turns": _turns(lambda n: [*([{"role": "critic", "content": 7}] * n), ANSWER, USER]),
    "odd old parts": _turns(
        lambda n: [*([{"role": "user", "content": [{"type": "tool_use", "id": "c", "input": {}}]}] * n), ANSWER, USER]
    ),
    "unknown keys in turns": _turns(lambda n: [{**USER, "k": i} for i in range(n)]),
    "calls of one id": _each(_calls, True, _all),
    "calls of one id, half answered": _each(_calls, True, _half),
    "calls": _each(_calls, False, _all),
    "calls, half answered": _each(_calls, False, _half),
    "orphans in one turn": _each(_calls, False, _none),
    "steps": _each(_steps, False, True),
    "steps of one id": _each(_steps, True, True),
    "orphans in many turns": _each(_steps, False, False),
    "strays in one turn": _each(_strays, True),
    "strays in many turns": _each(_strays, False),
    "results between words": _each(_mixed),
    "results between instructions": _each(_instructed),
    "an open call before assistants": _each(_open_calls),
    "texts of a user": _each(_parts, "text", "user"),
    "texts of the assistant": _each(_parts, "text", "assistant"),
    "cited texts": _each(_parts, "cited", "assistant"),
    "texts of an instruction": _each(_parts, "text", "system"),
    "empty parts": _each(_parts, "empty", "user"),
    "images": _each(_parts, "image", "user"),
    "marked texts": _each(_parts, "marked", "user"),
    "marked assistants": {
        "messages": lambda n: messages(
            [USER, *({"role": "assistant", "content": [{"type": "text", "text": "a"} | MARK]} for _ in range(n))]
        ),
        "chat": lambda n: chat([USER, *({**ANSWER, **MARK} for _ in range(n))]),
    },
    "results with images": _each(_results_with_images),
    "thoughts": _each(_reasonings, False, False),
    "thoughts of one turn": _each(_reasonings, False, True),
    "signed thoughts": _each(_reasonings, True, False),
    "signed thoughts of one turn": _each(_reasonings, True, True),
    "tools": _each(_tools, "plain"),
    "tools of long names": _each(_tools, "long"),
    "tools of bad names": _each(_tools, "dots"),
    "deferred tools": _each(_tools, "deferred"),
    "allowed tools": _each(_tools, "allowed"),
    "hosted tools": _each(_tools, "hosted"),
    **{
        f"schema: {kind}": _each(_schemas, kind)
        for kind in ("wide", "one_of", "two_wide", "same_property", "refs", "refs_to_wide", "ref_graph", "deep")
    },
    "schemas: ref_graph": _each(_schemas, "ref_graph", True),
    "schemas: same_property": _each(_schemas, "same_property", True),
    "namespace of a long description": {"responses": lambda n: _namespaces(n, True)},
    "namespace of a long name": {"responses": lambda n: _namespaces(n, False)},
    "tool searches": {"responses": _searches},
    "added tools": {"messages": _added_tools},
    "cleared instructions": {
        "messages": lambda n: messages(
            [
                ANSWER,
                *({"role": "system", "content": "s", "clear_at": "next_user_message"} for _ in range(n)),
                {"role": "user", "content": [_result("c")]},
            ]
        )
    },
    "configuration updates": {
        "responses": lambda n: responses(
            [
                *(
                    item
                    for _ in range(n)
                    for item in (
                        {"role": "developer", "content": "d"},
                        {"type": "configuration_update", "reasoning": {"effort": "low"}},
                    )
                ),
                USER,
            ]
        )
    },
    "compacted histories": {"responses": lambda n: responses([item for i in range(n) for item in (USER, _history(i))])},
    "answered triggers": {
        "responses": lambda n: responses([*([{"type": "compaction_trigger"}] * n), _history(0), USER])
    },
    "unanswered triggers": {"responses": lambda n: responses([*([{"type": "compaction_trigger"}] * n), USER])},
    "free-text calls": {
        "chat": lambda n: _custom(n)["chat"],
        "responses": lambda n: _custom(n)["responses"],
    },
    "stop sequences": {
        "chat": lambda n: chat([USER], stop=[f"s{i}" for i in range(n)]),
        "messages": lambda n: messages([USER], stop_sequences=[f"s{i}" for i in range(n)]),
    },
    "backslashes": _turns(lambda n: [{"role": "user", "content": "\\" * 32 * n}]),
    "half pairs": _turns(lambda n: [{"role": "user", "content": "\ud83d" * 32 * n}]),
    "deep arguments": {
        "messages": lambda n: messages(
            [
                USER,
                {"role": "assistant", "content": [_use("c") | {"input": _nested(n)}]},
                {"role": "user", "content": [_result("c")]},
            ]
        )
    },
}
