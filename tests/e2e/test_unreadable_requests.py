"""Bytes that are no HTTP request: an error for their sender, one line of the log without a word of it, and a number."""

from __future__ import annotations

import logging

import pytest
from aiohttp import ClientSession, web

from dragoman_server.config.provider import Secret
from dragoman_server.workers.serve import listening, running
from support.gateways import CHAT, config_for, raw_exchange

_HEAD = b"POST /v1/messages HTTP/1.1\r\nhost: x\r\n"
CASES = {
    "no HTTP": (b"hello my-key\r\n\r\n", 400, "BadHttpMethod"),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00my-key\r\n\r\n", 400, "https on a port of http"),
    "a header without a colon": (_HEAD + b"x-api-key my-key\r\n\r\n", 400, "BadHttpMessage"),
    "a value that is none": (_HEAD + b"x-api-key: my-key\x00\r\n\r\n", 400, "BadHttpMessage"),
    "a long header": (_HEAD + b"x-api-key: " + b"my-key" * 2000 + b"\r\n\r\n", 431, "LineTooLong"),
    "an address that is none": (b"GET http://[my-key HTTP/1.1\r\nhost: x\r\n\r\n", 400, "InvalidURLError"),
    "no chunks": (_HEAD + b"transfer-encoding: chunked\r\n\r\nmy-key\r\n", 400, "BadHttpMessage"),
}


@pytest.mark.parametrize("case", CASES)
async def test_it_is_one_line_without_a_word_of_it_and_counted(case: str, caplog: pytest.LogCaptureFixture) -> None:
    sent, status, why = CASES[case]
    caplog.set_level(logging.DEBUG)
    config = config_for("http://127.0.0.1:9", CHAT, keys=(Secret("k"),), port=0)
    async with running(config) as up, ClientSession(headers={"x-api-key": "k"}) as session:
        answered = await raw_exchange(int(up.url.rpartition(":")[2]), sent)
        assert answered.partition(b"\r\n")[0].split()[1] == b"%d" % status
        counted = await (await session.get(up.url + "/metrics")).text()
    assert "\ndragoman_malformed_requests_total 1\n" in counted
    noted = [record for record in caplog.records if "cannot be read" in record.getMessage()]
    assert [(record.name, record.levelname) for record in noted] == [("dragoman", "INFO")]
    assert noted[0].getMessage().endswith(why)
    assert "my-key" not in caplog.text
    assert "Traceback" not in caplog.text


async def test_a_defect_of_a_handler_is_still_reported_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(_: web.Request) -> web.Response:
        raise RuntimeError("a defect")

    app = web.Application()
    app.router.add_get("/", broken)
    async with listening(app, "127.0.0.1", 0) as url, ClientSession() as session, session.get(url) as response:
        assert response.status == 500
    assert [(record.name, record.levelname) for record in caplog.records] == [("aiohttp.server", "ERROR")]
    assert "RuntimeError: a defect" in caplog.text
