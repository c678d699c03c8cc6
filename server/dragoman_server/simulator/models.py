"""Response headers and model lists as the real services send them."""

from __future__ import annotations

from datetime import UTC, datetime

from dragoman_server.simulator.api import APIS
from dragoman_server.simulator.parse_request import Json


def reply_headers(dialect: str, request_id: str, now: float) -> dict[str, str]:
    """Return the headers that the real services send with every response."""
    if APIS[dialect].is_anthropic:
        reset = datetime.fromtimestamp(int(now) + 60, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        headers = {"request-id": request_id, "anthropic-organization-id": "00000000-0000-4000-8000-000000000001"}
        for kind, limit in _ANTHROPIC_LIMITS:
            headers[f"anthropic-ratelimit-{kind}-limit"] = str(limit)
            headers[f"anthropic-ratelimit-{kind}-remaining"] = str(limit - 1)
            headers[f"anthropic-ratelimit-{kind}-reset"] = reset
        return headers
    return {"x-request-id": request_id, **_OPENAI_HEADERS}


_ANTHROPIC_LIMITS = (("requests", 4000), ("tokens", 480_000), ("input-tokens", 400_000), ("output-tokens", 80_000))
_OPENAI_HEADERS = {
    "openai-organization": "simulated-org",
    "openai-processing-ms": "7",
    "openai-version": "2020-10-01",
    "x-ratelimit-limit-requests": "10000",
    "x-ratelimit-limit-tokens": "2000000",
    "x-ratelimit-remaining-requests": "9999",
    "x-ratelimit-remaining-tokens": "1999988",
    "x-ratelimit-reset-requests": "6ms",
    "x-ratelimit-reset-tokens": "1m0s",
}


def openai_model(name: str) -> Json:
    """Return a `Model` of OpenAI's list."""
    return {"id": name, "object": "model", "created": 1_790_000_000, "owned_by": "simulator"}


def anthropic_model(name: str) -> Json:
    """Return a `ModelInfo` of Anthropic's list."""
    return {
        "type": "model",
        "id": name,
        "display_name": name.replace("sim-", "Simulated ").replace("-", " "),
        "created_at": "2026-09-21T00:00:00Z",
        "lifecycle": "active",
        "line": None,
        "deprecated_at": None,
        "retires_at": None,
        "max_input_tokens": 200_000,
        "max_tokens": 64_000,
        "capabilities": None,
    }
