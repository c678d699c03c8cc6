"""Long bodies within the limits are parsed and translated next to the event loop: other clients are answered meanwhile.

A history of 25 MB kept all others waiting for 0.6 s and more.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from io import BytesIO
from typing import Any

import orjson
import pytest

from dragoman import Translation, threads
from dragoman.aio import off_loop
from dragoman.dialects import Dialect
from dragoman.gateway import ClientFrame
from dragoman.stages.base import ReplyPipeline
from dragoman.threads.store import stored_items
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RouteTarget
from dragoman_server.config.state_options import StateOptions
from dragoman_server.endpoints import conversations, diagnostics, stored_responses
from dragoman_server.proxy import background, item_references, long_bodies
from dragoman_server.steps import forward, read, translate
from dragoman_server.steps import stored as kept
from support.gateways import CHAT, MESSAGES, Gate, config_for, gate
from support.samples import PATHS, dump, reply, request
from support.sockets import ScriptedServer, answer
from support.stages import many_examples
from support.waiting import until
from support.websockets import speaking

RESPONSES = Dialect.RESPONSES
SECONDS = 20.0
"""Seconds that a job waits for the answer to another client: all of them, in vain, if it runs on the loop."""
TURN = "what a tool has written, a thousand characters of it " * 19


def history(client: Dialect, size: int) -> bytes:
    """Return a request of about `size` bytes, in turns of 2 kB."""
    stated: list[Any]
    if client is RESPONSES:
        stated = [{"role": role, "content": TURN} for role in ("user", "assistant")]
        return orjson.dumps({"model": "m", "input": stated * (size // 2050)})
    stated = [{"role": role, "content": TURN} for role in ("user", "assistant")]
    body = {"model": "m", "messages": [*stated * (size // 2050), {"role": "user", "content": "Go on"}]}
    return orjson.dumps(body | ({"max_tokens": 9} if client is MESSAGES else {}))


class Held:
    """Functions that do not return before another client was answered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._loop = asyncio.get_running_loop()
        self._answered = threading.Event()
        self.begun = asyncio.Event()
        self.threads: set[str] = set()
        """The names of the threads that call them."""
        self.waited: list[bool] = []
        """True for each call during which the other client was answered."""

    def hold(self, place: Any, name: str, which: Callable[..., bool] = lambda *_, **__: True) -> None:
        """Hold the calls of a function with the arguments that `which` accepts."""
        inner = getattr(place, name)

        def held(*args: Any, **options: Any) -> Any:
            result = inner(*args, **options)
            if which(*args, **options):
                self.threads.add(threading.current_thread().name)
                self._loop.call_soon_threadsafe(self.begun.set)
                self.waited.append(self._answered.wait(SECONDS))
            return result

        self._monkeypatch.setattr(place, name, held)

    async def answer_another(self, up: Gate) -> None:
        """Answer another client once a call is held."""
        async with asyncio.timeout(2 * SECONDS):
            await self.begun.wait()
        async with up.post(CHAT, headers={"x-other": "1"}) as response:
            assert response.status == 200, await response.text()
        self._answered.set()


@pytest.fixture
async def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    return Held(monkeypatch)


def is_long(body: bytes) -> bool:
    """Return whether a body is not that of the other client."""
    return len(body) > 500_000


@asynccontextmanager
async def served(*scripts: Any, upstream: Dialect = CHAT) -> AsyncIterator[Gate]:
    async with ScriptedServer(*(scripts or (answer(200, dump(reply(upstream))),))) as server:
        config = config_for(server.url, upstream)
        async with gate(replace(config, state=StateOptions(kind="memory"))) as up:
            yield up


@asynccontextmanager
async def another(held: Held, up: Gate) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(held.answer_another(up))
        yield
    assert held.waited[0]
    assert held.threads == {"long-jobs_0"}, "clients take turns in one thread"


