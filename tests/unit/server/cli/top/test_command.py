"""`dragoman top`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from dragoman_server.cli.main import main
from dragoman_server.cli.running_gateway import RunningGateway
from support.gateways import CHAT, MESSAGES, config_for, gate, until
from support.samples import text_stream
from support.sockets import LAST_CHUNK, ScriptedServer, Send, Step, Wait, chunk, sse_head


async def test_one_screen_of_a_running_gateway(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rich", reason="the extra top is not installed")
    resume = asyncio.Event()
    frames = [Send(chunk(frame)) for frame in text_stream(CHAT)]
    script: list[Step] = [Send(sse_head()), *frames[:3], Wait(resume), *frames[3:], Send(LAST_CHUNK)]
    async with (
        ScriptedServer(script) as server,
        gate(config_for(server.url, CHAT, ui=True, name="gw-1")) as up,
    ):
        reply = await up.post(MESSAGES, stream=True)
        await until(lambda: any(receipt.begun_at is not None for receipt in up.gateway.receipts.newest()))
        assert await asyncio.to_thread(main, ["top", "--once", "--url", up.url]) == 0
        out = capsys.readouterr().out
        resume.set()
        await reply.read()
        reply.close()
    assert out.startswith("hosts 1  open 1  streams 1 ")
    assert max(map(len, out.splitlines())) <= 80
    assert [line.split()[-4] for line in out.splitlines()[-1:]] == ["gw-1"]


async def test_a_gateway_without_a_console(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rich", reason="the extra top is not installed")
    async with gate(config_for("http://127.0.0.1:9/v1", CHAT)) as up:
        assert await asyncio.to_thread(main, ["top", "--once", "--url", up.url]) == 0
    assert "server.ui = true" in capsys.readouterr().out


def test_a_gateway_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--once", "--url", "http://127.0.0.1:9"]) == 1
    assert "nothing listens there" in capsys.readouterr().err


def test_a_failure_later_is_shown_above_the_last_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    console = pytest.importorskip("rich.console", reason="the extra top is not installed")
    from dragoman_server.cli.top import command, screen

    def fetch(fails: bool) -> Callable[..., bytes]:
        def call(*_: Any, **__: Any) -> bytes:
            if fails:
                raise ConnectionError("it is away")
            return b'{"hosts":[],"providers":[],"console":false,"problem":null}'

        return call

    monkeypatch.setattr(screen, "screen", lambda *args: args)
    view: Any = command.TopView(RunningGateway("http://x"), console.Console())
    monkeypatch.setattr(command, "fetch", fetch(False))
    assert view.next()[3] == ""
    monkeypatch.setattr(command, "fetch", fetch(True))
    status, _, _, problem = view.next()
    assert (status["hosts"], problem) == ([], "it is away")
    with pytest.raises(ConnectionError):
        view.next(strict=True)


def test_without_rich_it_names_the_extra(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert main(["top"]) == 1
    assert capsys.readouterr().err == "top needs the package rich: install Dragoman with the extra top\n"


@pytest.mark.parametrize("value", ["0", "soon", "-1", "nan", "inf"])
def test_an_interval_that_is_none(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["top", f"--interval={value}"])
    assert "expected a number from 0.1 to 3600" in capsys.readouterr().err
