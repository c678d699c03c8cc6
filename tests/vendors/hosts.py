"""The vendors' hosts: their endpoints, the types of their requests, and how their replies differ from those of others.

`types` are those of the vendor's own SDK where there is one. Where a vendor documents its API with OpenAI's or
Anthropic's SDK alone, they are that SDK's, and `never` has what its pages exclude.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dragoman.dialects import Dialect

CHAT, MESSAGES, RESPONSES = Dialect


@dataclass(frozen=True)
class Host:
    """A host of a vendor in one dialect. `page` names a file of docs/howto/vendors, `profile` the expected profile.

    `also` has paths that the host takes though the types do not have them, `never` paths that it refuses though they
    do, each with the source. In a path, `[]` stands for any index.
    """

    page: str
    profile: str
    dialect: Dialect
    endpoint: str
    types: str
    also: Mapping[str, str] = field(default_factory=dict, hash=False)
    never: Mapping[str, str] = field(default_factory=dict, hash=False)
    header: str = "authorization"
    """The header of the key: a Bearer token in `authorization`, else the key itself."""
    error: str = "openai"
    """The form of its errors, a key of `strict_host.ERRORS`."""
    reasoning: str = "reasoning_content"
    """Chat: the field of the reasoning in its replies; `content` for chunks of the content."""
    usage_at_end: bool = True
    """Chat: the last chunk with a choice has the usage, without a request for it."""
    call_ids: str = ""
    """Chat: the form of its call ids, as a pattern that it also checks in requests; empty = OpenAI's form."""
    seals: bool = False
    """Responses: gives encrypted reasoning if it is requested, and refuses what it did not encrypt itself."""

    @property
    def name(self) -> str:
        """The page and the dialect, for test ids."""
        return f"{self.page}-{self.dialect}"


_GROQ = "https://console.groq.com/docs/openai"
_CHAT_PARAMS = "types.chat.completion_create_params:CompletionCreateParams"

HOSTS: tuple[Host, ...] = (
    Host(
        page="groq",
        profile="groq",
        dialect=CHAT,
        endpoint="/openai/v1/chat/completions",
        types=f"groq.{_CHAT_PARAMS}",
        never=dict.fromkeys(("logprobs", "logit_bias", "top_logprobs", "messages[].name"), _GROQ),
        reasoning="reasoning",
    ),
    Host(
        page="cerebras",
        profile="cerebras",
        dialect=CHAT,
        endpoint="/v1/chat/completions",
        types=f"cerebras.cloud.sdk.{_CHAT_PARAMS}",
        error="cerebras",
        reasoning="reasoning",
    ),
    Host(
        page="mistral",
        profile="mistral",
        dialect=CHAT,
        endpoint="/v1/chat/completions",
        types="mistralai.client.models:ChatCompletionStreamRequest",
        error="mistral",
        reasoning="content",
        call_ids="[a-zA-Z0-9]{9}",
    ),
)
