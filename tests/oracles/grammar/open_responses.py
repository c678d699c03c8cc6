"""The Open Responses specification's schema of replies: the Response object and the events of a stream.

Written from version 2026-04-24 (https://www.openresponses.org). Where its versions differ, the stricter one counts. It
judges the shape only, one object at a time; what must agree between them is in `responses`.

A schema is a type, one of several (`OneOf`), a list of one (`Array`), a literal (`Words`), or an object (a dict of its
keys; a key that may be missing ends with `?`). Keys that a schema does not name are extensions, which are allowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dragoman.stages.grammar.values import GrammarError


@dataclass(frozen=True, slots=True)
class Words:
    """A string that is one of these."""

    words: frozenset[str]


@dataclass(frozen=True, slots=True)
class OneOf:
    """A value that satisfies one of these schemas."""

    schemas: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Array:
    """A list whose entries satisfy a schema."""

    entry: Any


@dataclass(frozen=True, slots=True)
class ByType:
    """An object whose `type` chooses its schema. What the specification does not list is an extension's."""

    schemas: dict[str, Any]
    extensions: frozenset[str] = frozenset()


def _words(*words: str) -> Words:
    return Words(frozenset(words))


def _or_null(schema: Any) -> OneOf:
    return OneOf((schema, None))


def _typed(*kinds: dict[str, Any], extensions: frozenset[str] = frozenset()) -> ByType:
    return ByType({next(iter(kind["type"].words)): kind for kind in kinds}, extensions)


# --- parts and items --------------------------------------------------------------------------------------------------

_TOP_LOGPROB = {"token": str, "logprob": float, "bytes": Array(int)}
_LOGPROB = _TOP_LOGPROB | {"top_logprobs": Array(_TOP_LOGPROB)}
_CITATION = {"type": _words("url_citation"), "url": str, "start_index": int, "end_index": int, "title": str}
_ANNOTATION = _typed(_CITATION, extensions=frozenset({"file_citation", "file_path", "container_file_citation"}))
_PART = _typed(
    {"type": _words("output_text"), "text": str, "annotations": Array(_ANNOTATION), "logprobs": Array(_LOGPROB)},
    {"type": _words("refusal"), "refusal": str},
    {"type": _words("summary_text"), "text": str},
    {"type": _words("reasoning_text"), "text": str},
)
_STATUS = _words("in_progress", "completed", "incomplete")
_ITEM = _typed(
    {
        "type": _words("message"),
        "id": str,
        "status": _STATUS,
        "role": _words("user", "assistant", "system", "developer"),
        "content": Array(_PART),
        "phase?": _words("commentary", "final_answer"),
    },
    {
        "type": _words("function_call"),
        "id": str,
        "call_id": str,
        "name": str,
        "arguments": str,
        "status": _STATUS,
    },
    {
        "type": _words("reasoning"),
        "id": str,
        "summary": Array(_PART),
        "content?": Array(_PART),
        "encrypted_content?": str,
    },
    {"type": _words("compaction"), "id": str, "encrypted_content": str, "created_by?": str},
    extensions=frozenset(
        {"custom_tool_call", "tool_search_call", "shell_call", "local_shell_call", "apply_patch_call"}
    ),
)

# --- the Response object ----------------------------------------------------------------------------------------------

_FUNCTION_TOOL = {
    "type": _words("function"),
    "name": str,
    "description": _or_null(str),
    "parameters": _or_null(dict),
    "strict": _or_null(bool),
}
_TOOL = _typed(
    _FUNCTION_TOOL,
    extensions=frozenset({"custom", "namespace", "tool_search", "web_search", "shell", "local_shell", "apply_patch"}),
)
_CHOICE_WORD = _words("none", "auto", "required")
_FUNCTION_CHOICE = {"type": _words("function"), "name?": str}
_CHOICE = OneOf(
    (
        _CHOICE_WORD,
        _FUNCTION_CHOICE,
        {"type": _words("allowed_tools"), "tools": Array(_FUNCTION_CHOICE), "mode": _CHOICE_WORD},
        {"type": _words("custom"), "name": str},  # an extension
    )
)
_FORMAT = _typed(
    {"type": _words("text")},
    {"type": _words("json_object")},
    {
        "type": _words("json_schema"),
        "name": str,
        "description": _or_null(str),
        "schema": _or_null(dict),
        "strict": bool,
    },
)
_USAGE = {
    "input_tokens": int,
    "output_tokens": int,
    "total_tokens": int,
    "input_tokens_details": {"cached_tokens": int},
    "output_tokens_details": {"reasoning_tokens": int},
}
RESPONSE: dict[str, Any] = {
    "id": str,
    "object": _words("response"),
    "created_at": int,
    "completed_at": _or_null(int),
    "status": str,
    "incomplete_details": _or_null({"reason": str}),
    "model": str,
    "previous_response_id": _or_null(str),
    "instructions": _or_null(str),
    "output": Array(_ITEM),
    "error": _or_null({"code": str, "message": str}),
    "tools": Array(_TOOL),
    "tool_choice": _CHOICE,
    "truncation": _words("auto", "disabled"),
    "parallel_tool_calls": bool,
    "text": {"format": _FORMAT, "verbosity?": _words("low", "medium", "high")},
    "top_p": float,
    "presence_penalty": float,
    "frequency_penalty": float,
    "top_logprobs": int,
    "temperature": float,
    "reasoning": _or_null(
        {
            # `minimal` and `max` are OpenAI's; a reply repeats the value of its request.
            "effort": _or_null(_words("none", "minimal", "low", "medium", "high", "xhigh", "max")),
            "summary": _or_null(_words("concise", "detailed", "auto")),
        }
    ),
    "user": _or_null(str),
    "usage": _or_null(_USAGE),
    "max_output_tokens": _or_null(int),
    "max_tool_calls": _or_null(int),
    "store": bool,
    "background": bool,
    "service_tier": str,
    "metadata": dict,
    "safety_identifier": _or_null(str),
    "prompt_cache_key": _or_null(str),
}

