"""A client of Chat Completions: `openai.chat.completions`."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from conformance.judges import CHAT_TOOLS, chat_events, judge_chat
from conformance.speaker import Ask, Call, Received, Spent, blamed, closed

_CUT: dict[str, type[openai.OpenAIError]] = {
    "length": openai.LengthFinishReasonError,
    "content_filter": openai.ContentFilterFinishReasonError,
}
"""The exceptions that the helper raises for a reply that was cut, by design."""


class ChatSpeaker:
    """`openai.chat.completions`."""

    dialect = "chat"

    def __init__(self, client: openai.AsyncOpenAI) -> None:
        self._create = client.chat.completions

    def _asked(self, ask: Ask) -> dict[str, Any]:
        content: Any = "Hi"
        if ask.image:
            picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{ask.image}"}}
            content = [{"type": "text", "text": "Hi"}, picture]
        messages: list[Any] = [{"role": "user", "content": content}]
        if ask.after:
            messages += ask.after.replay
            messages += [
                {"role": "tool", "tool_call_id": call.id, "content": result}
                for call, result in zip(ask.after.calls, ask.results, strict=True)
            ]
        asked: dict[str, Any] = {"messages": messages}
        if ask.tools:
            asked["tools"] = CHAT_TOOLS
        if not ask.parallel:
            asked["parallel_tool_calls"] = False
        if ask.effort:
            asked["reasoning_effort"] = ask.effort
        if ask.stops:
            asked["stop"] = list(ask.stops)
        if ask.cap:
            asked["max_completion_tokens"] = ask.cap
        if ask.schema:
            asked["response_format"] = ask.schema
        return asked

    async def whole(self, model: str, ask: Ask) -> Received:
        """Not streamed."""
        try:
            if ask.schema:
                reply: ChatCompletion = await self._create.parse(model=model, **self._asked(ask))
            else:
                reply = await self._create.create(model=model, **self._asked(ask))
        except openai.APIError as error:
            return Received(trouble=blamed(error))
        ChatCompletion.model_validate(reply.to_dict(warnings=False), strict=True)
        return _chat_read(reply)

    async def stream(self, model: str, ask: Ask) -> Received:
        """By the helper, with usage."""
        events: list[Any] = []
        try:
            options: Any = {"include_usage": True}
            async with self._create.stream(model=model, stream_options=options, **self._asked(ask)) as stream:
                try:
                    await chat_events(stream, events)
                except openai.APIError as error:
                    received = _chat_read(stream.current_completion_snapshot)
                    received.trouble = blamed(error)
                    assert received.finish is None
                    assert not [e for e in events if e.type == "tool_calls.function.arguments.done"]
                    return received
                final = stream.current_completion_snapshot
                if not ask.tools and final.choices[0].finish_reason in _CUT:
                    with pytest.raises(_CUT[final.choices[0].finish_reason]):
                        await stream.get_final_completion()
        except openai.APIError as error:
            return Received(trouble=blamed(error))
        chunks = [event.chunk for event in events if event.type == "chunk"]
        # A text cut at a stop sequence comes without the upstream's counts (mapping §9.4: none is invented).
        judge_chat(chunks, final, counted=final.usage is not None or not ask.stops)
        received = _chat_read(final)
        received.order = _chat_order(chunks)
        received.fragments = [e.index for e in events if e.type == "tool_calls.function.arguments.delta"]
        return received

    async def raw(self, model: str, ask: Ask) -> Received:
        """By the plain iterator, without usage."""
        received = Received()
        asked = self._asked(ask)
        if ask.schema:
            schema = {"name": "City", "schema": closed(ask.schema), "strict": True}
            asked["response_format"] = {"type": "json_schema", "json_schema": schema}
        calls: dict[int, list[str]] = {}
        try:
            async for chunk in await self._create.create(model=model, stream=True, **asked):
                ChatCompletionChunk.model_validate(chunk.to_dict(warnings=False), strict=True)
                [choice] = chunk.choices  # A usage chunk is for those who ask.
                assert chunk.usage is None
                received.text += choice.delta.content or ""
                received.refusal += choice.delta.refusal or ""
                received.reasoning += getattr(choice.delta, "reasoning_content", None) or ""
                received.finish = choice.finish_reason
                for call in choice.delta.tool_calls or ():
                    assert call.function is not None
                    calls.setdefault(call.index, [call.id or "", call.function.name or "", ""])[2] += (
                        call.function.arguments or ""
                    )
        except openai.APIError as error:
            received.trouble = blamed(error)
        received.calls = [Call(*parts) for parts in calls.values()]
        return received


def _chat_read(reply: ChatCompletion) -> Received:
    [choice] = reply.choices
    message: Any = choice.message
    usage = reply.usage
    spent = None
    if usage is not None:
        given, made = usage.prompt_tokens_details, usage.completion_tokens_details
        assert given is not None
        assert made is not None
        assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
        written = getattr(given, "cache_write_tokens", None) or 0
        spent = Spent(
            usage.prompt_tokens, given.cached_tokens or 0, written, usage.completion_tokens, made.reasoning_tokens or 0
        )
    again = message.to_dict(warnings=False)
    again.pop("parsed", None)
    calls = []
    for call in again.get("tool_calls") or []:
        call.pop("index", None)  # What only the SDK's helper adds.
        call["function"].pop("parsed_arguments", None)
        calls.append(Call(call["id"], call["function"]["name"], call["function"]["arguments"]))
    return Received(
        id=reply.id,
        model=reply.model,
        text=message.content or "",
        refusal=message.refusal or "",
        reasoning=getattr(message, "reasoning_content", None) or "",
        calls=calls,
        finish=choice.finish_reason,
        spent=spent,
        parsed=getattr(message, "parsed", None),
        replay=[again],
    )


def _chat_order(chunks: list[ChatCompletionChunk]) -> list[str]:
    order: list[str] = []
    names = {"reasoning_content": "reasoning", "content": "text", "refusal": "refusal"}
    seen: set[int] = set()
    for chunk in chunks:
        for choice in chunk.choices:
            for name, kind in names.items():
                if getattr(choice.delta, name, None) and order[-1:] != [kind]:
                    order.append(kind)
            for call in choice.delta.tool_calls or ():
                if call.index not in seen:
                    seen.add(call.index)
                    order.append("call")
    return order
