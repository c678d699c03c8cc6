"""Stop reasons in the words of all vendors, for a reply whose word is not one of its dialect.

Servers that translate a vendor's API often forward that vendor's word as it is. Words are compared without case,
separators and a prefix such as `FINISH_REASON_`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dragoman.canonical.events import StopReason
from dragoman.canonical.parts import Part, Reasoning, Text
from dragoman.dialects.errors.redact import quote_word
from dragoman.errors import Failure, FailureKind, UpstreamProtocolError, UpstreamStatusError

_R, _K = StopReason, FailureKind

_LONGEST: Final = 64
"""Characters. No known word is longer."""

_REASONS: Final[tuple[tuple[StopReason, str], ...]] = (
    # Chat, Messages and Responses: the tables of docs/reference/mapping/9-replies.md
    (_R.END, "stop end_turn completed"),
    (_R.STOP_SEQUENCE, "stop_sequence"),
    (_R.TOOL_CALLS, "tool_calls function_call tool_use"),
    (_R.LENGTH, "length max_tokens max_output_tokens"),
    (_R.CONTEXT, "model_context_window_exceeded"),
    (_R.FILTERED, "content_filter refusal"),
    (_R.PAUSED, "pause_turn"),
    (_R.POLICY_CUT, "compaction"),
    # Gemini: `Candidate.FinishReason` and `BlockReason` in ai.google.dev/api/generate-content and Vertex's reference
    (_R.FILTERED, "safety recitation language blocklist prohibited_content spii escalation model_armor jailbreak"),
    (_R.FILTERED, "image_safety image_prohibited_content image_recitation"),
    (_R.POLICY_CUT, "too_many_tool_calls continuation"),
    # Bedrock: `stopReason` of Converse; Titan's `completionReason`
    (_R.FILTERED, "guardrail_intervened content_filtered"),
    (_R.END, "finish finished"),
    (_R.STOP_SEQUENCE, "stop_criteria_met"),
    # Cohere: `finish_reason` of its API, v1 and v2
    (_R.END, "complete"),
    (_R.TOOL_CALLS, "tool_call"),
    (_R.CONTEXT, "error_limit"),
    (_R.FILTERED, "error_toxic"),
    # watsonx: `stop_reason` in cloud.ibm.com/apidocs/watsonx-ai
    (_R.END, "eos_token"),
    (_R.LENGTH, "token_limit"),
    # text-generation-inference, llama.cpp and their descendants; LM Studio's `stopReason`
    (_R.END, "eos eos_found end_of_text endoftext"),
    (_R.STOP_SEQUENCE, "stop_string_found"),
    (_R.LENGTH, "limit max_new_tokens max_completion_tokens max_length max_predicted_tokens_reached"),
    (_R.CONTEXT, "context_length context_length_exceeded context_length_reached context_window_exceeded"),
    # Mistral: `FinishReason` in its OpenAPI document
    (_R.LENGTH, "model_length"),
    # GLM: docs.bigmodel.cn, chat completions; DashScope: alibabacloud.com/help/en/model-studio/error-code
    (_R.FILTERED, "sensitive data_inspection_failed"),
    # xAI: `FinishReason` in its protocol buffers
    (_R.LENGTH, "max_len"),
    (_R.CONTEXT, "max_context"),
    # GigaChat and YandexGPT: their API references
    (_R.FILTERED, "blacklist"),
    (_R.END, "alternative_status_final"),
    (_R.LENGTH, "alternative_status_truncated_final truncated"),
    (_R.FILTERED, "alternative_status_content_filter"),
    (_R.TOOL_CALLS, "alternative_status_tool_calls"),
    # Routers and filters in front of several vendors, in public reports
    (_R.FILTERED, "filtered blocked moderated moderation content_policy content_policy_violation policy_violation"),
)
_FAILURES: Final[tuple[tuple[FailureKind, int, str], ...]] = (
    # Mistral and OpenRouter; Cohere; watsonx; the status of a Responses reply
    (_K.API, 502, "error failed failure server_error internal_error internal_server_error"),
    (_K.API, 502, "cancelled canceled user_cancel user_stopped interrupted"),
    (_K.TIMEOUT, 504, "timeout time_limit time_out"),
    # vLLM and SGLang: `FinishReason` in their code. A repetition is a loop that the server cut off.
    (_K.API, 502, "abort aborted repetition repetition_detected"),
    # Gemini: the model's output is unusable; https://ai.google.dev/api/generate-content
    (_K.API, 502, "malformed_function_call malformed_response unexpected_tool_call"),
    (_K.INVALID_REQUEST, 400, "missing_thought_signature"),
    (_K.PERMISSION, 403, "pup_limited_disabled"),
    # Bedrock: `stopReason` of Converse
    (_K.API, 502, "malformed_model_output malformed_tool_use"),
    # GLM: docs.bigmodel.cn, where it means that inference failed; litellm#23386. LM Studio. GigaChat
    (_K.API, 502, "network_error model_unloaded function_call_error"),
    # DeepSeek's reference: the reply was interrupted
    (_K.OVERLOADED, 503, "insufficient_system_resource overloaded"),
    (_K.RATE_LIMIT, 429, "rate_limit rate_limited rate_limit_exceeded"),
)


def _plain(word: str) -> str:
    plain = "".join(filter(str.isalnum, word)).casefold()
    for prefix in ("finishreason", "stopreason", "reason"):
        plain = plain.removeprefix(prefix)
    return plain


_BY_WORD: Final = {_plain(word): reason for reason, words in _REASONS for word in words.split()}
_BY_FAILURE: Final = {_plain(word): (kind, status) for kind, status, words in _FAILURES for word in words.split()}


def read_stop_word(native: str, field: str) -> StopReason | None:
    """Return the reason that a vendor's word means, or None if it is unknown.

    Raises `UpstreamStatusError` for a word that reports an interrupted reply, which must not look complete. `field` is
    the name of the field that holds it, for the message.
    """
    if len(native) > _LONGEST:
        return None
    plain = _plain(native)
    if (failure := _BY_FAILURE.get(plain)) is not None:
        kind, status = failure
        raise UpstreamStatusError(Failure(kind, f"upstream broke the reply off with {field} {native!r}", status))
    return _BY_WORD.get(plain)


def is_shown(parts: Iterable[Part]) -> bool:
    """True if the parts of a complete reply contain anything else than reasoning and empty texts."""
    for part in parts:  # noqa: SIM110 - a generator costs three times as much
        if type(part) is not Reasoning and (type(part) is not Text or part.text):
            return True
    return False


def check_shown(native: str | None, field: str, *, shown: bool) -> None:
    """Raise `UpstreamProtocolError` if nothing is shown of a reply whose stop reason is missing or unknown.

    Agents take it for an empty turn, and repeat the request for ever.
    """
    if not shown:
        word = f"the unknown {field} {quote_word(native)!r}" if native else f"no {field}"
        raise UpstreamProtocolError(f"upstream ended a reply without content, with {word}")
