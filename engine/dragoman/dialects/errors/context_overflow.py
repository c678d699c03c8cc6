"""Context overflow as told by whoever serves the model, and as Claude Code wants to hear it.

OpenAI gives it a code. Anthropic gives it only a sentence, and compatible servers give a sentence each. Agents start
their compaction by it: Codex by the code `context_length_exceeded`, Claude Code by a message that begins
`prompt is too long: N tokens > M maximum`, other wordings do not (mapping §10.2).
"""

from __future__ import annotations

import re
from dataclasses import replace

from dragoman.errors import Failure, FailureKind
from dragoman.reply_context import ReplyContext

HEAD = "prompt is too long"
MARGIN = 10
"""Estimated sizes differ by a tenth: as far as the estimate may be off, and about what Claude Code takes away where it
is told no sizes. It drops its oldest rounds until they make up the difference, and asks again. Where 85 % of its prompt
had room it was refused 5 times with a difference of one token, 3 times with a tenth, twice with the real one; where
60 % had, 10, 5 and 2 times (2.1.329). With a fifth it would be 2 and 3 times, for more rounds lost than need be."""

# Sentences of Anthropic, OpenAI, vLLM, SGLang, llama.cpp, Ollama, Gemini, Mistral, xAI, Bedrock, DashScope, Moonshot,
# GLM, MiniMax and Copilot, and the name of LiteLLM's exception, which it puts before them. Limits per minute ("Request
# too large … tokens per min") are rate limits and match none.
_SAYS = re.compile(
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
    """Whether the sentence says that the prompt did not fit into the model's context."""
    return _SAYS.search(message) is not None


def sizes(message: str) -> tuple[int, int] | None:
    """What was asked for and what the maximum is, where the sentence gives both and they make sense."""
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


def sized(failure: Failure, context: ReplyContext) -> Failure:
    """A failure for the client, with sizes where the upstream gave none and the knob `overflow_sizes` asks for them.

    They are the gateway's estimate of the prompt and the model's window, or where that is unknown a tenth less.
    """
    if context.knobs.overflow_sizes != "estimate" or failure.kind is not FailureKind.CONTEXT_LENGTH:
        return failure
    if sizes(failure.message) is not None:
        return failure
    most = context.profile.context_window
    asked = max(context.input_estimate, most, 2)
    margin = max(asked // MARGIN, 1)
    if most:  # the estimate is rather too low than too high, and a window that was passed is no estimate
        asked += margin
    else:
        most = asked - margin
    message = f"{HEAD}: {asked} tokens > {most} maximum (estimated by the gateway; {failure.message})"
    return replace(failure, message=message)


def as_prompt_too_long(message: str) -> str:
    """The message for a Messages client: it begins `prompt is too long`, and the upstream's own text is kept behind."""
    known = sizes(message)
    head = f"{HEAD}: {known[0]} tokens > {known[1]} maximum" if known else HEAD
    if message.startswith(head):
        return message
    if found := re.search(re.escape(head), message, re.IGNORECASE):
        # Already there, behind a router's prefix: the two change places.
        before = message[: found.start()].strip(" :-\n")
        return f"{head}{message[found.end() :]}" + (f" ({before})" if before else "")
    return f"{head} ({message})"
