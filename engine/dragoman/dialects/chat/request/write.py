"""Writes a canonical `Request` as a Chat request body for an upstream (mapping §7, §8.2, §8.3).

Only known fields are written, in a fixed order, so that equal requests become equal bytes.
"""

from __future__ import annotations

from dragoman.canonical.request import Json, Request
from dragoman.dialects.chat.request.write_messages import write_messages
from dragoman.dialects.chat.request.write_tools import WrittenTools, write_tools
from dragoman.dialects.chat.stop_and_usage import DIALECT
from dragoman.dialects.openai.prompt_cache_fields import write_chat_options
from dragoman.dialects.openai.refused_fields import leave_out
from dragoman.dialects.openai.request_settings import (
    add_tools,
    fit_effort,
    output_cap,
    schema_fields,
    write_sampling,
    write_service,
)
from dragoman.dialects.shared.effort import drop_budget
from dragoman.dialects.shared.merge_users import join_users
from dragoman.errors import Path, Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.tools.names import NameTable

_SWITCHES: dict[str, tuple[object, object]] = {
    "thinking": ({"type": "disabled"}, {"type": "enabled"}),
    "enable_thinking": (False, True),
    # Chat templates have one of two names for it, and ignore the other.
    "chat_template_kwargs": (
        {"enable_thinking": False, "thinking": False},
        {"enable_thinking": True, "thinking": True},
    ),
}
"""Field → its values for reasoning off and on."""


_NO_TOOLS = WrittenTools([], None, None)


def write_request(
    request: Request, *, model: str, profile: Profile, knobs: Knobs, losses: Losses, names: NameTable
) -> Json:
    """Return the body to send upstream. Renamed tools are added to `names`, which the reply's reader reverses.

    Stop sequences beyond `profile.stop_limit` are recorded as lost, unless they are emulated.
    Raises `Unsupported` for content and settings that the upstream does not support, with the client's field.
    """
    tools = _NO_TOOLS
    if request.tools or request.tool_choice is not None:
        tools = write_tools(request, profile, knobs, losses, names)
    messages = write_messages(request, profile, knobs, losses, names)
    if profile.strict_alternation:
        at = "input" if request.origin == "responses" else "messages"
        messages = join_users(messages, "text", (at,), losses)
    body: Json = {"model": model, "messages": messages}
    if tools.tools:
        add_tools(body, tools.tools, tools.choice, request, profile, losses)
    if tools.web_search is not None:
        body["web_search_options"] = tools.web_search
    if request.max_tokens is not None:
        body[profile.max_tokens_field] = output_cap(request, request.max_tokens, profile, losses)
    _write_sampling(body, request, profile, losses)
    if request.stop:
        _write_stop(body, request, profile, knobs, losses)
    if request.thinking is not None or tools.tools or profile.thinking_field == "reasoning_split":
        _write_thinking(body, request, tools, profile, losses)
    if (form := request.format) is not None:
        body["response_format"] = {"type": form.kind}
        if form.kind == "json_schema":
            body["response_format"]["json_schema"] = schema_fields(form, request.origin, profile)
    if request.verbosity is not None:
        body["verbosity"] = request.verbosity
    write_service(body, request, DIALECT, profile, losses)
    if (cache := body.get("prompt_cache_options")) is not None:
        body["prompt_cache_options"] = write_chat_options(cache, losses)
    if request.stream:
        body["stream"] = True
        options: Json = {}
        if profile.stream_usage:  # the client's setting only decides what it receives (mapping §9.4)
            options["include_usage"] = True
        if profile.stream_obfuscation:  # padding would be discarded here (mapping §8.1)
            options["include_obfuscation"] = False
        if options:
            body["stream_options"] = options
    if profile.refused_fields:
        leave_out(body, profile.refused_fields, request.origin, losses)
    return body


def _write_sampling(body: Json, request: Request, profile: Profile, losses: Losses) -> None:
    write_sampling(body, request, profile, losses, chat=True)
    if request.top_k is not None:
        if profile.top_k:
            body["top_k"] = request.top_k
        else:
            losses.add(LossCode.TOP_K, ("top_k",))
    if request.logprobs:
        body["logprobs"] = True
    if request.top_logprobs is not None:
        body["top_logprobs"] = request.top_logprobs


def _write_stop(body: Json, request: Request, profile: Profile, knobs: Knobs, losses: Losses) -> None:
    sent = request.stop[: profile.stop_limit]
    if sent:
        body["stop"] = sent
    if knobs.stop_emulation != "on":
        for _ in request.stop[profile.stop_limit :]:
            losses.add(LossCode.STOP_DROPPED, request.stop_at, f"the upstream takes {profile.stop_limit}")


def _write_thinking(body: Json, request: Request, tools: WrittenTools, profile: Profile, losses: Losses) -> None:
    thinking = request.thinking
    effort = thinking.effort if thinking else None
    at = thinking.at if thinking else ()
    if thinking:
        drop_budget(thinking, losses)
        # Chat has no setting for which reasoning is shown; OpenAI omits it.
        if thinking.display is not None and thinking.display != "omitted":
            losses.add(LossCode.REASONING_MODE, ("thinking", "display"))
        if thinking.summary is not None:
            losses.add(LossCode.REASONING_MODE, ("reasoning", "summary"))
    if tools.tools and profile.tools_with_reasoning == "never":
        raise Unsupported(("tools",), "this model takes tools on its Responses surface only")
    if tools.tools and profile.tools_with_reasoning == "effort_none":
        # The field is required: such models reason by default (mapping §5.5).
        body["reasoning_effort"] = "none"
        if effort != "none":
            losses.add(LossCode.EFFORT_FLOOR, at or ("tools",), "no reasoning: the model takes tools only without it")
        return
    _write_effort(body, effort, at, profile, losses)


def _write_effort(body: Json, effort: str | None, at: Path, profile: Profile, losses: Losses) -> None:
    """Write the requested effort in the field that the upstream has for it. None means the upstream's default."""
    field = profile.thinking_field
    if field == "reasoning_split":  # else the text would contain the reasoning, between tags
        body[field] = True
    if effort is None:
        return
    if field in _SWITCHES:
        on = effort != "none"
        body[field] = _SWITCHES[field][on]
        if not on:
            return
        if not profile.efforts:
            losses.add(LossCode.EFFORT_ROUNDED, at, "the upstream has reasoning on and off, and no levels")
            return
    written = fit_effort(effort, at, profile, losses)
    if written is None:
        return
    if field == "reasoning":
        body[field] = {"effort": written}
    else:
        body["reasoning_effort"] = written