async def post(up: Gate, path: str, body: bytes) -> int:
    """Post a long body, and return the status. aiohttp takes no long one as bytes."""
    async with asyncio.timeout(3 * SECONDS), up.session.post(up.url + path, data=BytesIO(body)) as response:
        await response.read()
        return response.status


@pytest.mark.law
@pytest.mark.parametrize("upstream", [CHAT, MESSAGES, RESPONSES])
@pytest.mark.parametrize("client", [CHAT, MESSAGES, RESPONSES])
async def test_another_client_is_answered_while_a_history_of_25_mb_is_translated(
    client: Dialect, upstream: Dialect, held: Held
) -> None:
    held.hold(translate, "translate", lambda _, body, **__: is_long(body))
    async with served(upstream=upstream) as up, another(held, up):
        assert await post(up, PATHS[client], history(client, 25_000_000 if many_examples() else 2_000_000)) == 200


ENDPOINTS = {
    "parsed": (PATHS[MESSAGES], read, "parse_body"),
    "counted": ("/v1/messages/count_tokens", translate, "translate"),
    "explained": ("/v1/dragoman/explain?from=messages", diagnostics, "parse_body"),
    "explained, translated": ("/v1/dragoman/explain?from=messages", translate, "translate"),
    "forwarded, parsed": ("/v1/embeddings", read, "parse_body"),
    "forwarded": ("/v1/embeddings", forward, "forward"),
    "conversation": ("/v1/conversations", conversations, "parse_body"),
}


@pytest.mark.parametrize("case", ENDPOINTS)
async def test_it_is_so_at_all_endpoints(case: str, held: Held) -> None:
    path, place, name = ENDPOINTS[case]
    held.hold(place, name, lambda first, *rest, **_: is_long(rest[0] if name == "translate" else first))
    async with served() as up, another(held, up):
        assert await post(up, path, history(MESSAGES, 1_000_000)) in (200, 400)


async def test_it_is_so_for_a_frame_of_a_websocket(held: Held) -> None:
    frame = {"type": "response.create", **orjson.loads(history(RESPONSES, 1_000_000))}
    held.hold(ClientFrame, "read", is_long)
    async with served() as up, another(held, up), speaking(up.url) as client:
        await client.socket.send_str(orjson.dumps(frame).decode())
        assert (await client.rest())[-1]["type"] == "response.completed"


@pytest.mark.parametrize("name", ["items", "body"])
async def test_it_is_so_for_the_request_of_a_frame(name: str, held: Held) -> None:
    frame = {"type": "response.create", **orjson.loads(history(RESPONSES, 1_000_000))}
    held.hold(ClientFrame, name)
    async with served() as up, another(held, up), speaking(up.url) as client:
        await client.socket.send_str(orjson.dumps(frame).decode())
        assert (await client.rest())[-1]["type"] == "response.completed"


@pytest.mark.parametrize("name", ["read", "written", "streamed"])
async def test_it_is_so_for_a_response_in_the_background(name: str, held: Held) -> None:
    place, function = {
        "read": (threads.StoredRequest, "read"),
        "written": (kept, "json_dumps"),
        "streamed": (background, "_streamed"),
    }[name]
    held.hold(place, function)
    async with served() as up, another(held, up):
        body = orjson.loads(history(RESPONSES, 1_000_000)) | {"background": True}
        assert await post(up, PATHS[RESPONSES], dump(body)) == 200


async def test_it_is_so_for_the_next_provider(held: Held) -> None:
    held.hold(read, "parse_body", lambda body, _: is_long(body))
    async with ScriptedServer(answer(503, b"{}")) as failing, ScriptedServer(answer(200, dump(reply(CHAT)))) as works:
        config = config_for(works.url, CHAT)
        providers = {**config.providers, "failing": Provider("failing", CHAT, failing.url)}
        targets = (RouteTarget("failing"), RouteTarget("up"))
        config = replace(config, providers=providers, routes=[Route("long", targets=targets), Route("*", "up")])
        async with gate(config) as up, another(held, up):
            body = dump(orjson.loads(history(CHAT, 1_000_000)) | {"model": "long"})
            assert await post(up, PATHS[CHAT], body) == 200


