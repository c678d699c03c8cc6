"""The canonical request to a Responses request body for an upstream (mapping §7, §8.1, §8.2).

Only fields named here are written, in a fixed order, so that equal requests have equal bytes.
"""

from __future__ import annotations

from typing import Final

from dragoman.canonical.request import Json, Request, Thinking
from dragoman.dialects.openai.refused_fields import leave_out, note
from dragoman.dialects.openai.request_settings import (
    add_tools,
    fit_effort,
    output_cap,
    schema_fields,
    write_sampling,
    write_service,
)
from dragoman.dialects.responses.request.write_input import write_input
from dragoman.dialects.responses.request.write_tools import ToolsWriter
from dragoman.dialects.responses.stop_and_usage import DIALECT
from dragoman.dialects.shared.effort import drop_budget
from dragoman.dialects.shared.merge_users import join_users
from dragoman.errors import Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.tools.names import NameTable

_LEAST_CAP: Final = 16
_VERBOSITY: Final = "verbosity"
_NO_ENVELOPES: Final = "chat"
"""The dialect whose clients do not send encrypted reasoning back."""


def write_request(
    request: Request, *, model: str, profile: Profile, knobs: Knobs, losses: Losses, names: NameTable
) -> Json:
    """Return the body to send upstream. Renamed tools are added to `names`; the reply restores their names.

    Raises `Unsupported` for a field of the client that the upstream cannot express, `ClientRequestError` if no content
    is left.
    """
    tools_writer = ToolsWriter(request, profile, knobs, losses, names)
    tools = tools_writer.write_declared() if request.tools else []
    choice = tools_writer.write_choice(tools) if request.tool_choice is not None else None
    instructions, items = write_input(request, tools_writer, profile, knobs, losses, names)
    if profile.strict_alternation:
        at = "input" if request.origin == "responses" else "messages"
        items = join_users(items, "input_text", (at,), losses)
    body: Json = {"model": model}
    if instructions is not None:
        body["instructions"] = instructions
    body["input"] = items
    if tools:
        add_tools(body, tools, choice, request, profile, losses)
    if request.max_tokens is not None:
        cap = output_cap(request, request.max_tokens, profile, losses)
        if cap < _LEAST_CAP:
            raised = f"raised from {cap} to {_LEAST_CAP}, the least that the API takes"
            losses.add(LossCode.CAP_RAISED, request.max_tokens_at or ("max_tokens",), raised)
            cap = _LEAST_CAP
        body["max_output_tokens"] = cap
    write_sampling(body, request, profile, losses, chat=False)
    if request.top_k is not None:
        losses.add(LossCode.TOP_K, ("top_k",))
    if request.stop:
        _note_stop(request, knobs, losses)
    if request.thinking is not None:
        _write_reasoning(body, request.thinking, profile, losses)
    if request.format is not None or request.verbosity is not None:
        _write_text(body, request, profile, losses)
    _write_include(body, request, profile)
    write_service(body, request, DIALECT, profile, losses)
    if request.stream:
        body["stream"] = True
        if profile.stream_obfuscation:
            body["stream_options"] = {"include_obfuscation": False}  # its padding would be discarded
    if profile.refused_fields:
        leave_out(body, profile.refused_fields, request.origin, losses)
    return body


def _note_stop(request: Request, knobs: Knobs, losses: Losses) -> None:
    """Record losses of stop sequences. Responses has none; `stages.stop_sequences` applies them (mapping §7.2)."""
    for entry in request.stop:
        if not entry.strip():
            losses.add(LossCode.STOP_DROPPED, request.stop_at, "empty or whitespace only")
        elif knobs.stop_emulation != "on":
            losses.add(LossCode.STOP_DROPPED, request.stop_at, "the upstream takes none")


def _write_reasoning(body: Json, thinking: Thinking, profile: Profile, losses: Losses) -> None:
    reasoning: Json = {}
    drop_budget(thinking, losses)
    effort = thinking.effort
    if effort is not None:
        written = fit_effort(effort, thinking.at, profile, losses)
        if written is not None:
            reasoning["effort"] = written
    shown = thinking.display is not None and thinking.display != "omitted"
    if not profile.efforts and (thinking.summary is not None or shown):
        # A model without effort levels does not reason, and rejects a request for a summary.
        at = ("thinking", "display") if thinking.summary is None else ("reasoning", "summary")
        losses.add(LossCode.REASONING_MODE, at)
    elif thinking.summary is not None:
        reasoning["summary"] = thinking.summary
    elif shown:
        reasoning["summary"] = "auto"
        if thinking.display != "summarized":
            losses.add(LossCode.REASONING_MODE, ("thinking", "display"), "a summary was requested")
    if reasoning:
        body["reasoning"] = reasoning


def _write_text(body: Json, request: Request, profile: Profile, losses: Losses) -> None:
    text: Json = {}
    if (form := request.format) is not None:
        text["format"] = {"type": form.kind}
        if form.kind == "json_schema":
            text["format"] |= schema_fields(form, request.origin, profile)
            if form.schema is None:
                raise Unsupported(form.at, "a Responses upstream needs a schema for structured output")
    if (verbosity := request.verbosity) is not None:
        if _VERBOSITY in profile.refused_fields:
            note(_VERBOSITY, verbosity, request.origin, losses)
        else:
            text[_VERBOSITY] = verbosity
    if text:
        body["text"] = text


def _write_include(body: Json, request: Request, profile: Profile) -> None:
    include: list[str] = []
    encrypts = profile.encrypted_reasoning or profile.encrypts_on_request
    if encrypts and profile.efforts and request.origin != _NO_ENVELOPES:
        # Clients send it back, in an envelope if their dialect is another one (mapping §5.2).
        include.append("reasoning.encrypted_content")
    if request.logprobs:
        include.append("message.output_text.logprobs")
    if include:
        body["include"] = include
    if request.top_logprobs is not None:
        body["top_logprobs"] = request.top_logprobs
