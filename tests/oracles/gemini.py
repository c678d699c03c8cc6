"""A simulated Gemini behind Google's endpoint for Chat Completions, which checks its signatures as documented.

Its streams have the form of the real ones: a call is one fragment without an index, a reply with calls ends in `stop`,
and the text is signed in a last chunk without text. The first call of a reply is signed, of parallel calls no other
(`ai.google.dev/gemini-api/docs/thought-signatures`).
"""

from __future__ import annotations

from collections import deque
from typing import Any

import orjson
from aiohttp import web
from multidict import CIMultiDict

from dragoman_server.simulator import Received
from dragoman_server.simulator.error_replies import RequestRejected
from dragoman_server.simulator.parse_request import Json, read_chat
from dragoman_server.simulator.render_chat import whole_reply
from dragoman_server.simulator.reply import SimulatedReply, bare_frame, signature_of
from dragoman_server.simulator.scenarios import scenario_for
from oracles.requests import chat

SKIP = "skip_thought_signature_validator"
_EXTRA = "extra_content"
_UNKNOWN = frozenset({"reasoning_content", "reasoning", "reasoning_details", "annotations"})


def call_signature(call: Json) -> str:
    """The signature of a call, which no other call has."""
    return signature_of(f"call {call['id']} {call['function']['name']}")


def text_signature(text: str) -> str:
    """The signature of a reply's text."""
    return signature_of(f"text {text}")


class Gemini:
    """Replies to requests. `vendor` is the key of its signatures in `extra_content`.

    `requests` has the last ones with their statuses. With `trailing`, a stream has the signature of a call in a chunk
    of its own, behind the call.
    """

    def __init__(self, vendor: str = "google", *, trailing: bool = False) -> None:
        self.vendor = vendor
        self.trailing = trailing
        self.requests: deque[Received] = deque(maxlen=64)
        self._serial = 0

    def application(self) -> web.Application:
        """The server."""
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/v1/chat/completions", self._handle)
        return app

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = orjson.loads(await request.read())
        received = Received(request.method, request.path, {}, CIMultiDict(request.headers), body)
        self.requests.append(received)
        status, answer = self.answer(body)
        received.status = status
        if status != 200 or not body.get("stream"):
            return web.json_response(answer, status=status)
        return web.Response(body=b"".join(self.frames(answer)), content_type="text/event-stream")

    def answer(self, body: Json) -> tuple[int, Any]:
        """The status and the whole reply to a request."""
        try:
            check_signatures(body)
            plain = {**body, "messages": [_unsigned(message) for message in body["messages"]]}
            chat.check_request(plain)
        except RequestRejected as rejected:
            return 400, [{"error": {"code": 400, "message": str(rejected), "status": "INVALID_ARGUMENT"}}]
        self._serial += 1
        turn = read_chat(plain)
        # Its reasoning is shown only if it is requested in a field that no other dialect has.
        _, reply = whole_reply(scenario_for(turn), SimulatedReply(turn.model, plain, self._serial))
        choice = reply["choices"][0]
        message = choice["message"]
        message.pop("reasoning_content", None)
        del message["refusal"], message["annotations"], choice["logprobs"]
        choice["finish_reason"] = choice["finish_reason"].replace("tool_calls", "stop")
        if calls := message.get("tool_calls"):
            calls[0][_EXTRA] = {self.vendor: {"thought_signature": call_signature(calls[0])}}
        elif text := message["content"]:
            message[_EXTRA] = {self.vendor: {"thought_signature": text_signature(text)}}
        return 200, reply

    def frames(self, reply: Json) -> list[bytes]:
        """The stream of a whole reply."""
        [choice] = reply["choices"]
        message = choice["message"]
        text = message["content"] or ""
        deltas: list[Json] = [{"content": text[at : at + 7]} for at in range(0, len(text), 7)]
        late: list[Json] = []
        for call in message.get("tool_calls", ()):
            if self.trailing and _EXTRA in call:
                bare = {key: value for key, value in call.items() if key != _EXTRA}
                deltas.append({"content": None, "tool_calls": [bare]})
                deltas.append({"content": None, "tool_calls": [{_EXTRA: call[_EXTRA]}]})
            else:
                deltas.append({"content": None, "tool_calls": [call]})
        if _EXTRA in message:
            late.append({"content": "", _EXTRA: message[_EXTRA]})
        head = {key: reply[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
        chunks = [{"index": 0, "delta": {"role": "assistant", **delta}} for delta in (*deltas, *late)]
        chunks.append({"index": 0, "delta": {"role": "assistant"}, "finish_reason": choice["finish_reason"]})
        frames = [bare_frame({"choices": [chunk], **head}) for chunk in chunks[:-1]]
        return [*frames, bare_frame({"choices": chunks[-1:], **head, "usage": reply["usage"]}), b"data: [DONE]\n\n"]


def check_signatures(body: Json) -> None:
    """Raise RequestRejected for a history that Gemini 3 rejects.

    The first call of each step of the current turn, which begins with the last message of the user, must be signed. A
    signature must be that of its own call or text, or the documented value that skips the check.
    """
    messages = body["messages"]
    begin = max((n for n, message in enumerate(messages) if message["role"] == "user"), default=0)
    for number, message in enumerate(messages):
        at = f"messages[{number}]"
        if unknown := _UNKNOWN & message.keys():
            raise RequestRejected(f"Invalid JSON payload received. Unknown name \"{min(unknown)}\" at '{at}'")
        if _EXTRA in message:
            _check(_signature(message), text_signature(_text(message)), f"{at}.content")
        for position, call in enumerate(message.get("tool_calls") or ()):
            signature = _signature(call)
            if signature is not None:
                _check(signature, call_signature(call), f"{at}.tool_calls[{position}]")
            elif position == 0 and number > begin:
                name = call["function"]["name"]
                raise RequestRejected(
                    f"Function call `{name}` in the {number}. content block is missing a `thought_signature`."
                )


def _signature(holder: Json) -> str | None:
    for vendor in holder.get(_EXTRA, {}).values():
        return str(vendor["thought_signature"])
    return None


def _check(signature: str | None, own: str, at: str) -> None:
    if signature not in (own, SKIP):
        raise RequestRejected(f"Thought signature is not valid at '{at}'.")


def _text(message: Json) -> str:
    content = message["content"] or ""
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def _unsigned(message: Json) -> Json:
    plain = {key: value for key, value in message.items() if key != _EXTRA}
    if calls := plain.get("tool_calls"):
        plain["tool_calls"] = [{key: value for key, value in call.items() if key != _EXTRA} for call in calls]
    return plain
