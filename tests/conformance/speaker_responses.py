"""A client of Responses: `openai.responses`."""

from __future__ import annotations

from typing import Any

import openai
from openai.types.responses import Response

from conformance.judges import CHAT_TOOLS
from conformance.judges_responses import (
    TERMINALS,
    UNTYPED,
    fragments,
    judge_responses,
    plain,
    responses_events,
    words_of,
)
from conformance.speaker import Ask, Call, Received, Spent, Trouble, blamed, closed

RESPONSES_TOOLS: list[Any] = [{"type": "function", "strict": False, **tool["function"]} for tool in CHAT_TOOLS]


class ResponsesSpeaker:
    """`openai.responses`."""

    dialect = "responses"

    def __init__(self, client: openai.AsyncOpenAI) -> None:
        self._create = client.responses

    def _asked(self, ask: Ask, *, plain: bool = False) -> dict[str, Any]:
        content: Any = "Hi"
        if ask.image:
            picture = {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{ask.image}"}
            content = [{"type": "input_text", "text": "Hi"}, picture]
        items: list[Any] = [{"role": "user", "content": content}]
        if ask.after:
            items += ask.after.replay
            items += [
                {"type": "function_call_output", "call_id": call.id, "output": result}
                for call, result in zip(ask.after.calls, ask.results, strict=True)
            ]
        asked: dict[str, Any] = {"input": items, "store": False}
        assert not ask.stops, "Responses has no stop sequences"
        if ask.tools:
            asked["tools"] = RESPONSES_TOOLS
        if not ask.parallel:
            asked["parallel_tool_calls"] = False
        if ask.effort:
            asked |= {
                "reasoning": {"effort": ask.effort, "summary": "auto"},
                "include": ["reasoning.encrypted_content"],
            }
        if ask.cap:
            asked["max_output_tokens"] = ask.cap
        if ask.schema and plain:
            form = {"type": "json_schema", "name": "City", "schema": closed(ask.schema), "strict": True}
            asked["text"] = {"format": form}
        elif ask.schema:
            asked["text_format"] = ask.schema
        return asked

    async def whole(self, model: str, ask: Ask) -> Received:
        """Not streamed."""
        try:
            if ask.schema:
                reply: Response = await self._create.parse(model=model, **self._asked(ask))
            else:
                reply = await self._create.create(model=model, **self._asked(ask))
        except openai.APIError as error:
            return Received(trouble=blamed(error))
        noted: Any = reply.to_dict(warnings=False)
        if noted["error"] and noted["error"]["code"] in UNTYPED:
            noted["error"]["code"] = "server_error"
        Response.model_validate(noted, strict=True)
        return _responses_read(reply)

    async def stream(self, model: str, ask: Ask) -> Received:
        """By the helper; what it holds at the end must be the terminal event's."""
        events: list[Any] = []
        try:
            async with self._create.stream(model=model, **self._asked(ask)) as stream:
                await responses_events(aiter(stream), events)
                final = judge_responses(events)
                if final.status == "completed":
                    assert (await stream.get_final_response()).to_dict(warnings=False) == final.to_dict()
        except openai.APIError as error:
            return _responses_partial(events, blamed(error))
        if final.status == "failed":
            assert final.error is not None
            failed = Trouble("response.failed", None, None, final.error.code, final.error.message)
            return _responses_partial(events, failed)
        received = _responses_read(final)
        received.fragments = fragments(events)
        return received

    async def raw(self, model: str, ask: Ask) -> Received:
        """By the plain iterator."""
        events: list[Any] = []
        try:
            stream = await self._create.create(model=model, stream=True, **self._asked(ask, plain=True))
            await responses_events(aiter(stream), events)
        except openai.APIError as error:
            return _responses_partial(events, blamed(error))
        final = judge_responses(events)
        if final.status == "failed":
            assert final.error is not None
            failed = Trouble("response.failed", None, None, final.error.code, final.error.message)
            return _responses_partial(events, failed)
        return _responses_read(final)


def _responses_partial(events: list[Any], trouble: Trouble) -> Received:
    """Return what a program had that followed the deltas. Items that are done are what Codex acts upon."""
    received = Received(trouble=trouble)
    calls: dict[int, list[str]] = {}
    for event in events:
        match event.type:
            case "response.output_text.delta":
                received.text += event.delta
            case "response.output_item.added" if event.item.type == "function_call":
                calls[event.output_index] = [event.item.call_id, event.item.name, ""]
            case "response.function_call_arguments.delta":
                calls[event.output_index][2] += event.delta
            case "response.function_call_arguments.done":
                raise AssertionError("the arguments of a call that was cut are told as whole")
            case "response.output_item.done" if event.item.type == "function_call":
                assert event.item.status == "incomplete"
    received.calls = [Call(*parts) for parts in calls.values()]
    if events and events[-1].type in TERMINALS:
        assert all(item.status != "in_progress" for item in events[-1].response.output if hasattr(item, "status"))
    return received


def _responses_read(reply: Response) -> Received:
    usage = reply.usage
    spent = None
    if usage is not None:
        assert usage.total_tokens == usage.input_tokens + usage.output_tokens
        given, made = usage.input_tokens_details, usage.output_tokens_details
        cached, written = given.cached_tokens, given.cache_write_tokens
        spent = Spent(usage.input_tokens, cached, written, usage.output_tokens, made.reasoning_tokens)
    received = Received(id=reply.id, model=reply.model, finish=reply.status, spent=spent)
    received.parsed = getattr(reply, "output_parsed", None)
    if reply.status == "failed":
        assert reply.error is not None
        received.trouble = Trouble("failed", None, None, reply.error.code, reply.error.message)
    elif reply.incomplete_details is not None:
        received.finish = f"{reply.status}/{reply.incomplete_details.reason}"
    for item in reply.output:
        kind, words = words_of(item)
        if kind == "text":
            received.text += words
        elif kind == "refusal":
            received.refusal += words
        elif item.type == "reasoning":
            received.reasoning += words
            received.proof = item.encrypted_content or ""
        elif item.type == "function_call":
            received.calls.append(Call(item.call_id, item.name, item.arguments))
        received.order.append("call" if kind == "arguments" else kind)
        received.replay.append(plain(item))
    return received
