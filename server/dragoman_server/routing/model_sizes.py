"""The sizes of a model behind its name for clients: the context window and the largest output limit."""

from __future__ import annotations

from dragoman.gateway import ListedModel, ModelSizes, documented_sizes
from dragoman_server.config.provider import Provider
from dragoman_server.config.schema import Models


def model_sizes(
    models: Models, name: str, provider: Provider, upstream_model: str, listed: ListedModel | None
) -> ModelSizes:
    """Return the sizes of the model that clients call `name`.

    Each is that of the configuration, else of the upstream's list, whose entry is `listed`, else of the vendor's
    documentation; 0 if none of them states it.
    """
    profile, documented = provider.profile, documented_sizes(upstream_model)
    window, output = (listed.context_window, listed.max_output) if listed is not None else (0, 0)
    return ModelSizes(
        models.context_window(name) or profile.context_window or window or documented.context_window,
        profile.max_output_tokens or output or documented.max_output,
    )
