"""`GET /models` of an upstream: how each dialect asks for it, and how its answer is read.

OpenAI's list comes whole, Anthropic's in pages of at most 1,000 models. Servers that imitate one of them mix the two,
leave `data` null, or send a bare array, so one reader takes all of these.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import quote

from dragoman.dialects import Dialect

MODEL_LIST_PATH = "models"
"""Below the vendor's base URL."""
NAME_MAX = 512
"""Longest name of a model that is read, in characters."""
_TITLE_MAX = 200
_LATEST = 253_402_300_799
"""The last second of the year 9999: RFC 3339 has no later one."""


class ListedModel(NamedTuple):
    """A model of an upstream's list. `created` is in Unix seconds, 0 if unknown; `title` may be empty."""

    name: str
    created: int = 0
    title: str = ""


class ModelPage(NamedTuple):
    """One answer. `after` is the cursor of the next page, or None."""

    models: list[ListedModel]
    after: str | None


def model_list_query(dialect: Dialect, after: str | None = None) -> str:
    """The query, without `?`, that asks for the first page or for the one behind the cursor `after`."""
    if dialect is not Dialect.MESSAGES:
        return ""
    return "limit=1000" + (f"&after_id={quote(after, safe='')}" if after is not None else "")


def read_model_list(answer: object) -> ModelPage:
    """The models in an answer; entries without a usable name are left out. Raises ValueError if it is no list."""
    data = answer
    if isinstance(answer, dict) and "data" in answer:
        data = answer["data"] or []
    if not isinstance(data, list):
        raise ValueError("not a list of models")
    models = [model for entry in data if (model := _model(entry)) is not None]
    after = None
    if isinstance(answer, dict) and answer.get("has_more") is True:
        last = answer.get("last_id")
        after = last if isinstance(last, str) and 0 < len(last) <= NAME_MAX else None
    return ModelPage(models, after)


def _model(entry: object) -> ListedModel | None:
    if not isinstance(entry, dict):
        return None
    name, title = entry.get("id"), entry.get("display_name")
    if not isinstance(name, str) or not 0 < len(name) <= NAME_MAX or not name.isprintable():
        return None
    shown = title[:_TITLE_MAX] if isinstance(title, str) and title.isprintable() else ""
    return ListedModel(name, _created(entry), shown)


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
