"""The clouds: how their hosts are addressed, and what they refuse beyond the types of the SDK.

The fields of requests are checked as those of other vendors (`strict_host`). This adds the URL, the query, the headers
and the fields that belong to a cloud's addressing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dragoman.dialects import Dialect
from vendors.hosts import Host

CHAT, MESSAGES, RESPONSES, GENERATE = Dialect

_CLAUDE = "anthropic.types.beta.message_create_params:MessageCreateParams"
_OPENAI = "openai.types.responses.response_create_params:ResponseCreateParams"
_OPENAI_CHAT = "openai.types.chat.completion_create_params:CompletionCreateParams"
_CODEX = "https://developers.openai.com/codex/amazon-bedrock"
_CODEX_FIELDS = dict.fromkeys(
    (
        "client_metadata",
        "input[].id",
        "input[].status",
        "input[].content",
        "input[].content[].type",
        "tools[].search_content_types",
    ),
    _CODEX,
)
"""Fields of Codex that the SDK's types do not have. Codex sends them to each of its providers."""
_VERTEX_BETAS = (
    "compact-2026-01-12",
    "computer-use-2025-11-24",
    "context-management-2025-06-27",
    "dangerous-tool-use-2026-09-03",
    "interleaved-thinking-2025-05-14",
    "per-turn-control-2026-07-01",
    "thinking-binding-controls-2026-08-01",
    "thinking-display-updates-2026-08-18",
    "tool-search-tool-2025-10-19",
    "web-search-2025-03-05",
)
_BEDROCK_BETAS = (
    *_VERTEX_BETAS,
    "claude-code-20250219",
    "context-1m-2025-08-07",
    "effort-2025-11-24",
    "mid-conversation-tool-changes-2026-07-01",
)


@dataclass(frozen=True)
class Cloud:
    """A cloud in one dialect. `host` has its page, its profile, the types of its requests and the form of its errors.

    `path` is a pattern of the whole path, whose group `model` is the model of the request and whose group `verb` is
    `stream` for streams. `query` is the whole query.
    """

    host: Host
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Header → pattern of its value."""
    fields: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Top-level fields and their only values."""
    betas: tuple[str, ...] | None = None
    """The betas that it takes; None for all."""
    signed: str = ""
    """The end of the scope of its signatures, for requests that are signed."""
    by_sdk: bool = False
    """The vendor's SDK has a client for it, which is the judge of `conformance/test_cloud_sdks.py`."""

    @property
    def name(self) -> str:
        """The page and the dialect, for test ids."""
        return self.host.name


def _cloud(page: str, profile: str, dialect: Dialect, path: str, *, types: str, **more: Any) -> Cloud:
    names = ("also", "never", "header", "error", "reasoning")
    host = Host(page, profile, dialect, "/", types, **{name: more.pop(name) for name in names if name in more})
    return Cloud(host, path, **more)


_PLACE = "/v1/projects/my-project/locations/[a-z0-9-]+"
_METHOD = "models/(?P<model>[^/:]+):(?P<verb>generateContent|streamGenerateContent)"
_EDITOR = {"editor-version": r"[a-z]+/[0-9.]+", "copilot-integration-id": r"[a-z-]+"}

CLOUDS: tuple[Cloud, ...] = (
    _cloud(
        "gemini",
        "gemini",
        GENERATE,
        f"/v1beta/{_METHOD}",
        types="",
        query="alt=sse",
        header="x-goog-api-key",
    ),
    _cloud("vertex", "gemini", GENERATE, f"{_PLACE}/publishers/google/{_METHOD}", types="", query="alt=sse"),
    _cloud("gemini", "gemini", CHAT, "/v1beta/openai/chat/completions", types=_OPENAI_CHAT),
    _cloud("vertex", "gemini", CHAT, f"{_PLACE}/endpoints/openapi/chat/completions", types=_OPENAI_CHAT),
    _cloud(
        "vertex",
        "vertex",
        MESSAGES,
        f"{_PLACE}/publishers/anthropic/models/(?P<model>[^/:]+):(?P<verb>rawPredict|streamRawPredict)",
        types=_CLAUDE,
        error="anthropic",
        also=dict.fromkeys(
            ("anthropic_version", "anthropic_beta"),
            "https://cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/use-claude",
        ),
        fields={"anthropic_version": "vertex-2023-10-16"},
        betas=_VERTEX_BETAS,
        by_sdk=True,
    ),
    _cloud("azure", "azure", RESPONSES, "/openai/v1/responses", types=_OPENAI, also=_CODEX_FIELDS, by_sdk=True),
    _cloud(
        "azure",
        "azure",
        CHAT,
        "/openai/deployments/my-gpt-5/chat/completions",
        types=_OPENAI_CHAT,
        query="api-version=2024-10-21",
        header="api-key",
        by_sdk=True,
    ),
    _cloud(
        "azure",
        "azure",
        MESSAGES,
        "/anthropic/v1/messages",
        types=_CLAUDE,
        query="beta=true",
        header="x-api-key",
        error="anthropic",
        headers={"anthropic-version": "20[0-9-]+"},
        by_sdk=True,
    ),
    _cloud(
        "bedrock",
        "amazon-bedrock",
        MESSAGES,
        "/anthropic/v1/messages",
        types=_CLAUDE,
        query="beta=true",
        error="anthropic",
        headers={"anthropic-version": "20[0-9-]+"},
        betas=_BEDROCK_BETAS,
        signed="/us-east-1/bedrock/aws4_request",
        by_sdk=True,
    ),
    _cloud(
        "bedrock",
        "amazon-bedrock",
        RESPONSES,
        "/openai/v1/responses",
        types=_OPENAI,
        also=_CODEX_FIELDS,
        signed="/us-east-1/bedrock/aws4_request",
        by_sdk=True,
    ),
    _cloud(
        "copilot",
        "copilot",
        MESSAGES,
        "/v1/messages",
        types=_CLAUDE,
        error="anthropic",
        never=dict.fromkeys(("context_management", "safeguards"), "https://github.com/ericc-ch/copilot-api/issues/217"),
        headers=_EDITOR,
        betas=(),
    ),
    _cloud("copilot", "copilot", CHAT, "/chat/completions", types=_OPENAI_CHAT, headers=_EDITOR),
    _cloud(
        "chatgpt",
        "chatgpt",
        RESPONSES,
        "/backend-api/codex/responses",
        types=_OPENAI,
        also=_CODEX_FIELDS,
        never=dict.fromkeys(
            ("max_output_tokens", "temperature", "top_p", "metadata", "truncation"),
            "https://github.com/askalf/dario/issues/1009",
        ),
        fields={"store": False, "stream": True},
    ),
)
