"""The child of `converters`: calls a peer's own conversion of requests, by the interpreter of the peer's environment.

It needs nothing but the standard library and the peer. Each line of its input is an order in JSON, each line of its
output the answer: `{"convert": BODY, "client": DIALECT, "upstream": DIALECT}` gives `{"body": BODY}` or `{"error":
WORDS}`, and from then on `{"repeat": N}` the CPU `{"seconds": S}` of N such conversions, each of a body parsed anew
before the clock runs.
"""

import gc
import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from time import thread_time
from typing import Any

_MODEL = "claude-sonnet-4-5"  # LiteLLM goes by the name


def _litellm(client: str, upstream: str) -> Callable[[Any], Any]:
    """LiteLLM's conversions, as its own handlers call them."""
    if (client, upstream) == ("messages", "chat"):
        module = import_module("litellm.llms.anthropic.pass_through.adapters.transformation")
        adapter = module.LiteLLMAnthropicMessagesAdapter()
        return lambda body: adapter.translate_anthropic_to_openai(body)[0]
    config = import_module("litellm.llms.anthropic.chat.transformation").AnthropicConfig()

    def convert(body: Any) -> Any:
        given = {key: value for key, value in body.items() if key not in ("messages", "model", "stream")}
        options = config.map_openai_params(given, {}, _MODEL, False)
        return config.transform_request(_MODEL, body["messages"], options, {}, {})

    return convert


def _rosetta(client: str, upstream: str) -> Callable[[Any], Any]:
    names = {"messages": "anthropic", "chat": "openai_chat", "responses": "openai_responses"}
    convert = import_module("llm_rosetta").convert
    return lambda body: convert(body, names[upstream], source_provider=names[client])


_PEERS = {"litellm": _litellm, "llm-rosetta": _rosetta}


def main() -> None:
    """Answer orders until there are no more."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the peer prints is no answer
    convert: Callable[[Any], Any] | None = None
    raw = ""
    for line in sys.stdin:
        order = json.loads(line)
        if convert is None or "convert" in order:
            raw = json.dumps(order["convert"])
            convert = _PEERS[sys.argv[1]](order["client"], order["upstream"])
            try:
                answer = {"body": convert(json.loads(raw))}
            except Exception as error:  # whatever the peer raises is told
                answer = {"error": repr(error)}
        else:
            bodies = [json.loads(raw) for _ in range(order["repeat"])]  # a conversion may change what it is given
            gc.collect()
            gc.disable()
            begun = thread_time()
            for body in bodies:
                convert(body)
            answer = {"seconds": thread_time() - begun}
            gc.enable()
        print(json.dumps(answer, default=str), file=answers, flush=True)


if __name__ == "__main__":
    main()
