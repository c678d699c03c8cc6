"""Law: `read(write(request))` is the request in the dialect it came in, and no loss row means that nothing was lost."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from dragoman import Dialect, Direction, Knobs, Losses, shipped
from dragoman.directions import CODECS
from dragoman.jsontext import dumps
from dragoman.model import Request, Text
from dragoman.names import NameTable
from support.directions import CROSS, DIALECTS
from support.requests import Features, conversations

KNOBS = Knobs()
PLACES = {"at", "max_tokens_at", "stop_at", "service_tier_at"}


def read(dialect: Dialect, body: Any, losses: Losses | None = None) -> Request:
    request: Request = CODECS[dialect].read_request(body, losses or Losses(), KNOBS)
    return request


def write(dialect: Dialect, request: Request, losses: Losses) -> Any:
    profile = shipped(dialect)
    names = NameTable(profile.tool_name_max)
    body = CODECS[dialect].write_request(
        request, model=request.model, profile=profile, knobs=KNOBS, losses=losses, names=names
    )
    written = json.loads(dumps(body))
    note(written)
    return written


def without_places(value: Any) -> Any:
    """A canonical value as plain data, without where it stood and without what absence means anyway."""
    if is_dataclass(value):
        named = {f.name: without_places(getattr(value, f.name)) for f in fields(value) if f.name not in PLACES}
        return {"": type(value).__name__, **named}
    if isinstance(value, list | tuple):
        return [without_places(item) for item in value]
    if isinstance(value, dict):
        return {key: without_places(item) for key, item in value.items()}
    return value


def normal(request: Request) -> Any:
    """The request as data. Turns of one role in a row are one turn to every model; arguments are what they parse to."""
    plain = without_places(request)
    turns: list[Any] = []
    for turn in plain["turns"]:
        for part in turn["parts"]:
            if part[""] == "ToolCall":
                part["arguments"] = json.loads(part["arguments"] or "{}")
        del turn["plain"]
        if turn["spelling"] == "top":
            turn["spelling"] = ""
        turns.append(turn)
    plain["turns"] = turns
    if len(plain["end_user"] or "") > 64:
        plain["end_user"] = "hashed"  # long ids never leave as they are (mapping §7.4)
    # Chat asks for the usage chunk by an option; it is asked for upstream whatever the client said (mapping §9.4).
    del plain["include_usage"]
    return plain


@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
@given(data=st.data())
def test_a_request_survives_writing_and_reading_in_its_own_dialect(dialect: Dialect, data: st.DataObject) -> None:
    request = read(dialect, data.draw(conversations(dialect)).body())
    losses = Losses()
    back = read(dialect, write(dialect, request, losses))
    if not losses:
        assert normal(back) == normal(request)
    # What was lost is lost the first time: the second time nothing is.
    again = Losses()
    twice = read(dialect, write(dialect, back, again))
    assert not again
    assert normal(twice) == normal(back)


# --- through the other dialect and back -------------------------------------------------------------------------------


def said(request: Request) -> list[Any]:
    """The conversation as a model sees it: who said what in which order, adjacent texts of one speaker joined."""
    out: list[Any] = []
    for turn in request.turns:
        for part in turn.parts:
            plain = without_places(part)
            if isinstance(part, Text):
                if out and out[-1][:2] == (turn.role, "text"):
                    out[-1] = (*out[-1][:2], out[-1][2] + part.text)
                elif part.text:
                    out.append((turn.role, "text", part.text))
                continue
            if plain[""] == "ToolCall":
                plain["arguments"] = json.loads(part.arguments or "{}")  # type: ignore[union-attr]
            if plain[""] == "ToolResult" and isinstance(plain["content"], list):
                plain["content"] = "\n".join(piece["text"] for piece in plain["content"])
            out.append((turn.role, plain[""], plain))
    return out


def settings_of(request: Request) -> dict[str, Any]:
    """What both dialects can say beyond the conversation."""
    names = ("parallel", "temperature", "top_p", "stop", "stream", "end_user")
    plain = without_places(request)
    tools = [(tool["name"], tool["description"], tool["schema"]) for tool in plain["tools"]]
    choice = request.tool_choice
    effort = request.thinking.effort if request.thinking is not None else None
    return {name: plain[name] for name in names} | {
        "tools": tools,
        "choice": (choice.mode, choice.names) if choice is not None and choice.mode != "auto" else None,
        "effort": effort,
    }


@pytest.mark.parametrize("row", CROSS, ids=str)
@given(data=st.data())
def test_without_a_loss_row_nothing_is_lost_on_the_way_there_and_back(row: Direction, data: st.DataObject) -> None:
    home, abroad = row.client.dialect, row.upstream.dialect
    features = Features(losses=False, marks=False)
    request = read(home, data.draw(conversations(home, features)).body())
    losses = Losses()
    there = read(abroad, write(abroad, request, losses), losses)
    back = read(home, write(home, there, losses), losses)
    if losses:
        return
    # Results are matched by their call, so their order among themselves says nothing.
    assert said(back) == said(request)
    one, other = settings_of(back), settings_of(request)
    for settings in (one, other):
        # A tool without a schema has an empty one; a lonely prohibition of parallel calls needs tools.
        settings["tools"] = [(n, d, s or {"type": "object", "properties": {}}) for n, d, s in settings["tools"]]
        # Parallel calls are allowed where nothing is said.
        settings["parallel"] = settings["parallel"] is not False
        settings["end_user"] = len(settings["end_user"] or "")
        if not settings["tools"]:
            settings["choice"] = None
    if len(request.end_user or "") > 64:
        one["end_user"] = other["end_user"]  # hashed for another provider (mapping §7.4)
    if request.tool_choice is not None and request.tool_choice.mode == "none":
        one["parallel"] = other["parallel"]  # Messages has no place for it beside `none`
    assert one == other
