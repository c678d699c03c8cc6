# mypy: ignore-errors
# LangChain is not installed where the project's types are checked.
"""LangChain through the gateway: one base URL, and each of its clients reaches each model.

`ChatOpenAI` uses Chat Completions or Responses, `ChatAnthropic` uses Messages; the gateway translates for the model
behind it. Install `langchain-openai`, start `dragoman serve --simulate`, and run `python langchain_client.py`.
"""

from __future__ import annotations

import sys

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"It rains in {city}."


def ask(url: str, key: str, model: str, *, responses: bool) -> str:
    """Let the model call the tool, return the result to it, and return its answer."""
    llm = ChatOpenAI(base_url=f"{url}/v1", api_key=key, model=model, use_responses_api=responses, stream_usage=True)
    llm = llm.bind_tools([get_weather])
    messages = [("user", "How is the weather in Oslo?")]
    chunks = list(llm.stream(messages))
    reply = sum(chunks[1:], chunks[0])
    results = [get_weather.invoke(call) for call in reply.tool_calls]
    return llm.invoke([*messages, reply, *results]).text


if __name__ == "__main__":
    url, model = sys.argv[1:] or ("http://127.0.0.1:8080", "sim-tools")
    for responses in (False, True):
        print(ask(url, "unused", model, responses=responses))
