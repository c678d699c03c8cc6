"""`GET /v1/models` in the caller's dialect, told by the `anthropic-version` header (mapping §12)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

# Neither the routes nor the upstreams say when a model was made; both dialects allow a date that means "unknown".
_UNKNOWN_DATE = "1970-01-01T00:00:00Z"


def openai_models(models: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The list as the OpenAI SDKs read it; `owned_by` is the provider's name in the configuration."""
    data = [{"id": name, "object": "model", "created": 0, "owned_by": owner} for name, owner in models]
    return {"object": "list", "data": data}


def anthropic_models(models: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The list as the Anthropic SDKs read it. `lifecycle` is required by their types."""
    data = [
        {"type": "model", "id": name, "display_name": name, "created_at": _UNKNOWN_DATE, "lifecycle": "active"}
        for name, _ in models
    ]
    return {
        "data": data,
        "has_more": False,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
    }
