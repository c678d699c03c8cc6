"""The table of exchanges in a browser: recordings, reasons, older rows, columns, and its form on a phone."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from typing import Any

import aiohttp
import pytest

from dragoman import Dialect
from dragoman.dialects import CLIENT_DIALECTS
from dragoman.wire import SSEParser
from dragoman_server.config.provider import Secret
from support.browser import page
from support.console_page import column, gateway, rows, send

pytestmark = pytest.mark.asyncio(loop_scope="session")

PHONE: Any = {"viewport": {"width": 390, "height": 844}}
KEY = "key-of-the-gateway"
CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES


@pytest.mark.whole
async def test_a_recording_is_counted_and_its_rows_are_marked(browser: Any) -> None:
    async with gateway() as up, page(browser, f"{up.url}/ui") as shown:
        await send(up.url, CHAT, "sim-text")
        await shown.get_by_role("button", name="Record the next 5").click()
        await shown.wait_for_selector("text=The next 5 requests are recorded.")
        await send(up.url, CHAT, "sim-tools")
        await shown.wait_for_selector("text=The next 4 requests are recorded.")
        await shown.locator("tr.recorded", has_text="sim-tools").get_by_text("recorded").wait_for()
        assert await shown.locator("tr.recorded").count() == 1
        await shown.get_by_role("button", name="Stop recording").click()
        await shown.wait_for_selector("text=Recording has ended")
        await shown.get_by_role("button", name="Record the next 5").wait_for()
        await send(up.url, CHAT, "sim-thinking")
        await shown.locator("tr", has_text="sim-thinking").wait_for()
        assert await shown.locator("tr.recorded").count() == 1


def message_of(text: str) -> str:
    """The message of the error that a client got, as a body or as an event of its stream."""
    try:
        bodies = [json.loads(text)]
    except ValueError:
        frames = SSEParser().parse(text.encode())
        bodies = [json.loads(frame.data) for frame in frames if frame.data and frame.data != b"[DONE]"]
    for body in bodies:
        error = body.get("error") or body.get("response", {}).get("error") or (body.get("type") == "error" and body)
        if error:
            return str(error["message"])
    raise AssertionError(f"no error in {text}")


@pytest.mark.whole
@pytest.mark.parametrize("client", CLIENT_DIALECTS, ids=str)
async def test_a_failed_row_has_the_words_that_the_client_got(browser: Any, client: Dialect) -> None:
    async with gateway(pace=0.0) as up, page(browser, f"{up.url}/ui") as shown:
        # The upstream's message about a key of the configuration is not the client's.
        for model, status in (("sim-error-429", 429), ("sim-error-mid", 200), ("sim-error-401", 502)):
            words = message_of(await send(up.url, client, model, status=status))
            row = shown.locator("#exchanges tbody tr", has_text=model)
            await row.locator(".reason", has_text=words).wait_for()
        async with aiohttp.ClientSession() as session:
            wrong = {"model": "sim-text", "stream": "<b>yes</b>", "messages": [], "input": [], "max_tokens": 5}
            async with session.post(f"{up.url}/v1/{client.path}", json=wrong) as response:
                assert response.status == 400
                words = message_of(await response.text())
        await shown.locator("tr:has-text('rejected') .reason", has_text=words).wait_for()


async def test_texts_of_clients_and_upstreams_are_no_html(browser: Any) -> None:
    name = "<img src=x onerror=alert(1)>"
    async with gateway(pace=0.0) as up, page(browser, f"{up.url}/ui") as shown:
        await send(up.url, CHAT, f"{name}sim-text")
        await shown.locator("td.model", has_text=name).wait_for()
        await shown.goto(f"{up.url}/ui/#playground")
        request = {"model": "sim-echo", "stream": True, "messages": [{"role": "user", "content": name}]}
        await shown.get_by_label("The client's API").select_option("chat")
        await shown.get_by_label("Request", exact=True).fill(json.dumps(request))
        await shown.get_by_role("button", name="Send").click()
        await shown.get_by_role("region", name="The reply").get_by_text(name).wait_for()
        assert await shown.locator("img").count() == 0


async def fill(url: str, count: int) -> None:
    """Send requests that are rejected at once."""
    async with aiohttp.ClientSession() as session:
        for number in range(count):
            wrong = {"model": f"m{number}", "messages": "no list"}
            async with session.post(f"{url}/v1/chat/completions", json=wrong) as response:
                assert response.status == 400


@pytest.mark.whole
async def test_older_rows_are_loaded_on_scroll(browser: Any) -> None:
    async with gateway() as up:
        await fill(up.url, 230)
        async with page(browser, f"{up.url}/ui") as shown:
            lines = shown.locator("#exchanges tbody tr")
            await lines.nth(99).wait_for()
            assert await lines.count() == 100
            await shown.get_by_role("button", name="Load older").scroll_into_view_if_needed()
            for last in (199, 229):
                await lines.nth(last).wait_for()
                await shown.evaluate("scrollTo(0, document.body.scrollHeight)")
            await shown.wait_for_selector("text=All that are kept are shown.")
            models = [text.split("\n")[0] for text in await column(shown, "model")]
            assert models == [f"m{number}" for number in reversed(range(230))]
            # New rows come above, and the older ones stay.
            await send(up.url, CHAT, "sim-text")
            await shown.locator("tr", has_text="sim-text").wait_for()
            assert await lines.count() == 231
            await shown.get_by_label("Search").fill("m7")
            await shown.wait_for_selector("#live-count:has-text(', 11 shown')")


@pytest.mark.whole
async def test_the_receipts_of_a_store_follow_with_dates_and_hosts(browser: Any) -> None:
    stored = {
        "request_id": "req_of_another_host",
        "created": 1_600_000_000,
        "client": "chat",
        "endpoint": None,
        "upstream": "messages",
        "model": "stored-model",
        "upstream_model": "stored-model",
        "provider": "up",
        "client_profile": None,
        "ended": "failed",
        "status": 502,
        "error": {"kind": "api", "message": "it is gone"},
        "usage": {"input_total": 3, "output_total": 4},
        "losses_total": 2,
        "host": "host-2",
    }

    async def receipts(route: Any) -> None:
        reply = await (await route.fetch()).json()
        for each in reply["data"]:
            each["host"] = "host-1"
        await route.fulfill(json={**reply, "data": [*reply["data"], stored]})

    async def live(route: Any) -> None:
        row = {**(await (await route.fetch(url=f"{route.request.url.split('/ui/')[0]}/ui/api/exchanges")).json())}
        for each in row["rows"]:
            each["host"] = "host-1"
        await route.fulfill(content_type="text/event-stream", body=f"event: rows\ndata: {json.dumps(row)}\n\n")

    async with gateway() as up:
        await send(up.url, CHAT, "sim-text")
        async with page(browser, "about:blank", up.url, timezone_id="UTC") as shown:
            await shown.route("**/v1/dragoman/receipts*", receipts)
            await shown.route("**/ui/api/live*", live)
            await shown.goto(f"{up.url}/ui")
            row = shown.locator("#exchanges tbody tr", has_text="stored-model")
            await row.get_by_text("13 Sept 2020 12:26:40").or_(row.get_by_text("13 Sep 2020 12:26:40")).wait_for()
            assert await row.locator(".reason").inner_text() == "it is gone"
            assert await column(shown, "host") == ["host-1", "host-2"]
            assert await shown.locator("th.host").is_visible()


@pytest.mark.whole
async def test_columns_without_a_value_are_hidden(browser: Any) -> None:
    async with gateway() as up, page(browser, f"{up.url}/ui") as shown:
        await send(up.url, CHAT, "messages/sim-text")
        await shown.locator("tr:has-text('completed')").wait_for()
        assert await heads(shown) == ["Time", "State", "Direction", "Model", "Duration", "First event", "Tokens"]
        await send(up.url, MESSAGES, "chat/sim-text")
        await shown.locator("th.losses:visible").wait_for()
        assert (await heads(shown))[-1] == "Losses"


async def heads(shown: Any) -> list[str]:
    return [str(text) for text in await shown.locator("#exchanges th:visible").all_inner_texts()]


@pytest.mark.whole
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_on_a_phone_a_row_is_a_card(browser: Any, scheme: str) -> None:
    async with gateway() as up, page(browser, f"{up.url}/ui", color_scheme=scheme, **PHONE) as shown:
        await send(up.url, CHAT, "messages/sim-error-429", status=429)
        await send(up.url, MESSAGES, "chat/sim-text")
        await shown.locator("tr:has-text('completed')").wait_for()
        card = shown.locator("#exchanges tbody tr").first
        lines = (await card.inner_text()).split("\n")
        assert [line for line in lines if line.strip()][1:] == [
            "completed",
            "chat/sim-text",
            "simulated-chat as sim-text",
            "12 → 7",
            "1",
        ]
        boxes = [await card.locator(name).bounding_box() for name in ("time", ".word", "td.model", "td.tokens")]
        assert boxes[0]["y"] < boxes[2]["y"] < boxes[3]["y"], "stacked"
        assert boxes[0]["x"] < boxes[1]["x"]
        assert all(box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in boxes)
        assert await shown.locator("tr:has-text('refused') .reason").is_visible()
        for hidden in ("direction", "seconds", "first", "client"):
            assert not await card.locator(f"td.{hidden}").is_visible()
        assert await shown.get_by_role("row").count() == 3, "it is a table for screen readers"
        assert await card.get_by_role("cell").count() == 5


@pytest.mark.whole
@pytest.mark.parametrize("keyed", [False, True])
async def test_the_command_of_an_empty_table_works_when_pasted(browser: Any, keyed: bool) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    rights: Any = {"permissions": ["clipboard-read", "clipboard-write"]}
    async with gateway(keys=(Secret(KEY),) if keyed else ()) as up, page(browser, f"{up.url}/ui", **rights) as shown:
        if keyed:
            await shown.get_by_label("Key of this gateway").fill(KEY)
            await shown.keyboard.press("Enter")
        await shown.wait_for_selector("text=No request has arrived yet")
        addresses = await shown.locator("#live-empty dd").all_inner_texts()
        assert addresses == [f"{up.url}/v1", up.url]
        await shown.get_by_role("button", name="Copy: A first request").click()
        await shown.get_by_text("Copied").wait_for()
        command = str(await shown.evaluate("navigator.clipboard.readText()"))
        assert command.startswith("curl ")
        assert KEY not in await shown.content()
        done = await asyncio.to_thread(subprocess.run, ["sh", "-c", command], capture_output=True, timeout=60)
        assert json.loads(done.stdout)["choices"], done.stderr
        await shown.locator("#exchanges tbody tr", has_text="completed").wait_for()
        assert len(await rows(shown)) == 1
        assert await shown.locator("#live-empty").is_hidden()


@pytest.mark.whole
async def test_what_runs_is_shown(browser: Any) -> None:
    async with gateway() as up, page(browser, f"{up.url}/ui") as shown, aiohttp.ClientSession() as session:
        async with session.get(f"{up.url}/ui/api/about") as response:
            about = await response.json()
        await shown.get_by_text(f"Dragoman {about['version']}, revision {about['revision']}").wait_for()
