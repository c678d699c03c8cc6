# mypy: ignore-errors
# It runs with the packages of its own environment, not the project's.
#
# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "anthropic==2.14.0",
#     "langchain-anthropic==1.7.10",
#     "langchain-openai==1.7.4",
#     "langchain-tests==1.1.9",
#     "openai==3.57.0",
# ]
#
# [tool.uv]
# exclude-newer = "2026-11-26T00:00:00Z"
# ///
"""LangChain's standard tests of a chat model, with ChatOpenAI or ChatAnthropic before a gateway.

`python langchain_standard.py CLIENT URL` runs them. CLIENT is the dialect that the model uses, URL the gateway's
without `/v1`. Each test is a JSON line: its name, its outcome, and the reason of a failure.
"""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

import httpx
import pytest
from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests

CLIENT, URL = sys.argv[1:3]
PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"


class TestStandard(ChatModelIntegrationTests):
    """Everything that the clients can send is switched on, but what only plays recordings and what fetches sounds."""

    supports_image_inputs = True
    supports_image_tool_message = True
    supports_image_urls = True
    supports_json_mode = CLIENT != "messages"  # ChatAnthropic has no JSON mode.
    supports_pdf_inputs = True
    supports_pdf_tool_message = CLIENT != "chat"  # ChatOpenAI sends documents of tools over Responses only.
    supports_anthropic_inputs = True
    supports_model_override = True
    model_override_value = "another-model"

    @property
    def chat_model_class(self) -> type[Any]:
        return ChatAnthropic if CLIENT == "messages" else ChatOpenAI

    @property
    def chat_model_params(self) -> dict[str, Any]:
        arguments = {"api_key": "key", "max_retries": 0}
        if CLIENT == "messages":
            return {**arguments, "model": "claude-sonnet-5", "base_url": URL}
        arguments |= {"model": "gpt-5.5", "base_url": f"{URL}/v1", "stream_usage": True}
        return {**arguments, "use_responses_api": CLIENT == "responses"}


class Lines:
    """Prints the outcome of each test."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            why = "" if report.passed else str(report.longrepr)[-600:]
            print("\n" + json.dumps({"test": report.nodeid.rpartition("::")[2], "outcome": report.outcome, "why": why}))


def _fetched(url: str, **_: Any) -> httpx.Response:
    """Return the bytes of a file that the suite would fetch from the network."""
    return httpx.Response(200, content=PDF if url.endswith(".pdf") else PICTURE)


if __name__ == "__main__":
    httpx.get = _fetched
    options = ("-q", "-c", "/dev/null", "--rootdir=/", "--noconftest", "-p", "no:cacheprovider", "--tb=short")
    # The clients keep their connections, so all tests need one event loop.
    loop = ("--asyncio-mode=auto", "--override-ini=asyncio_default_test_loop_scope=session")
    sys.exit(pytest.main([*options, *loop, __file__], [Lines()]))
