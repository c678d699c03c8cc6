"""Context overflow: recognizing the error that a prompt is too long, and writing it for Claude Code (mapping §10.2).

OpenAI has a code for it. Anthropic and compatible servers have only sentences, and each server has its own. Agents
compact their history on this error: Codex on the code `context_length_exceeded`, Claude Code only on a message that
begins `prompt is too long: N tokens > M maximum`.
"""

from __future__ import annotations

import re
from dataclasses import replace

from dragoman.errors import Failure, FailureKind
from dragoman.reply_context import ReplyContext

PROMPT_TOO_LONG = "prompt is too long"
MARGIN = 10
"""Estimated sizes exceed the limit by one part in `MARGIN`, a tenth. The estimate may be off by as much, and Claude
Code removes about as much if the message has no sizes.

Claude Code drops its oldest rounds until they make up the difference, and asks again. If 85 % of its prompt fitted, it
was rejected 5 times with a difference of one token, 3 times with a tenth, twice with the real one; if 60 % fitted, 10,
5 and 2 times (version 2.1.329). A fifth would need 2 and 3 times, and lose more rounds than necessary."""

# Sentences of Anthropic, OpenAI, vLLM, SGLang, llama.cpp, Ollama, Gemini, Mistral, xAI, Bedrock, DashScope, Moonshot,
# GLM, MiniMax and Copilot, and the name of LiteLLM's exception, which it puts before them. Limits per minute ("Request
# too large … tokens per min") are rate limits and match none.
_OVERFLOW = re.compile(
    r"prompt (?:is )?too long"
    r"|input length and `?max_tokens`? exceed context limit"
    r"|maximum context length|maximum prompt length|maximum model length|model's context length"
    r"|exceeds? (?:the |this |your )?(?:model'?s? )?(?:available |maximum |max )?context[ _]"
    r"(?:window|size|length|limit)"
    r"|context[ _](?:window|size|length|limit) (?:is |was |has been )?exceed"
    r"|input tokens exceed the configured limit"
    r"|input is too long for requested model"
    r"|exceeds the maximum number of tokens allowed"
    r"|exceeded model token limit"
    r"|prompt exceeds max length"
    r"|range of input length should be"
    r"|prompt token count of \d+ exceeds"
    r"|\bcontextwindowexceedederror\b",
    re.IGNORECASE,
)

_N = r"(?P<n>\d[\d,]{0,14})"
_M = r"(?P<m>\d[\d,]{0,14})"
# Gaps are bounded: the texts are an upstream's, and an unbounded gap costs quadratic time on hostile ones.
_NUMBERS = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        rf"{_N} tokens? > {_M}",
        rf"exceed context limit: {_N} \+ (?P<more>\d{{1,15}}) > {_M}",
        rf"\({_N} > {_M} - (?P<both>\d{{1,15}})\)",
        rf"passed {_N} input tokens and requested (?P<more>\d{{1,15}}) output.{{0,80}}?context length is only {_M}",
        rf"(?:maximum|max) (?:context|prompt|model) length (?:is|of) {_M}.{{0,80}}?"
        rf"(?:requested(?: about| a total of)?|resulted in|request contains|request has) {_N}",
        rf"configured limit of {_M} tokens.{{0,80}}?resulted in {_N}",
        rf"token limit: {_M} \(requested: {_N}\)",
        rf"(?:length|input|request|count|count of|contains) \(?{_N}\)?.{{0,90}}?"
        rf"(?:context size \(|context length \(|model length of |allowed \(|limit of |model with ){_M}",
    )
)


def is_overflow(message: str) -> bool:
    """True if an error's message reports that the prompt did not fit into the model's context."""
    return _OVERFLOW.search(message) is not None


def read_sizes(message: str) -> tuple[int, int] | None:
    """Return the requested and the maximum number of tokens, or None unless the message has both and they fit."""
    for pattern in _NUMBERS:
        if not (found := pattern.search(message)):
            continue
        parts = {key: int(value.replace(",", "")) for key, value in found.groupdict().items() if value}
        asked, most = parts["n"] + parts.get("both", 0), parts["m"]
        if asked <= most:
            asked += parts.get("more", 0)
        if asked > most:
            return asked, most
    return None


def add_sizes(failure: Failure, context: ReplyContext) -> Failure:
    """Return `failure` with estimated sizes, if it is a context overflow without any and `overflow_sizes = estimate`.

    The sizes are the gateway's estimate of the prompt and the model's context window; if that is unknown, a tenth less
    than the estimate. Any other failure is returned unchanged.
    """
    if context.knobs.overflow_sizes != "estimate" or failure.kind is not FailureKind.CONTEXT_LENGTH:
        return failure
    if read_sizes(failure.message) is not None:
        return failure
    most = context.profile.context_window
    asked = max(context.input_estimate, most, 2)
    margin = max(asked // MARGIN, 1)
    if most:  # the estimate tends to be too low, and the prompt is known to exceed the window
        asked += margin
    else:
        most = asked - margin
    message = f"{PROMPT_TOO_LONG}: {asked} tokens > {most} maximum (estimated by the gateway; {failure.message})"
    return replace(failure, message=message)


def as_prompt_too_long(message: str) -> str:
    """Return the message for a Messages client: it begins `prompt is too long` and ends with the upstream's text."""
    known = read_sizes(message)
    head = f"{PROMPT_TOO_LONG}: {known[0]} tokens > {known[1]} maximum" if known else PROMPT_TOO_LONG
    if message.startswith(head):
        return message
    if found := re.search(re.escape(head), message, re.IGNORECASE):
        # The sentence follows a router's prefix: put it first.
        before = message[: found.start()].strip(" :-\n")
        return f"{head}{message[found.end() :]}" + (f" ({before})" if before else "")
    return f"{head} ({message})"
