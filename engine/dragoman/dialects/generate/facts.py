"""The facts about Gemini's `generateContent`."""

from __future__ import annotations

from typing import Final

from dragoman.dialects.facts import ReplySigns, RequestSigns, WireFacts
from dragoman.dialects.generate.count_tokens import COUNT

FACTS: Final = WireFacts(
    name="Gemini",
    maker="Google",
    api="generateContent",
    vendor="gemini",
    model_names=("gemini*",),
    client=False,
    path="models/{model}:generateContent",
    stream_path="models/{model}:streamGenerateContent?alt=sse",
    names_target=False,
    instructions="systemInstruction",
    conversation="contents",
    stop_path=("generationConfig", "stopSequences"),
    signs=RequestSigns(fields=frozenset(("generationConfig", "safetySettings", "systemInstruction", "toolConfig"))),
    base_url="https://generativelanguage.googleapis.com",
    version="v1beta",
    base_ends=("v1", "v1alpha", "v1beta1", "publishers/google"),
    key_header="x-goog-api-key",
    key_variable="GEMINI_API_KEY",
    sdk_package="@ai-sdk/google",
    count=COUNT,
    list_query="pageSize=1000",
    list_cursor="pageToken",
    content=("candidates", 0, "content", "parts"),
    model_field="modelVersion",
    reply_signs=ReplySigns(fields=frozenset(("candidates", "promptFeedback"))),
    request_id_header="",  # the id is in the body
    flags_failed_results=True,
    reasoning_types=("part",),
    proof="signature",
    citation="",
)