COMPACTED: dict[str, Any] = {
    "id": str,
    "object": _words("response.compaction"),
    "created_at": int,
    # The items of the user keep the parts that they were sent with.
    "output": Array({"type": str, "id": str}),
    "usage": _USAGE,
}
"""The reply of `POST /v1/responses/compact`."""

# --- events -----------------------------------------------------------------------------------------------------------

_AT = {"item_id": str, "output_index": int}
_IN_PART = _AT | {"content_index": int}
_IN_SUMMARY = _AT | {"summary_index": int}
_SNAPSHOT = {"response": RESPONSE}
_WHOLE_ITEM = {"output_index": int, "item": _or_null(_ITEM)}
_DELTA = {"delta": str, "obfuscation?": str}
EVENTS: dict[str, dict[str, Any]] = {
    "response.created": _SNAPSHOT,
    "response.queued": _SNAPSHOT,
    "response.in_progress": _SNAPSHOT,
    "response.completed": _SNAPSHOT,
    "response.failed": _SNAPSHOT,
    "response.incomplete": _SNAPSHOT,
    "response.output_item.added": _WHOLE_ITEM,
    "response.output_item.done": _WHOLE_ITEM,
    "response.content_part.added": _IN_PART | {"part": _PART},
    "response.content_part.done": _IN_PART | {"part": _PART},
    "response.output_text.delta": _IN_PART | _DELTA | {"logprobs": Array(_LOGPROB)},
    "response.output_text.done": _IN_PART | {"text": str, "logprobs": Array(_LOGPROB)},
    "response.output_text.annotation.added": _IN_PART | {"annotation_index": int, "annotation": _or_null(_ANNOTATION)},
    "response.refusal.delta": _IN_PART | _DELTA,
    "response.refusal.done": _IN_PART | {"refusal": str},
    "response.function_call_arguments.delta": _AT | _DELTA,
    "response.function_call_arguments.done": _AT | {"arguments": str},
    "response.reasoning_summary_part.added": _IN_SUMMARY | {"part": _PART},
    "response.reasoning_summary_part.done": _IN_SUMMARY | {"part": _PART},
    "response.reasoning_summary_text.delta": _IN_SUMMARY | _DELTA,
    "response.reasoning_summary_text.done": _IN_SUMMARY | {"text": str},
    # The specification calls these `response.reasoning.*`. OpenAI's API and SDKs have the names below.
    "response.reasoning_text.delta": _IN_PART | _DELTA,
    "response.reasoning_text.done": _IN_PART | {"text": str},
    # Extensions.
    "response.custom_tool_call_input.delta": _AT | _DELTA,
    "response.custom_tool_call_input.done": _AT | {"input": str},
}


def check_response(raw: Any) -> None:
    """Judge a Response object. Raises GrammarError, which names the field."""
    _check(raw, RESPONSE, "response")


def check_compacted(raw: Any) -> None:
    """Judge the reply to a request to compact. Raises GrammarError, which names the field."""
    _check(raw, COMPACTED, "compacted")
    for index, item in enumerate(raw["output"]):
        if item["type"] == "message":
            _check(item, {"role": _words("user", "system", "developer"), "status": _STATUS, "content": list}, "message")
        else:
            _check(item, _ITEM, f"compacted.output[{index}]")
    if raw["output"][-1]["type"] != "compaction":
        raise GrammarError("the last item is no compaction")


def check_event(raw: Any) -> None:
    """Judge one event of a stream. Raises GrammarError, which names the field."""
    kind = raw.get("type") if type(raw) is dict else None
    if kind not in EVENTS:
        raise GrammarError(f"no event of the specification: {kind!r}")
    _check(raw, {"type": str, "sequence_number": int, **EVENTS[kind]}, kind)


def _check(value: Any, schema: Any, at: str) -> None:
    match schema:
        case dict():
            _check(value, dict, at)
            for name, member in schema.items():
                key = name.removesuffix("?")
                if key in value:
                    _check(value[key], member, f"{at}.{key}")
                elif key == name:
                    raise GrammarError(f"{at} lacks {key}")
        case Words(words):
            if type(value) is not str or value not in words:
                raise GrammarError(f"{at} is {value!r}, not one of {sorted(words)}")
        case Array(entry):
            _check(value, list, at)
            for index, member in enumerate(value):
                _check(member, entry, f"{at}[{index}]")
        case ByType(schemas, extensions):
            _check(value, dict, at)
            kind = value.get("type")
            if kind not in extensions:
                _check(kind, Words(frozenset(schemas)), f"{at}.type")
                _check(value, schemas[kind], at)
        case OneOf(schemas):
            _check_one(value, schemas, at)
        case None:
            if value is not None:
                raise GrammarError(f"{at} is {value!r}, not null")
        case _:
            # A whole number is a number; a boolean is neither.
            kinds = (int, float) if schema is float else (schema,)
            if type(value) not in kinds:
                raise GrammarError(f"{at} is {value!r}, not {schema.__name__}")


def _check_one(value: Any, schemas: tuple[Any, ...], at: str) -> None:
    errors = []
    for schema in schemas:
        try:
            return _check(value, schema, at)
        except GrammarError as error:
            errors.append(str(error))
    raise GrammarError("; or ".join(errors))
