"""The keys of Chat replies that are read, at every level, and the extra ones of vendors that are used (mapping §9.1).

Every other key with a value is recorded, once for each path. A key that is read here but has no effect holds no
information for a client: ids, constants, sums of other counts, the `message` of a chunk (Perplexity), which repeats the
deltas.
"""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.events import Citation, Usage
from dragoman.canonical.request import Json
from dragoman.dialects.chat.extra_content import EXTRA_KEY, read_signed
from dragoman.dialects.chat.stop_and_usage import DIALECT, MATCHED_STOP_KEYS, matched_stop, read_usage
from dragoman.dialects.shared.json_fields import record_unknown
from dragoman.dialects.shared.service_report import STATED, ReportHolder, note_billing, note_tier, record_stated
from dragoman.errors import Path
from dragoman.losses import LossCode, Losses
from dragoman.reply_context import ReplyContext

# fmt: off
BODY: Final = frozenset((
    "id", "object", "created", "model", "choices", "usage", "system_fingerprint", "service_tier", "obfuscation",
))
CHOICE: Final = frozenset((
    "index", "delta", "message", "finish_reason", "logprobs", "stop_reason", "matched_stop",
))
CHOICE_USED: Final = CHOICE | {"usage"}
MESSAGE: Final = frozenset((
    "role", "content", "refusal", "reasoning", "reasoning_content", "reasoning_details", "thinking_blocks", "audio",
    "thinking", "reasoning_text", "function_call", "tool_calls", "annotations", "images", "extra_content",
))
CALL: Final = frozenset(("index", "id", "type", "function", "custom", "extra_content"))
CALL_BODY: Final = frozenset(("name", "arguments", "input"))
_USAGE: Final = frozenset((
    "prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details", "completion_tokens_details",
    "prompt_cache_hit_tokens", "prompt_cache_miss_tokens", "cached_tokens",
    "input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens",
))
_PROMPT: Final = frozenset((
    "cached_tokens", "cache_write_tokens", "cache_creation_tokens", "cache_creation_token_details", "text_tokens",
))
_COMPLETION: Final = frozenset(("reasoning_tokens", "text_tokens"))
# fmt: on
_ANNOTATION: Final = frozenset(("type", "url_citation"))
_URL_CITATION: Final = frozenset(("url", "title", "start_index", "end_index"))
_DETAILS: Final = (("prompt_tokens_details", _PROMPT), ("completion_tokens_details", _COMPLETION))
_USED: Final = BODY | {"citations", "search_results", "x_groq"}
_GROQ: Final = frozenset(("usage",))
_RESULT: Final = frozenset(("url", "title"))


def read_extras(body: Json, context: ReplyContext) -> None:
    """Read the keys of a chunk or a whole reply that are not in `BODY`, and record those without a use."""
    used = _USED
    if context.moderation_requested and type(moderation := body.get("moderation")) is dict:
        context.moderation, used = moderation, used | {"moderation"}
    if type(groq := body.get("x_groq")) is dict:
        record_unknown(groq, _GROQ, ("x_groq",), context.losses)
    record_unknown(body, used, (), context.losses)


def completion_text(choice: Json, context: ReplyContext) -> Json:
    """Return the message that the `text` of a legacy completion's choice means, with a row; `{}` without a text."""
    text = choice.get("text")
    if not text or type(text) is not str:
        return {}
    context.losses.add_once(LossCode.REPLY_REPAIRED, ("choices", 0, "text"), "a completion's text was read as content")
    return {"content": text}


def usage_elsewhere(body: Json, choice: Json) -> Any:
    """Return the usage that Kimi's servers have in the choice, and Groq's in `x_groq`; None without one.

    Sources: platform.moonshot.ai and console.groq.com, chat completions.
    """
    if usage := choice.get("usage"):
        return usage
    groq = body.get("x_groq")
    return groq.get("usage") if type(groq) is dict else None


def note_usage(usage: Any, at: Path, context: ReplyContext) -> None:
    """Note what a usage states in addition to the token counts, and record its other keys."""
    if type(usage) is not dict:
        return
    losses = context.losses
    if not _USAGE.issuperset(usage):
        note_billing(context, usage)
        record_stated(usage, STATED, at, losses)
        record_unknown(usage, _USAGE | STATED, at, losses)
    for key, known in _DETAILS:
        details = usage.get(key)
        if type(details) is dict:
            record_unknown(details, known, (*at, key), losses)


def note_service(body: Json, holder: ReportHolder) -> Usage | None:
    """Note tier, price and searches of a forwarded reply or chunk. Return the token counts, wherever they are."""
    if tier := body.get("service_tier"):
        note_tier(holder, tier)
    usage, choices = body.get("usage"), body.get("choices")
    if not usage:
        choice = choices[0] if type(choices) is list and choices else None
        usage = usage_elsewhere(body, choice if type(choice) is dict else {})
    if type(usage) is dict and not _USAGE.issuperset(usage):
        note_billing(holder, usage)
    return read_usage(usage)


def read_sources(body: Json, at: Path, losses: Losses) -> list[Citation]:
    """Return the web pages that Perplexity's and xAI's servers list next to the choices, each once.

    `citations` are URLs; `search_results` have titles too. Source: docs.perplexity.ai, docs.x.ai (live search).
    """
    titles: dict[str, str] = {}
    for key in ("search_results", "citations"):
        results = body.get(key)
        for result in results if type(results) is list else ():
            url: Any = result if key == "citations" else None
            title: Any = ""
            if type(result) is dict:
                url, title = result.get("url"), result.get("title")
                record_unknown(result, _RESULT, (*at, key), losses)
            if type(url) is str and url:
                titles.setdefault(url, title if type(title) is str else "")
    return [
        Citation(DIALECT, {"type": "url_citation", "url_citation": {"url": url, "title": title}}, url, title or None)
        for url, title in titles.items()
    ]


def record_unknown_annotation(annotation: Json, at: Path, losses: Losses) -> None:
    """Record the keys of a `url_citation` that other dialects lack. Other annotations are dropped as a whole."""
    body = annotation.get("url_citation")
    if annotation.get("type") == "url_citation" and type(body) is dict:
        record_unknown(annotation, _ANNOTATION, at, losses)
        record_unknown(body, _URL_CITATION, (*at, "url_citation"), losses)


def record_unsigned(holder: Json, at: Path, losses: Losses) -> None:
    """Record the `extra_content` of a message, a delta or a call that has no signature: it is not passed on."""
    if holder.get(EXTRA_KEY) and read_signed(holder) is None:
        losses.add_unknown((*at, EXTRA_KEY))


def read_matched_stop(choice: Json, context: ReplyContext) -> str | None:
    """Return the stop sequence that ended the reply, if it is one that was sent. Any other is recorded."""
    if context.sent_stops and (matched := matched_stop(choice, context.sent_stops)) is not None:
        return matched
    for key in MATCHED_STOP_KEYS:
        if choice.get(key):
            context.losses.add_unknown(("choices", 0, key))
    return None


def record_unknown_call(call: Json, at: Path, losses: Losses) -> None:
    """Record the unknown keys of a call and of its function."""
    record_unknown(call, CALL, at, losses)
    if EXTRA_KEY in call:
        record_unsigned(call, at, losses)
    for kind in ("function", "custom"):
        if type(body := call.get(kind)) is dict and not CALL_BODY.issuperset(body):
            record_unknown(body, CALL_BODY, (*at, kind), losses)
