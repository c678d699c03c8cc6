"""`GET /models` of an upstream: how each dialect asks for it, and how its answer is read.

OpenAI's list comes whole, Anthropic's and Google's in pages of at most 1,000 models. Servers that imitate one of them
mix these, leave `data` null, or send a bare array, so one reader takes all of them. Other servers state sizes too, each
by names of its own.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import quote

from dragoman.dialects import Dialect
from dragoman.profiles.profile import output_within
from dragoman.short_repr import short_repr

MODEL_LIST_PATH = "models"
"""Below the vendor's base URL."""
NAME_MAX = 512
"""Longest name of a model that is read, in characters."""
_TITLE_MAX = 200
_LATEST = 253_402_300_799
"""The last second of the year 9999: RFC 3339 has no later one."""


_LISTS = ("data", "models", "publisherModels")
"""Names of the list: OpenAI and Anthropic; Codex's catalogue, Gemini and others; Vertex."""
_FOLDERS = re.compile(r"(?:publishers/google/)?models/")
"""The folders of Google's models, without which requests name them."""
_METHODS = "supportedGenerationMethods"
"""Gemini: the methods that a model has."""
_NAMES = ("id", "slug", "name")
"""Names of a model's name: OpenAI and Anthropic; Codex's catalogue; others."""
_WINDOWS = (
    *("max_model_len", "context_window", "max_input_tokens", "context_length", "max_context_length"),
    *("inputTokenLimit", "max_prompt_tokens", "max_context_window_tokens", "context_size", "max_context_tokens"),
)
"""Names of the context window: vLLM and SGLang; Groq, Vercel and Codex's catalogue; Anthropic; OpenRouter, Kimi and
others; LM Studio and Mistral; Gemini; Copilot, which rejects longer prompts though its window is larger; others."""
_WINDOWS_OF_META = ("n_ctx", "n_ctx_train")
"""Its names in llama.cpp's `meta`: the one that the server was started with, and that of the model."""
_OUTPUTS = ("max_tokens", "max_output_tokens", "max_completion_tokens", "outputTokenLimit", "max_output_length")
"""Names of the largest output limit: Anthropic and Vercel; Copilot and others; Groq and Cerebras; Gemini; others."""
_TABLES = ("limits", "top_provider", "metadata", "model_info", "capabilities")
"""Tables of an entry that may have these names: GitHub Models and Cerebras; OpenRouter; DeepInfra; LiteLLM; Copilot,
which has `limits` in it."""
_WINDOW_MAX = 1_000_000_000


class ListedModel(NamedTuple):
    """A model of an upstream's list.

    `created` is in Unix seconds, `context_window` and `max_output` (the largest output limit) in tokens; they are 0 if
    unknown. `title` may be empty.
    """

    name: str
    created: int = 0
    title: str = ""
    context_window: int = 0
    max_output: int = 0

    @property
    def output_limit(self) -> int:
        """The output limit for requests that set none, in tokens; 0 if the list states no size."""
        return self.max_output or (self.context_window and output_within(self.context_window))

    def __repr__(self) -> str:
        return short_repr(self, self.name)


class ModelPage(NamedTuple):
    """One answer. `after` is the cursor of the next page, or None."""

    models: list[ListedModel]
    after: str | None

    def __repr__(self) -> str:
        return short_repr(self, f"{len(self.models)} models", "and more" if self.after else "")


def model_list_query(dialect: Dialect, after: str | None = None) -> str:
    """The query, without `?`, that asks for the first page or for the one behind the cursor `after`."""
    facts = dialect.facts
    if after is None or not facts.list_cursor:
        return facts.list_query
    return f"{facts.list_query}&{facts.list_cursor}={quote(after, safe='')}"


def read_model_list(answer: object) -> ModelPage:
    """The models in an answer; entries without a usable name, and Google's that write no content, are left out.

    Raises ValueError if it is no list. An empty page of Google's has only a token.
    """
    data = answer
    if isinstance(answer, dict):
        key = next((name for name in _LISTS if name in answer), "")
        data = (answer[key] or []) if key else ([] if "nextPageToken" in answer else answer)
    if not isinstance(data, list):
        raise ValueError("not a list of models")
    models = [model for entry in data if (model := _model(entry)) is not None]
    after = None
    if isinstance(answer, dict) and answer.get("has_more") is True:
        last = answer.get("last_id")
        after = last if isinstance(last, str) and 0 < len(last) <= NAME_MAX else None
    elif isinstance(answer, dict) and isinstance(token := answer.get("nextPageToken"), str):
        after = token if 0 < len(token) <= NAME_MAX else None
    return ModelPage(models, after)


def _model(entry: object) -> ListedModel | None:
    if not isinstance(entry, dict) or not _writes(entry):
        return None
    key, name = next(((key, value) for key in _NAMES if isinstance(value := entry.get(key), str)), ("", None))
    if key == "name" and name is not None and (folder := _FOLDERS.match(name)):
        name = name[folder.end() :]
    title = entry.get("display_name", entry.get("displayName"))
    if name is None or not 0 < len(name) <= NAME_MAX or not name.isprintable():
        return None
    shown = title[:_TITLE_MAX] if isinstance(title, str) and title.isprintable() else ""
    tables = _tables(entry)
    return ListedModel(name, _created(entry), shown, _context_window(tables), _max_output(tables))


def _writes(entry: dict[str, object]) -> bool:
    """True for a model that writes content, or of which the methods are not listed."""
    methods = entry.get(_METHODS)
    return not isinstance(methods, list) or not methods or "generateContent" in methods


def _tables(entry: dict[str, object]) -> list[dict[str, object]]:
    """Return an entry and the tables in it, those that are nearer first."""
    inner = [table for name in _TABLES if isinstance(table := entry.get(name), dict)]
    return [entry, *inner, *(limits for table in inner if isinstance(limits := table.get("limits"), dict))]


def _context_window(tables: list[dict[str, object]]) -> int:
    values = [table.get(name) for table in tables for name in _WINDOWS]
    meta = tables[0].get("meta")
    values += [meta.get(name) for name in _WINDOWS_OF_META] if isinstance(meta, dict) else []
    return _first_size(values)


def _max_output(tables: list[dict[str, object]]) -> int:
    return _first_size([table.get(name) for table in tables for name in _OUTPUTS])


def _first_size(values: list[object]) -> int:
    return next((value for value in values if type(value) is int and 0 < value <= _WINDOW_MAX), 0)


def _created(entry: dict[str, object]) -> int:
    created = entry.get("created", entry.get("created_at"))
    if isinstance(created, str):
        try:
            moment = datetime.fromisoformat(created)
            created = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return 0
    if isinstance(created, bool) or not isinstance(created, int | float):
        return 0
    return int(created) if 0 < created <= _LATEST else 0
