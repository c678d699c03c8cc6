"""Model lists in the forms of OpenAI and Anthropic (mapping §12.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from dragoman import ClientRequestError
from dragoman.wire import Json
from dragoman_server.endpoints.list_limit import read_limit
from dragoman_server.routing.model_names import KnownModel

PAGE_MAX = 1000
"""Most models of one page in Anthropic's form, as in the API itself. It is also the default."""


def openai_model(model: KnownModel) -> Json:
    """Return a model in OpenAI's form, which has no sizes: their names are those of Groq and Copilot."""
    found: Json = {"id": model.name, "object": "model", "created": model.created, "owned_by": model.owner}
    return found | _sizes(model, "context_window", "max_output_tokens")


def openai_models(models: Sequence[KnownModel]) -> Json:
    """Return the list in OpenAI's form, which has no pages."""
    return {"object": "list", "data": [openai_model(model) for model in models]}


def anthropic_model(model: KnownModel) -> Json:
    """Return a model in Anthropic's form. The SDKs' types require `lifecycle`; an unknown date is the Unix epoch."""
    created = datetime.fromtimestamp(model.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    found: Json = {
        "type": "model",
        "id": model.name,
        "display_name": model.title or model.name,
        "created_at": created,
        "lifecycle": "active",
    }
    return found | _sizes(model, "max_input_tokens", "max_tokens")


def _sizes(model: KnownModel, window: str, output: str) -> Json:
    """Return the sizes that are known, by these names."""
    return {name: size for name, size in ((window, model.sizes[0]), (output, model.sizes[1])) if size}


def anthropic_models(models: Sequence[KnownModel], query: Mapping[str, str]) -> Json:
    """Return one page in Anthropic's form, selected by `limit`, `after_id` and `before_id` of `query`.

    Raises ClientRequestError for a limit out of range and for a cursor that is not in the list.
    """
    limit = read_limit(query.get("limit"), PAGE_MAX, PAGE_MAX)
    start, end = 0, len(models)
    if (after := query.get("after_id")) is not None:
        start = _place(models, "after_id", after) + 1
    if (before := query.get("before_id")) is not None:
        end = _place(models, "before_id", before)
        # The page that ends before the cursor; more models are before that page.
        page = models[max(start, end - limit) : end]
        more = end - limit > start
    else:
        page = models[start : start + limit]
        more = start + limit < end
    return {
        "data": [anthropic_model(model) for model in page],
        "has_more": more,
        "first_id": page[0].name if page else None,
        "last_id": page[-1].name if page else None,
    }


def _place(models: Sequence[KnownModel], field: str, name: str) -> int:
    for place, model in enumerate(models):
        if model.name == name:
            return place
    raise ClientRequestError(field, f"there is no model {name[:100]!a} in the list")
