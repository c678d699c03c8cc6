"""The catalogue has all that Codex requires of it, and the window where it is known."""

from __future__ import annotations

from dragoman.gateway import ModelSizes
from dragoman_server.endpoints.codex_catalogue import codex_models
from dragoman_server.routing.model_names import KnownModel

REQUIRED = {
    *("slug", "display_name", "supported_reasoning_levels", "shell_type", "visibility", "supported_in_api"),
    *("priority", "base_instructions", "support_verbosity", "truncation_policy", "experimental_supported_tools"),
}
"""The fields without which Codex 0.171 ignores the whole list."""


def test_an_entry() -> None:
    known = KnownModel("qwen3", "local", 9, "Qwen 3", ModelSizes(40_960, 8192))
    first, second = codex_models([known, KnownModel("other", "local")])["models"]
    assert first.keys() == second.keys() | {"context_window"} >= REQUIRED
    assert (first["slug"], first["display_name"], first["context_window"]) == ("qwen3", "Qwen 3", 40_960)
    assert (second["slug"], second["display_name"]) == ("other", "other")
    assert first["priority"] < second["priority"], "the order of the list"
    assert {first["shell_type"], first["visibility"]} == {"default", "list"}
    assert first["base_instructions"], "without it Codex sends no system prompt"


def test_no_models() -> None:
    assert codex_models([]) == {"models": []}
