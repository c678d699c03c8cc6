"""Child process of `converters`: calls a peer's conversion of requests, by the interpreter of the peer's environment.

It imports only the standard library and the peer. Each line of its input is an order in JSON, each line of its output
the answer: `{"convert": BODY, "client": DIALECT, "upstream": DIALECT}` returns `{"body": BODY}` or `{"error": TEXT}`;
`{"repeat": N}` then returns `{"seconds": S}`, the CPU time of N such conversions, each of a freshly parsed body. The
parsing is not timed.
"""

import gc
import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from time import thread_time
from types import SimpleNamespace
from typing import Any

Convert = Callable[[Any], Any]

_ERROR_MAX = 400
"""Maximum length of an error: some peers include the whole conversation."""

# --- LiteLLM: only the steps of its proxy that convert a request to another dialect -----------------------------------

_CLAUDE, _GPT = "claude-sonnet-4-5", "gpt-5"
"""Return the model name that selects the upstream's dialect, as a route of its proxy would."""


def _messages_to_chat() -> Convert:
    module = import_module("litellm.llms.anthropic.pass_through.adapters.transformation")
    translate = module.LiteLLMAnthropicMessagesAdapter().translate_anthropic_to_openai
    return lambda body: translate({**body, "model": _GPT}, custom_llm_provider="openai")[0]


def _messages_to_responses() -> Convert:
    module = import_module("litellm.llms.anthropic.pass_through.responses_adapters.transformation")
    translate = module.LiteLLMAnthropicToResponsesAPIAdapter().translate_request
    return lambda body: translate({**body, "model": _GPT})


def _chat_to_messages() -> Convert:
    config = import_module("litellm.llms.anthropic.chat.transformation").AnthropicConfig()

    def convert(body: Any) -> Any:
        given = {key: value for key, value in body.items() if key not in ("messages", "model", "stream")}
        messages = config.translate_developer_role_to_system_role(body["messages"])
        options = config.map_openai_params(given, {}, _CLAUDE, False)
        return config.transform_request(_CLAUDE, messages, options, {}, {})

    return convert


def _chat_to_responses() -> Convert:
    module = import_module("litellm.completion_extras.litellm_responses_transformation.transformation")
    bridge = module.LiteLLMResponsesTransformationHandler()
    log = SimpleNamespace()  # receives the name of the called API

    def convert(body: Any) -> Any:
        given = {key: value for key, value in body.items() if key not in ("messages", "model")}
        return bridge.transform_request(_GPT, body["messages"], given, {}, {}, log)

    return convert


def _responses_to_chat(model: str = _GPT, provider: str = "openai") -> Convert:
    hoist = import_module("litellm.responses.additional_tools").hoist_additional_tools
    module = import_module("litellm.responses.litellm_completion_transformation.transformation")
    transform = module.LiteLLMCompletionResponsesConfig.transform_responses_api_request_to_chat_completion_request

    def convert(body: Any) -> Any:
        found = hoist(body["input"], body.get("tools"))
        given = {**body, "tools": list(found.tools)} if found.hoisted else body
        return transform(model, found.input, given, provider, body.get("stream"))

    return convert


def _responses_to_messages() -> Convert:
    """Convert by way of Chat: there is no direct conversion."""
    to_chat, from_chat = _responses_to_chat(_CLAUDE, "anthropic"), _chat_to_messages()
    return lambda body: from_chat(to_chat(body))


_LITELLM = {
    ("messages", "chat"): _messages_to_chat,
    ("messages", "responses"): _messages_to_responses,
    ("chat", "messages"): _chat_to_messages,
    ("chat", "responses"): _chat_to_responses,
    ("responses", "chat"): _responses_to_chat,
    ("responses", "messages"): _responses_to_messages,
}


def _litellm(client: str, upstream: str) -> Convert:
    return _LITELLM[client, upstream]()


# --- llm-rosetta ------------------------------------------------------------------------------------------------------


def _rosetta(client: str, upstream: str) -> Convert:
    names = {"messages": "anthropic", "chat": "openai_chat", "responses": "openai_responses"}
    convert = import_module("llm_rosetta").convert
    return lambda body: convert(body, names[upstream], source_provider=names[client])


_PEERS = {"litellm": _litellm, "llm-rosetta": _rosetta}


def main() -> None:
    """Answer orders until stdin ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # keep the peer's output out of the answers
    convert: Convert | None = None
    raw = ""
    for line in sys.stdin:
        order = json.loads(line)
        if convert is None or "convert" in order:
            raw = json.dumps(order["convert"])
            try:
                convert = _PEERS[sys.argv[1]](order["client"], order["upstream"])
                answer = {"body": convert(json.loads(raw))}
            except Exception as error:  # report whatever the peer raises
                answer = {"error": repr(error)[:_ERROR_MAX]}
        else:
            bodies = [json.loads(raw) for _ in range(order["repeat"])]  # a conversion may change its input
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
