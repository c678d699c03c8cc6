"""The model lists of upstreams: when they are fetched, and how long clients wait for them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import pytest

from dragoman.aio.upstream.interface import UpstreamRequest
from dragoman.dialects import Dialect
from dragoman.errors import UpstreamUnreachable
from dragoman_server.config.provider import Provider
from dragoman_server.routing.upstream_models import (
    FETCHES_MAX,
    FRESH,
    KEPT,
    MODELS_MAX,
    PAGES_MAX,
    PAUSE,
    UpstreamModels,
)
from support.waiting import turns

UP = Provider("up", Dialect.CHAT, "http://up/v1")
OTHER = Provider("other", Dialect.CHAT, "http://other/v1")
NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(slots=True)
class Upstreams:
    """The responses of upstreams by URL; an event holds them back."""

    answers: dict[str, object] = field(default_factory=dict)
    calls: list[UpstreamRequest] = field(default_factory=list)
    hold: asyncio.Event | None = None
    at_once: int = 0
    most: int = 0
    now: float = 1000.0

    def clock(self) -> float:
        return self.now

    async def fetch(self, call: UpstreamRequest) -> tuple[int, bytes]:
        self.calls.append(call)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            if self.hold is not None:
                await self.hold.wait()
            answer = self.answers.get(call.url, self.answers.get("*"))
            if isinstance(answer, Exception):
                raise answer
            if isinstance(answer, tuple):
                return answer
            return 200, json.dumps(answer).encode()
        finally:
            self.at_once -= 1

    def models(self, wait: float = 5.0) -> UpstreamModels:
        return UpstreamModels(self.fetch, clock=self.clock, wait=wait)


def listing(*names: str) -> dict[str, object]:
    return {"data": [{"id": name} for name in names]}


async def names(models: UpstreamModels, *providers: Provider) -> list[list[str]]:
    asked = [(provider, NONE) for provider in providers or (UP,)]
    return [[model.name for model in each] for each in await models.lists(asked)]


async def test_a_list_is_asked_for_once_and_again_when_it_is_old() -> None:
    up = Upstreams({"http://up/v1/models": listing("a")})
    models = up.models()
    assert [await names(models) for _ in range(3)] == [[["a"]]] * 3
    (call,) = up.calls
    assert (call.method, call.url, call.body, call.stream) == ("GET", "http://up/v1/models", b"", False)
    up.now += FRESH
    up.answers["http://up/v1/models"] = listing("b")
    up.hold = asyncio.Event()
    # The old list is there at once, whatever the upstream does.
    assert await names(models) == [["a"]]
    up.hold.set()
    await turns(50)
    await until_asked(models)
    assert await names(models) == [["b"]]
    assert len(up.calls) == 2


async def until_asked(models: UpstreamModels) -> None:
    """Wait until nothing is being asked for."""
    while models._refreshes:
        await asyncio.wait(set(models._refreshes))


@pytest.mark.parametrize(
    "answer", [UpstreamUnreachable("cannot connect"), (404, b"no"), (200, b"<html>"), (200, b'{"error":1}')]
)
async def test_an_upstream_without_a_list_is_left_alone_for_a_while(
    answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "dragoman")
    up = Upstreams({"http://up/v1/models": answer, "http://other/v1/models": listing("b")})
    models = up.models()
    assert await names(models, UP, OTHER) == [[], ["b"]]
    up.hold = asyncio.Event()
    assert await names(models, UP, OTHER) == [[], ["b"]]
    assert len(up.calls) == 2
    up.now += PAUSE
    # It is fetched again, but no client waits for it.
    assert await names(models) == [[]]
    up.hold.set()
    await until_asked(models)
    assert len(up.calls) == 3
    assert caplog.text.count("provider up does not list its models") == 1
    up.now += PAUSE
    up.answers["http://up/v1/models"] = listing("a")
    await names(models)
    await until_asked(models)
    assert await names(models) == [["a"]]


async def test_a_list_stays_while_its_upstream_is_away() -> None:
    up = Upstreams({"http://up/v1/models": listing("a")})
    models = up.models()
    assert await names(models) == [["a"]]
    up.answers["http://up/v1/models"] = (500, b"")
    up.now += FRESH
    await names(models)
    await until_asked(models)
    assert await names(models) == [["a"]]


async def test_a_silent_upstream_is_waited_for_no_longer_than_allowed() -> None:
    up = Upstreams({"*": listing("a")}, hold=asyncio.Event())
    models = up.models(wait=0.0)
    assert await names(models, UP, OTHER) == [[], []]
    assert await names(models, UP, OTHER) == [[], []]
    assert len(up.calls) == 2, "the same list is asked for once"
    assert up.hold is not None
    up.hold.set()
    await until_asked(models)
    assert await names(models, UP, OTHER) == [["a"], ["a"]]


async def test_a_silent_upstream_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman_server.routing.upstream_models.TIMEOUT", 0.0)
    up = Upstreams({"*": listing("a")}, hold=asyncio.Event())
    models = up.models()
    assert await names(models) == [[]]
    assert up.at_once == 0


async def test_one_url_with_one_key_has_one_list_and_two_keys_have_two() -> None:
    up = Upstreams({"*": listing("a")})
    models = up.models()
    twin = Provider("twin", Dialect.RESPONSES, "http://up/v1")
    await models.lists([(UP, {"authorization": "Bearer k"}), (twin, {"authorization": "Bearer k"})])
    assert len(up.calls) == 1
    await models.lists([(UP, {"authorization": "Bearer l"})])
    assert len(up.calls) == 2


async def test_pages_are_followed_and_bounded() -> None:
    claude = Provider("claude", Dialect.MESSAGES, "http://claude")
    url = "http://claude/v1/models?limit=1000"
    up = Upstreams(
        {
            url: {**listing("a", "b"), "has_more": True, "last_id": "b"},
            f"{url}&after_id=b": {**listing("b", "c"), "has_more": False, "last_id": "c"},
        }
    )
    assert await names(up.models(), claude) == [["a", "b", "c"]]
    endless = Upstreams()

    async def page(call: UpstreamRequest) -> tuple[int, bytes]:
        endless.calls.append(call)
        number = len(endless.calls)
        return 200, json.dumps({**listing(f"m{number}"), "has_more": True, "last_id": f"m{number}"}).encode()

    assert await names(UpstreamModels(page), claude) == [[f"m{number}" for number in range(1, PAGES_MAX + 1)]]
    many = Upstreams({"*": listing(*(f"m{number}" for number in range(MODELS_MAX + 7)))})
    assert len((await names(many.models()))[0]) == MODELS_MAX


async def test_lists_and_fetches_are_bounded_for_any_number_of_keys() -> None:
    up = Upstreams({"*": listing("a")}, hold=asyncio.Event())
    models = up.models(wait=0.0)
    for number in range(3 * KEPT):
        await models.lists([(UP, {"authorization": f"Bearer {number}"})])
        assert len(models._lists) <= KEPT
    assert len(models._refreshes) <= KEPT
    await turns(10)
    assert up.most == FETCHES_MAX
    await models.close()
    assert not models._refreshes


async def test_a_list_in_use_outlives_those_of_other_keys() -> None:
    up = Upstreams({"*": listing("a")})
    models = up.models()
    for number in range(2 * KEPT):
        await models.lists([(OTHER, NONE), (UP, {"authorization": f"Bearer {number}"})])
    assert [call.url for call in up.calls].count("http://other/v1/models") == 1


async def test_close_ends_what_is_being_asked() -> None:
    up = Upstreams(hold=asyncio.Event())
    models = up.models(wait=0.0)
    await names(models)
    await models.close()
    assert up.at_once == 0