async def test_it_is_so_for_a_compaction(held: Held) -> None:
    body = orjson.loads(history(RESPONSES, 1_000_000))
    body["context_management"] = [{"type": "compaction", "compact_threshold": 1000}]
    held.hold(threads, "checked_items")
    async with served() as up, another(held, up):
        assert await post(up, PATHS[RESPONSES], dump(body)) == 200


@pytest.mark.parametrize("read", ["continued", "written", "listed", "referred to", "shown as a tree", "cancelled"])
async def test_it_is_so_for_what_is_stored(read: str, held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_bodies, "LONG_BODY", 0)
    async with served() as up:
        body = orjson.loads(history(RESPONSES, 1_000_000))
        async with up.session.post(up.url + PATHS[RESPONSES], data=BytesIO(dump(body))) as response:
            stored = (await response.json())["id"]
        url = f"{up.url}{PATHS[RESPONSES]}/{stored}"
        place, name = {
            "continued": (stored_items, "_sent"),
            "written": (kept, "json_dumps"),
            "listed": (stored_items, "_shown"),
            "referred to": (item_references, "_found"),
            "shown as a tree": (threads.Lineage, "add"),
            "cancelled": (stored_responses, "json_loads"),
        }[read]
        given: Any = "Go on"
        if read == "referred to":
            async with up.session.get(f"{url}/input_items?limit=1") as response:
                given = [{"type": "item_reference", "id": (await response.json())["data"][0]["id"]}]
        held.hold(place, name)
        async with another(held, up):
            if read == "cancelled":
                call = up.session.post(url + "/cancel")
            elif read == "shown as a tree":
                call = up.session.get(f"{up.url}/v1/dragoman/conversations/{stored}/tree")
            elif read == "listed":
                call = up.session.get(f"{url}/input_items")
            else:
                sent = {"model": "m", "input": given, **({} if given != "Go on" else {"previous_response_id": stored})}
                call = up.session.post(up.url + PATHS[RESPONSES], data=dump(sent))
            async with asyncio.timeout(3 * SECONDS), call as response:
                assert response.status == (400 if read == "cancelled" else 200), await response.text()


@pytest.mark.parametrize(
    ("client", "place", "name"),
    [(MESSAGES, Translation, "reply"), (MESSAGES, ReplyPipeline, "read_end"), (CHAT, Translation, "replay")],
    ids=["whole", "read as a stream", "replayed"],
)
async def test_it_is_so_for_a_long_reply(client: Dialect, place: Any, name: str, held: Held) -> None:
    whole = reply(CHAT)
    whole["choices"][0]["message"]["content"] = TURN * 500
    # The other client asks for no stream.
    held.hold(place, name, lambda *given: name != "reply" or is_long(given[1]))
    asked = dump(request(client, stream=name != "reply"))
    async with served(answer(200, dump(whole)), answer(200, dump(reply(CHAT)))) as up, another(held, up):
        assert await post(up, PATHS[client], asked) == 200


async def test_what_was_cancelled_changes_no_receipt(held: Held) -> None:
    held.hold(translate, "translate", lambda _, body, **__: is_long(body))
    async with served() as up, another(held, up):
        asked = asyncio.create_task(post(up, PATHS[MESSAGES], history(MESSAGES, 1_000_000)))
        await held.begun.wait()
        asked.cancel()
        await asyncio.wait((asked,))
        receipts = list(up.gateway.receipts.newest())
        await until(lambda: receipts[0].ended == "abandoned")
        await off_loop("", lambda: None)  # the job before has ended
    assert receipts[0].translation is None
    assert receipts[0].ended == "abandoned"
