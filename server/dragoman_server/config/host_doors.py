"""Addressing of hosts that differs from that of their dialect's vendor: the default of `config.door`'s settings.

Each entry is from the vendor's own SDK, from a page or from a report. What is configured goes before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from dragoman import Dialect
from dragoman_server.config.aws_host import bedrock_endpoint, bedrock_problem

_CHAT, _MESSAGES, _RESPONSES, _GENERATE = map(Dialect, ("chat", "messages", "responses", "generate"))


@dataclass(frozen=True)
class HostDoor:
    """The addressing of some hosts, for some dialects. `host` and `path` are patterns of the parts of a base URL."""

    shown: str
    """The base URL, for the documentation."""
    dialects: tuple[Dialect, ...]
    host: str
    path: str
    source: str
    key: str = ""
    """Header of an API key, a word of `AUTH_HEADERS`; empty for that of the dialect."""
    token: str = ""
    """Header of a token of `[providers.NAME.credential]`; empty for that of the dialect."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of `Door`."""


_SDKS: Final = "https://github.com/anthropics/anthropic-sdk-python/blob/main/src/anthropic/lib"
_VERTEX: Final = r"(?:.+-)?aiplatform(?:\.[a-z0-9-]+\.rep)?\.googleapis\.com"
_AZURE: Final = r"[^.]+\.(?:openai|services\.ai|cognitiveservices)\.azure\.com"
_AZURE_SDK: Final = "https://github.com/openai/openai-python/blob/main/src/openai/lib/azure.py"
_COPILOT: Final = r"(?:.+\.)?githubcopilot\.com"
_COPILOT_PROBE: Final = "https://github.com/pydantic/pydantic-ai/pull/8059"

_GENAI_SDK: Final = "https://github.com/googleapis/python-genai/blob/main/google/genai/_api_client.py"
_CHATGPT: Final = "https://github.com/askalf/dario/issues/1009"

BEDROCK: Final = HostDoor(
    "bedrock-*.REGION.*/anthropic",
    (_MESSAGES,),
    "",
    "",
    f"{_SDKS}/bedrock/_mantle.py",
    key="bearer",
    token="bearer",
)
"""Bedrock, whose hosts `bedrock_endpoint` recognizes."""

DOORS: Final = (
    HostDoor(
        "*aiplatform*.googleapis.com/…/publishers/anthropic",
        (_MESSAGES,),
        _VERTEX,
        r".*/publishers/anthropic",
        f"{_SDKS}/vertex/_client.py",
        key="bearer",
        token="bearer",
        settings={
            "path": "models/{model}:rawPredict",
            "stream_path": "models/{model}:streamRawPredict",
            "count_path": "models/count-tokens:rawPredict",
            "body": {"anthropic_version": "vertex-2023-10-16"},
            "omit": ("model",),
            "betas": "both",
        },
    ),
    HostDoor(
        "*aiplatform*.googleapis.com/…/publishers/google",
        (_GENERATE,),
        _VERTEX,
        r".*/publishers/google",
        _GENAI_SDK,
        token="bearer",
    ),
    HostDoor(
        "claude.googleapis.com/…/invoke",
        (_MESSAGES,),
        r"claude\.googleapis\.com",
        ".*",
        f"{_SDKS}/google_cloud/_client.py",
        key="bearer",
        token="bearer",
    ),
    HostDoor("*.azure.com/anthropic", (_MESSAGES,), _AZURE, ".*", f"{_SDKS}/foundry.py", token="bearer"),
    HostDoor(
        "*.azure.com/openai",
        (_CHAT,),
        _AZURE,
        "/openai",
        _AZURE_SDK,
        key="api-key",
        settings={"path": "deployments/{model}/chat/completions"},
    ),
    HostDoor(
        "*.azure.com/openai/deployments/NAME",
        (_CHAT,),
        _AZURE,
        "/openai/deployments/[^/]+",
        _AZURE_SDK,
        key="api-key",
    ),
    HostDoor("*.azure.com/openai", (_RESPONSES,), _AZURE, "/openai", _AZURE_SDK, key="api-key"),
    HostDoor("*.githubcopilot.com", (_CHAT,), _COPILOT, "", _COPILOT_PROBE, settings={"path": "chat/completions"}),
    HostDoor("*.githubcopilot.com", (_RESPONSES,), _COPILOT, "", _COPILOT_PROBE, settings={"path": _RESPONSES.path}),
    HostDoor("*.githubcopilot.com", (_MESSAGES,), _COPILOT, "", _COPILOT_PROBE, key="bearer", token="bearer"),
    HostDoor(
        "chatgpt.com/backend-api/codex",
        (_RESPONSES,),
        r"chatgpt\.com",
        "/backend-api/codex",
        _CHATGPT,
        settings={
            "body": {"store": False},
            "omit": ("max_output_tokens", "temperature", "top_p", "top_logprobs", "metadata", "truncation"),
        },
    ),
)
"""The hosts, without those of Bedrock."""

WITHOUT_VERSION: Final = frozenset(
    f"api.{plan}githubcopilot.com" for plan in ("", "individual.", "business.", "enterprise.")
)
"""Hosts whose endpoints have no /v1."""


def host_door(dialect: Dialect, base_url: str) -> HostDoor | None:
    """Return the addressing of the URL's host, or None if it is that of the dialect's vendor."""
    try:
        parts = urlsplit(base_url)
        host = parts.hostname or ""
    except ValueError:
        return None
    path = parts.path.rstrip("/")
    for door in DOORS:
        if dialect in door.dialects and re.fullmatch(door.host, host) and re.fullmatch(door.path, path):
            return door
    return BEDROCK if dialect is _MESSAGES and bedrock_endpoint(base_url) else None


def base_url_problem(dialect: Dialect, base_url: str) -> str | None:
    """Return why a cloud does not serve a dialect at this valid base URL, or None if nothing is known against it."""
    if wrong := bedrock_problem(base_url, messages=dialect is _MESSAGES):
        return wrong
    parts = urlsplit(base_url)
    publisher = {_MESSAGES: "anthropic", _GENERATE: "google"}.get(dialect)
    if publisher and re.fullmatch(_VERTEX, parts.hostname or "") and host_door(dialect, base_url) is None:
        place = f"v1/projects/PROJECT/locations/LOCATION/publishers/{publisher}"
        return f"is not where Vertex AI serves this dialect: write {parts.scheme}://{parts.netloc}/{place}"
    return None
