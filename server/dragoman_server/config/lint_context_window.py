"""Where a token budget was asked for and cannot be kept, as nobody said how large the context window is."""

from __future__ import annotations

from collections.abc import Iterator

from dragoman_server.config.schema import Config


def unknown_windows(config: Config) -> Iterator[str]:
    """A sentence for each provider whose `token_budget` does nothing."""
    wishes = [(provider, config.knobs.token_budget) for provider in config.providers]
    wishes += [
        (route.provider, route.knobs["token_budget"]) for route in config.routes if "token_budget" in route.knobs
    ]
    for name in dict.fromkeys(name for name, wish in wishes if wish != "off"):
        if not config.providers[name].profile.context_window:
            yield (
                f"token_budget does nothing for provider {name}: "
                f"set providers.{name}.profile_flags.context_window to the model's tokens"
            )
