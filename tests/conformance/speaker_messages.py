"""A client of Messages: `anthropic.messages`."""

from __future__ import annotations

import json
from typing import Any

import anthropic
from anthropic.types import Message
from pydantic import TypeAdapter

from conformance.judges import MESSAGES_TOOLS, judge_messages, messages_events
from conformance.speaker import Ask, Call, Received, Spent, blamed, closed


class MessagesSpeaker:
    """`anthropic.messages`."""

    dialect = "messages"

    def __init__(self, client: anthropic.AsyncAnthropic) -> None:
        self._create = client.messages

    def _asked(self, ask: Ask, *, plain: bool = False) -> dict[str, Any]:
        content: Any = "Hi"
        if ask.image:
            source = {"type": "base64", "media_type": "image/png", "data": ask.image}
            content = [{"type": "text", "text": "Hi"}, {"type": "image", "source": source}]
        messages: list[Any] = [{"role": "user", "content": content}]
        if ask.after:
            messages.append({"role": "assistant", "content": ask.after.replay})
            results = [
                {"type": "tool_result", "tool_use_id": call.id, "content": result}
                for call, result in zip(ask.after.calls, ask.results, strict=True)
            ]
            messages.append({"role": "user", "content": results})
        asked: dict[str, Any] = {"messages": messages, "max_tokens": ask.cap or 256}
        if ask.tools:
            asked["tools"] = MESSAGES_TOOLS
        if not ask.parallel:
            asked["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
        if ask.effort == "none":
            asked["thinking"] = {"type": "disabled"}
        elif ask.effort:
            asked |= {"thinking": {"type": "adaptive"}, "output_config": {"effort": ask.effort}}
        if ask.stops:
            asked["stop_sequences"] = list(ask.stops)
        if ask.schema and plain:
            asked["output_config"] = {"format": {"type": "json_schema", "schema": closed(ask.schema)}}
        elif ask.schema:
            asked["output_format"] = ask.schema
        return asked

    async def whole(self, model: str, ask: Ask) -> Received:
        """Not streamed."""
        try:
            if ask.schema:
                reply: Message = await self._create.parse(model=model, **self._asked(ask))
            else:
                reply = await self._create.create(model=model, **self._asked(ask))
        except anthropic.APIError as error:
            return Received(trouble=blamed(error))
        Message.model_validate(reply.to_dict(warnings=False), strict=True)
        return _messages_read(reply)

    async def stream(self, model: str, ask: Ask) -> Received:
        """By the helper."""
        events: list[Any] = []
        try:
            async with self._create.stream(model=model, **self._asked(ask)) as stream:
                try:
                    await messages_events(stream, events)
                except anthropic.APIError as error:
                    received = _messages_read(stream.current_message_snapshot, events)
                    received.trouble = blamed(error)
                    kinds = [event.type for event in events]
                    assert "message_delta" not in kinds
                    assert "message_stop" not in kinds
                    open_calls = {e.index for e in events if _starts_call(e)}
                    assert open_calls.isdisjoint(e.index for e in events if e.type == "content_block_stop")
                    return received
                final: Message = await stream.get_final_message()
        except anthropic.APIError as error:
            return Received(trouble=blamed(error))
        judge_messages(events, final)
        received = _messages_read(final, events)
        assert events[0].message.usage.input_tokens > 0, "T-30: 0 reads as a dead context meter"
        return received

    async def raw(self, model: str, ask: Ask) -> Received:
        """By the plain iterator."""
        received = Received()
        calls: dict[int, list[str]] = {}
        adapter: TypeAdapter[Any] = TypeAdapter(anthropic.types.RawMessageStreamEvent)
        try:
            async for event in await self._create.create(model=model, stream=True, **self._asked(ask, plain=True)):
                adapter.validate_python(event.to_dict(warnings=False), strict=True)
                if event.type == "content_block_start" and event.content_block.type == "tool_use":
                    calls[event.index] = [event.content_block.id, event.content_block.name, ""]
                elif event.type == "content_block_delta":
                    received.text += getattr(event.delta, "text", "")
                    received.reasoning += getattr(event.delta, "thinking", "")
                    if event.delta.type == "input_json_delta":
                        calls[event.index][2] += event.delta.partial_json
                elif event.type == "message_delta":
                    received.finish = event.delta.stop_reason
        except anthropic.APIError as error:
            received.trouble = blamed(error)
        received.calls = [Call(*parts) for parts in calls.values()]
        return received


def _starts_call(event: Any) -> bool:
    return bool(event.type == "content_block_start" and event.content_block.type == "tool_use")


def _messages_read(reply: Message, events: list[Any] | None = None) -> Received:
    usage = reply.usage
    cached, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    made = usage.output_tokens_details
    total = usage.input_tokens + cached + written
    received = Received(
        id=reply.id,
        model=reply.model,
        finish=reply.stop_reason,
        stop=reply.stop_sequence,
        spent=Spent(total, cached, written, usage.output_tokens, made.thinking_tokens if made else 0),
        parsed=getattr(reply, "parsed_output", None),
        replay=list(reply.content),
    )
    if reply.stop_details is not None:
        received.refusal = reply.stop_details.explanation or ""
    formatted: dict[int, str] = {}
    calls: list[int] = []
    for event in events or ():
        if _starts_call(event):
            formatted[event.index] = ""
            calls.append(event.index)
        elif event.type == "content_block_delta" and event.delta.type == "input_json_delta":
            formatted[event.index] += event.delta.partial_json
            if event.delta.partial_json:
                received.fragments.append(calls.index(event.index))
    for index, block in enumerate(reply.content):
        if block.type == "text":
            received.order.append("text")
            received.text += block.text
        elif block.type == "thinking":
            received.order.append("reasoning")
            received.reasoning += block.thinking
            received.proof = block.signature
        elif block.type == "tool_use":
            received.order.append("call")
            form = formatted[index] if events is not None else json.dumps(block.input)
            received.calls.append(Call(block.id, block.name, form))
    return received
