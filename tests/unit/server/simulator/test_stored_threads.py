"""Server-side threads of Messages: the simulator keeps them, another dialect's upstream cannot.

Anthropic's SDKs ask for one in their tool runners by themselves, and do without only if the refusal has the code of a
thread that is not available.
"""

from __future__ import annotations

from typing import Any

import pytest
from anthropic import AsyncAnthropic, BadRequestError, beta_async_tool

from conformance.served import serving
from dragoman.dialects import Dialect
from dragoman.dialects.messages.errors import write_failure
from dragoman.errors import ClientRequestError, Unsupported
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.schema import Config
from dragoman_server.simulator.error_replies import RequestRejected
from dragoman_server.simulator.stored_threads import Threads

CREATE: Any = {"type": "create"}
ASKED: Any = {"model": "sim-tools", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}]}
REPLY: dict[str, Any] = {"type": "message", "id": "msg_1", "content": [{"type": "text", "text": "Ho"}]}


def config_for(upstream: str) -> Config:
    provider = Provider("simulated", Dialect(upstream), "http://simulator.invalid")
    return Config({"simulated": provider}, (Route("*", "simulated"),))


def continued(previous: str = "msg_1", **fields: Any) -> dict[str, Any]:
    thread = {"type": "continue", "previous_message_id": previous}
    return {"model": "m", "thread": thread, "messages": [{"role": "user", "content": "More"}], **fields}


def test_the_refusal_bears_the_code_that_sdks_act_on() -> None:
    error = Unsupported(("thread",), "no", code="thread_unsupported_request")
    status, body = write_failure(error.failure)
    assert (status, body["error"]["type"]) == (400, "invalid_request_error")
    assert body["error"]["details"] == {"error_code": "thread_unsupported_request"}


def test_other_codes_stay_inside() -> None:
    _, body = write_failure(ClientRequestError(("model",), "no", code="model_not_found").failure)
    assert body["error"].keys() == {"type", "message"}


@pytest.mark.turns
@pytest.mark.parametrize("upstream", ["chat", "messages", "responses"])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_tool_runner_goes_on_with_or_without_a_thread(upstream: str, stream: bool) -> None:
    ran: list[str] = []

    @beta_async_tool
    async def get_weather(city: str) -> str:
        """The weather of a city."""
        ran.append(city)
        return f"sunny in {city}"

    stated = ""
    async with (
        serving(config_for(upstream), verify=True) as served,
        AsyncAnthropic(base_url=served.url, api_key="k", max_retries=0) as client,
    ):
        turns: Any = client.beta.messages.tool_runner(**ASKED, tools=[get_weather], stream=stream)
        async for turn in turns:
            message = await turn.get_final_message() if stream else turn
            stated = "".join(block.text for block in message.content if block.type == "text")
        bodies: list[Any] = [received.body for received in served.requests]
    assert ran == ["Oslo"]
    assert stated == "The tool says: sunny in Oslo."
    assert len(bodies) == 2
    if upstream == "messages":
        assert bodies[0]["thread"] == CREATE
        assert bodies[1]["thread"]["type"] == "continue"
        assert len(bodies[1]["messages"]) == 1
    else:
        assert "thread" not in bodies[0]


async def test_who_asks_for_a_thread_learns_that_there_is_none() -> None:
    async with (
        serving(config_for("chat")) as served,
        AsyncAnthropic(base_url=served.url, api_key="k", max_retries=0) as client,
    ):
        with pytest.raises(BadRequestError) as caught:
            await client.beta.messages.create(**ASKED, thread=CREATE, betas=["message-threads-2026-08-12"])
        assert not served.requests
    body: Any = caught.value.body
    assert body["error"]["message"].startswith("thread: ")
    assert body["error"]["details"] == {"error_code": "thread_unsupported_request"}


def test_a_thread_continues_from_its_last_reply() -> None:
    threads = Threads()
    threads.store({**ASKED, "system": "S", "thread": CREATE}, REPLY)
    resumed = threads.resume(continued())
    assert resumed["system"] == "S"
    assert [message["content"] for message in resumed["messages"]] == ["Hi", REPLY["content"], "More"]


def test_an_unknown_thread_is_refused_as_a_lost_one() -> None:
    with pytest.raises(RequestRejected) as caught:
        Threads().resume(continued("msg_9"))
    assert (caught.value.status, caught.value.code) == (404, "thread_not_found")


def test_what_the_thread_keeps_is_not_sent_again() -> None:
    threads = Threads()
    threads.store({**ASKED, "thread": CREATE}, REPLY)
    with pytest.raises(RequestRejected, match="tools"):
        threads.resume(continued(tools=[]))


def test_only_replies_in_a_thread_are_kept() -> None:
    threads = Threads()
    threads.store(ASKED, REPLY)
    threads.store({**ASKED, "thread": CREATE}, {"type": "error"})
    with pytest.raises(RequestRejected):
        threads.resume(continued())
    assert threads.resume(ASKED) is ASKED


def test_old_threads_are_forgotten() -> None:
    threads = Threads()
    for number in range(300):
        threads.store({**ASKED, "thread": CREATE}, {**REPLY, "id": f"msg_{number}"})
    assert threads.resume(continued("msg_299"))
    with pytest.raises(RequestRejected):
        threads.resume(continued("msg_0"))
