"""The console in a real browser, with traffic of the simulated upstream."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from dragoman import Dialect
from dragoman.gateway import DIRECTIONS
from dragoman_server.app import setup
from dragoman_server.config.capture_options import CaptureOptions
from dragoman_server.config.load import simulated_config
from dragoman_server.config.provider import Secret
from dragoman_server.workers.serve import with_simulator
from support.browser import axe_source, page
from support.console_page import TEXT, body, column, gateway, picture, rows, send, violations
from support.gateways import served, until

pytestmark = pytest.mark.asyncio(loop_scope="session")

CANARY, KEY = "canary of a prompt", "canary-key-of-the-gateway"
CROSS = [(client, upstream) for client, upstream in DIRECTIONS if client is not upstream]
FORMS = [(width, scheme) for width in (1280, 390) for scheme in ("light", "dark")]


async def test_live_traffic_filters_and_pause(browser: Any) -> None:
    async with gateway() as up, page(browser, f"{up.url}/ui") as shown:
        await shown.wait_for_selector("text=No request has arrived yet")
        await send(up.url, Dialect.MESSAGES, "sim-thinking")
        await send(up.url, Dialect.CHAT, "sim-text")
        slow = asyncio.create_task(send(up.url, Dialect.RESPONSES, "sim-long-300"))
        await shown.wait_for_selector("tr:has-text('open')")
        await shown.locator("#exchanges tbody tr").nth(2).wait_for()
        assert (await column(shown, "direction"))[::-1] == [
            "messages → chat",
            "chat → messages",
            "responses → messages",
        ]
        await shown.wait_for_selector("tr:has-text('open') svg.spark")
        await picture(shown, "live", 320)
        await shown.get_by_label("with losses").check()
        await shown.wait_for_selector("#exchanges tbody:not(:has(tr:nth-child(2))) tr:has-text('messages → chat')")
        await shown.get_by_label("with losses").uncheck()
        await shown.get_by_label("Search").fill("no such thing")
        await shown.wait_for_selector("text=No exchange fits these filters")
        await shown.get_by_label("Search").fill("")
        await shown.locator("#exchanges tbody tr").nth(2).wait_for()
        await shown.get_by_role("button", name="Pause").click()
        await shown.wait_for_selector("#connection:has-text('paused')")
        await send(up.url, Dialect.CHAT, "sim-tools")
        assert len(await rows(shown)) == 3
        await shown.get_by_role("button", name="Continue").click()
        await shown.locator("#exchanges tbody tr").nth(3).wait_for()
        slow.cancel()


@pytest.mark.whole
@pytest.mark.parametrize(("client", "upstream"), CROSS, ids=str)
async def test_a_tool_call_in_the_inspector(browser: Any, client: Dialect, upstream: Dialect) -> None:
    async with gateway() as up, page(browser, f"{up.url}/ui") as shown:
        await shown.get_by_role("button", name="Record the next 5").click()
        await shown.wait_for_selector("text=The next 5 requests are recorded")
        await send(up.url, client, f"{upstream}/sim-thinking")
        await shown.locator("tr:has-text('completed') a").first.click()
        table = shown.get_by_role("region", name="Both sides of the stream")
        text = await table.inner_text()
        assert f"From the upstream ({upstream})" in text
        assert f"To the client ({client})" in text
        calls = {Dialect.CHAT: "tool_calls", Dialect.MESSAGES: "input_json_delta", Dialect.RESPONSES: "function_call"}
        calls |= {Dialect.GENERATE: "functionCall"}
        assert calls[client] in text
        assert calls[upstream] in text
        assert TEXT not in await shown.content()
        if client is Dialect.MESSAGES and upstream is not Dialect.GENERATE:  # which has it
            assert "top_k" in await shown.get_by_role("region", name="Losses").inner_text()
            if upstream is Dialect.CHAT:
                await picture(shown, "exchange", 1000)


@pytest.mark.whole
async def test_the_playground_explains_and_sends(browser: Any) -> None:
    async with gateway() as up, page(browser, f"{up.url}/ui/#playground") as shown:
        changes = shown.get_by_role("region", name="Changes to the request")
        await changes.get_by_text("max_completion_tokens").wait_for()
        await shown.get_by_label("Example").select_option("loss")
        row = changes.locator("tr", has_text="top_k")
        await row.get_by_text("top_k was not sent").wait_for()
        assert (await row.inner_text()).startswith("dropped")
        assert "renamed" in await changes.locator("tr", has_text="max_completion_tokens").inner_text()
        await shown.get_by_role("button", name="Send").click()
        await shown.get_by_role("region", name="Both sides of the stream").wait_for()
        await picture(shown, "playground", 1900)
        assert "message_stop" in await shown.get_by_label("What the client gets").inner_text()
        await shown.get_by_label("Request", exact=True).fill("{")
        await shown.wait_for_selector("text=This is not JSON yet")
        await shown.get_by_label("The client's API").select_option("responses")
        await changes.wait_for()
        await shown.get_by_role("link", name="Open this exchange").click()
        await shown.wait_for_selector("h2:has-text('Exchange req_')")


@pytest.mark.whole
@pytest.mark.parametrize("texts", [True, False])
async def test_a_captured_exchange(browser: Any, tmp_path: Path, texts: bool) -> None:
    options = CaptureOptions(directory=str(tmp_path / "captures"), texts=texts)
    async with gateway(capture=options) as up, page(browser, f"{up.url}/ui/#playground") as shown:
        changes = shown.get_by_role("region", name="Changes to the request")
        await changes.wait_for()
        request = json.dumps(body(Dialect.MESSAGES, "chat/sim-tools"))
        await shown.get_by_label("Request", exact=True).fill(request)
        await shown.get_by_label("capture it").check()
        await shown.get_by_role("button", name="Send").click()
        await shown.get_by_role("link", name="Open this exchange").click()
        await shown.wait_for_selector("h3:has-text('The stream')")
        await until(lambda: list((tmp_path / "captures").glob("*.capture")), 60)
        await shown.reload()
        await shown.wait_for_selector("h3:has-text('The request')")
        assert "top_k was not sent" in await changes.locator("tr", has_text="top_k").inner_text()
        table = shown.get_by_role("region", name="Both sides of the stream")
        assert "content_block_start" in await table.inner_text()
        await shown.get_by_text("As received").click()
        assert texts == (TEXT in await shown.get_by_label("As received").inner_text())
        await shown.get_by_text("As curl").click()
        command = await shown.get_by_label("As curl", exact=True).inner_text()
        assert command.startswith(f"curl -N -X 'POST' '{up.url}/")
        await shown.get_by_text("Commands", exact=True).click()
        assert "dragoman replay req_" in await shown.get_by_label("Commands", exact=True).inner_text()


@pytest.mark.whole
async def test_the_charts(browser: Any) -> None:
    async with gateway() as up, page(browser, f"{up.url}/ui/#health") as shown:
        await shown.locator("#charts figure").first.wait_for()
        await send(up.url, Dialect.MESSAGES, "sim-thinking")
        await shown.wait_for_selector("figure:has-text('completed 1')")
        await shown.wait_for_selector("figure:has-text('top_k 1')")
        assert await shown.locator("#charts figure [role=slider]").count() == 10
        states = shown.get_by_role("region", name="Providers")
        assert "working" in await states.locator("tr", has_text="simulated-chat").inner_text()
        assert "unused" in await states.locator("tr", has_text="simulated-responses").inner_text()
        await picture(shown, "health", 900)


async def test_a_key_is_entered_and_neither_it_nor_a_prompt_is_shown(browser: Any) -> None:
    async with gateway(keys=(Secret(KEY),)) as up:
        await send(up.url, Dialect.MESSAGES, "sim-text", CANARY, headers={"x-api-key": KEY})
        async with page(browser, f"{up.url}/ui") as shown:
            responses: list[Any] = []
            shown.on("response", lambda response: responses.append(response))
            await shown.wait_for_selector("text=This gateway has keys: enter one to see its traffic.")
            assert not await shown.locator(".error").count()
            await shown.get_by_label("Key of this gateway").fill("wrong")
            await shown.get_by_role("button", name="Open the console").click()
            await shown.wait_for_selector("text=This is not a key of this gateway.")
            await shown.get_by_label("Key of this gateway").fill(KEY)
            await shown.keyboard.press("Enter")
            await shown.locator("#exchanges tbody tr a").click()
            await shown.wait_for_selector("h3:has-text('Receipt')")
            await shown.get_by_role("link", name="Health").click()
            await shown.locator("#charts figure").first.wait_for()
            # Without the live table, whose stream does not end: its rows are those of `api/exchanges`.
            data = [each for each in responses if each.status == 200 and "/api/" in each.url and "live" not in each.url]
            seen = "".join([await each.text() for each in data]) + await shown.content()
            assert CANARY not in seen
            assert KEY not in seen
            assert "req_" in seen
            assert len(data) > 2
            assert await shown.evaluate("document.cookie + localStorage.length") == "0"
            await shown.reload()
            await shown.locator("#charts figure").first.wait_for()
            await shown.get_by_role("button", name="Forget the key").click()
            await shown.get_by_label("Key of this gateway").wait_for()


@pytest.mark.whole
async def test_a_page_of_another_origin_gets_nothing(browser: Any) -> None:
    async def foreign(_: web.Request) -> web.Response:
        return web.Response(text="<!doctype html><title>foreign</title>", content_type="text/html")

    app = web.Application()
    app.router.add_get("/", foreign)
    ask = "url => fetch(url, {mode: 'MODE'}).then(r => r.type + r.status + r.ok, () => 'refused')"
    async with gateway(cors_origins=("*",)) as up, served(app) as (url, _), page(browser, url, up.url) as shown:
        target = f"{up.url}/ui/api/exchanges"
        assert await shown.evaluate(ask.replace("MODE", "cors"), target) == "refused"
        assert await shown.evaluate(ask.replace("MODE", "no-cors"), target) == "opaque0false"


@pytest.mark.whole
async def test_a_connection_that_fails_is_tried_again(browser: Any) -> None:
    async with gateway() as up, page(browser, f"{up.url}/ui") as shown:
        await shown.wait_for_selector("#connection:has-text('live')")
        await shown.route("**/api/live*", lambda route: route.abort())
        await shown.get_by_label("Search").fill("x")
        await shown.wait_for_selector("text=The gateway does not answer")
        await shown.unroute("**/api/live*")
        await shown.wait_for_selector("text=No exchange fits these filters")


@pytest.mark.whole
async def test_the_keyboard_and_a_narrow_window(browser: Any) -> None:
    async with gateway() as up, page(browser, f"{up.url}/ui", viewport={"width": 320, "height": 640}) as shown:
        await send(up.url, Dialect.MESSAGES, "sim-thinking")
        await shown.locator("#exchanges tbody tr").first.wait_for()
        await shown.keyboard.press("Tab")
        assert await shown.evaluate("document.activeElement.textContent") == "Skip to the content"
        focused: list[str] = []
        for _ in range(20):
            await shown.keyboard.press("Tab")
            focused.append(await shown.evaluate("document.activeElement.closest('tbody') ? 'row' : 'other'"))
            if focused[-1] == "row":
                break
        assert focused[-1] == "row"
        assert await shown.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        await shown.keyboard.press("Enter")
        await shown.wait_for_selector("h3:has-text('Losses')")
        exchange = await shown.evaluate("location.hash.slice(1)")
        for name in (exchange, "live", "health", "playground"):
            view = name.partition("/")[0]
            await shown.goto(f"{up.url}/ui/#{name}")
            await shown.locator(f"#view-{view} h2").wait_for()
            wide = await shown.evaluate("document.documentElement.scrollWidth")
            assert wide <= 320, f"{view} needs {wide} px"


@pytest.mark.whole
async def test_tables_fit_a_phone(browser: Any) -> None:
    form: Any = {"viewport": {"width": 390, "height": 844}}
    async with gateway(pace=0.0) as up, page(browser, f"{up.url}/ui/#playground", **form) as shown:
        await shown.get_by_role("button", name="Send").click()
        await shown.get_by_text("Both sides, with times").wait_for()
        await shown.get_by_role("region", name="Changes to the request").wait_for()
        found = [await shown.evaluate(CUT_OFF)]
        await shown.goto(f"{up.url}/ui/#health")
        await shown.locator("#providers td").first.wait_for()
        found.append(await shown.evaluate(CUT_OFF))
    assert found == [[], []]


CUT_OFF = """() => [...document.querySelectorAll(".scroll")].filter(
  region => region.checkVisibility() && region.scrollWidth > region.clientWidth).map(region => region.ariaLabel)"""
"""The names of the tables that are wider than the screen."""


@pytest.mark.whole
@pytest.mark.parametrize(("width", "scheme"), FORMS)
async def test_axe_finds_nothing(browser: Any, width: int, scheme: str) -> None:
    source = await asyncio.to_thread(axe_source)
    form: Any = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    async with gateway(pace=0.0) as up, page(browser, f"{up.url}/ui", **form) as shown:
        await shown.evaluate(source)
        await shown.wait_for_selector("text=No request has arrived yet")
        found = {"empty": await violations(shown)}
        await shown.get_by_role("button", name="Record the next 5").click()
        await send(up.url, Dialect.MESSAGES, "sim-thinking")
        await send(up.url, Dialect.CHAT, "messages/sim-error-429", status=429)
        await shown.locator("#exchanges tr.recorded .reason", has_text="Rate limit").wait_for()
        found["live"] = await violations(shown)
        await shown.locator("#exchanges tbody tr a").first.click()
        await shown.wait_for_selector("h3:has-text('Receipt')")
        found["exchange"] = await violations(shown)
        await shown.get_by_role("link", name="Health").click()
        await shown.locator("#charts figure svg").first.wait_for()
        await shown.get_by_role("slider", name="Requests", exact=True).focus()
        await shown.keyboard.press("ArrowLeft")
        found["health"] = await violations(shown)
        await shown.get_by_role("link", name="Playground").click()
        await shown.get_by_role("region", name="Changes to the request").wait_for()
        await shown.get_by_role("button", name="Send").click()
        await shown.get_by_role("region", name="Both sides of the stream").wait_for()
        found["playground"] = await violations(shown)
        await shown.evaluate(
            "document.querySelectorAll('main > section').forEach(s => s.hidden = s.id !== 'view-key');"
            "document.getElementById('key-form').hidden = false"
        )
        found["key"] = await violations(shown)
        assert found == {view: [] for view in found}


@pytest.mark.whole
async def test_below_a_prefix_of_an_application(browser: Any) -> None:
    config = simulated_config()
    config = replace(config, server=replace(config.server, ui=True))
    async with with_simulator(config) as (filled, _):
        app = web.Application()
        setup(app, filled, prefix="/llm")
        async with served(app) as (url, _runner), page(browser, f"{url}/llm/ui/#playground") as shown:
            await shown.get_by_role("region", name="Changes to the request").wait_for()
            await shown.get_by_role("button", name="Send").click()
            await shown.get_by_role("region", name="Both sides of the stream").wait_for()
            await shown.get_by_role("link", name="Live").click()
            await shown.locator("#exchanges tbody tr").first.wait_for()
