"""A route's model is the one that the upstream is asked for, however a client writes its request.

Parsers disagree on which of two equal keys counts. A request that passes through is routed by what the gateway read and
sent as it came, so one with a repeated key is refused, and in replies the value of each is replaced.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman_server.config.route import Route
from dragoman_server.config.schema import Config, Models
from support.gateways import config_for, gate
from support.samples import dump, reply, request
from support.sockets import ScriptedServer, answer, stream

DIALECTS = pytest.mark.parametrize("dialect", CLIENT_DIALECTS)


def _config(url: str, dialect: Dialect) -> Config:
    """Two models and no other: one is renamed, one is sent as it is called."""
    routes = [Route("small", "up", "vendor-small"), Route("plain", "up")]
    return replace(config_for(url, dialect), routes=routes, models=Models())


def _body(dialect: Dialect, *members: str) -> bytes:
    """The sample request with these members at its end."""
    body = json.loads(dump(request(dialect)))
    del body["model"]
    body.pop("stream", None)
    return (json.dumps(body)[:-1] + ", " + ", ".join(members) + "}").encode()


@DIALECTS
@pytest.mark.parametrize(
    ("members", "key"),
    [
        (('"model": "expensive"', '"model": "small"'), "model"),
        (('"mod\\u0065l": "expensive"', '"model": "small"'), "model"),
        (('"model": "expensive"', '"\\u006dodel": "small"'), "model"),
        (('"model": "expensive"', '"model": "plain"'), "model"),
        (('"model": "plain"', '"stream": true', '"stream": false'), "stream"),
    ],
)
async def test_a_repeated_key_is_refused_and_nothing_is_sent(
    dialect: Dialect, members: tuple[str, ...], key: str
) -> None:
    async with ScriptedServer(answer(200, b"{}")) as server, gate(_config(server.url, dialect)) as entrance:
        status, noted, _ = await entrance.refusal(dialect, _body(dialect, *members))
    assert status == 400
    assert noted.message == f"{key}: is given more than once; send it once"
    assert not server.requests


@DIALECTS
async def test_what_only_looks_like_a_repeated_key_is_sent(dialect: Dialect) -> None:
    body = _body(dialect, '"x": {"model": "inner", "stream": 1}', '"y": "\\"model\\": 1"', '"\\u006dodel": "small"')
    async with (
        ScriptedServer(answer(200, dump(reply(dialect)))) as server,
        gate(_config(server.url, dialect)) as entrance,
        entrance.post(dialect, body) as response,
    ):
        assert response.status == 200, await response.text()
    assert server.requests[0].body == body.replace(b'"small"', b'"vendor-small"')


@DIALECTS
async def test_no_model_of_a_reply_is_the_upstreams(dialect: Dialect) -> None:
    whole = b'{"model": "secret", ' + dump(reply(dialect))[1:-1] + b', "mod\\u0065l": "secret"}'
    async with (
        ScriptedServer(answer(200, whole)) as server,
        gate(_config(server.url, dialect)) as entrance,
        entrance.post(dialect, model="small") as response,
    ):
        pairs = json.loads(await response.read(), object_pairs_hook=list)
    models = [value for key, value in pairs if key == "model"]
    assert models == ["small"] * len(models)
    assert len(models) >= 2


async def test_no_model_of_a_stream_is_the_upstreams() -> None:
    frames = [
        b'data: {"id":"c","model":"secret","choices":[{"index":0,"delta":{"role":"assistant","content":"%d"}}],%s}\n\n'
        % (n, again)
        for n, again in enumerate(
            [b'"x":1', b'"model":"secret"', b'"mod\\u0065l":"secret"', *[b'"model":"secret"'] * 9]
        )
    ]
    frames += [
        b'data: {"model":"secret","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
        b"data: [DONE]\n\n",
    ]
    async with ScriptedServer(stream(frames)) as server, gate(_config(server.url, Dialect.CHAT)) as entrance:
        passed = await entrance.stream(Dialect.CHAT, model="small")
    assert passed == b"".join(frames).replace(b'"secret"', b'"small"')
