"""The translators alone: functions from bytes to bytes, without network, clock or event loop.

A request of a Messages client becomes one for a Chat server, and the server's stream becomes one of Messages, however
its bytes were split. What the target cannot carry is a row of `losses`. Use them in a program that has an HTTP client
and a server of its own. Run it with `python translators.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from dragoman import builtin_profile, direction, translate

REQUEST = b"""{"model": "claude-sonnet-5", "max_tokens": 500, "top_k": 40, "stream": true,
"messages": [{"role": "user", "content": "Hello!"}]}"""

REPLY = b"""data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"qwen3","choices":[{"index":0,\
"delta":{"role":"assistant","content":"Hi"},"finish_reason":null}]}

data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"qwen3","choices":[{"index":0,\
"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}

data: [DONE]

"""


def lines() -> Iterator[str]:
    """Yield the upstream's request, what was lost, and the client's stream."""
    sent = translate(
        direction("messages", "chat"),  # the client's dialect, and the upstream's
        REQUEST,
        upstream_model="qwen3",
        profile=builtin_profile("chat", "vllm"),
    )
    yield f"request: {sent.body.decode()}"
    for loss in sent.losses:
        yield f"loss: {loss}"
    machine = sent.stream_machine()
    for start in range(0, len(REPLY), 100):  # as the network happens to split it
        yield from machine.feed(REPLY[start : start + 100]).decode().splitlines()
    yield from machine.finish().decode().splitlines()


if __name__ == "__main__":
    print(*lines(), sep="\n")
