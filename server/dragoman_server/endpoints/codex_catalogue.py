"""The list of models in the form of Codex's catalogue.

Codex requests it with `client_version` if its provider has a `model_catalog_url`, or a command for its key. It takes
the whole list or nothing: an entry without one of the fields below, apart from `description` and `context_window`,
makes it ignore all of them (Codex 0.171). The entries replace the catalogue in the program, also for OpenAI's own
models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dragoman.wire import Json
from dragoman_server.routing.model_names import KnownModel

INSTRUCTIONS = """\
You are a coding agent. You work in the Codex CLI on the user's computer.

- Read the files that matter and run commands with your tools before you decide. Do not guess what a file contains.
- Follow the instructions of AGENTS.md files. The one nearest to a file applies to it.
- Make the smallest change that solves the task, in the style of the code around it. Leave everything else as it is.
- Check your work: run the project's tests, its build, or the program itself, where that is possible.
- Do not commit, create branches or discard changes of the user unless the user requests it.
- Work until the task is done. If something blocks you, name it.
- End with a few sentences: what you changed, in which files, how you checked it, and what is left.
"""
"""The system prompt, which Codex takes from the catalogue. Users replace it by Codex's `model_instructions_file`."""


def codex_models(models: Sequence[KnownModel]) -> Json:
    """Return the catalogue. The values are those that Codex assumes for a model that it does not know."""
    return {"models": [_entry(model, place) for place, model in enumerate(models, 1)]}


def _entry(model: KnownModel, place: int) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "slug": model.name,
        "display_name": model.title or model.name,
        "description": f"provider {model.owner}",
        "supported_reasoning_levels": [],
        "shell_type": "default",
        "visibility": "list",
        "supported_in_api": True,
        "priority": place,
        "base_instructions": INSTRUCTIONS,
        "support_verbosity": False,
        "truncation_policy": {"mode": "bytes", "limit": 10_000},
        "experimental_supported_tools": [],
    }
    if window := model.sizes.context_window:
        entry["context_window"] = window
    return entry
