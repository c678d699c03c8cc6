"""Requests by the vendors' SDKs, which read a reply or an error as their users do."""

from __future__ import annotations

from typing import Any

from dragoman_proof.chaos.scenario import Missing

DIALECTS = ("chat", "messages", "responses")


async def failure(url: str, dialect: str, model: str = "m") -> tuple[int, str]:
    """The status and the message of the error that the vendor's SDK reads; status 200 without an error."""
    try:
        import anthropic
        import openai
    except ImportError as error:
        raise Missing(f"{error.name} is not installed") from None
    messages: Any = [{"role": "user", "content": "Hi"}]
    try:
        if dialect == "messages":
            async with anthropic.AsyncAnthropic(base_url=url, api_key="x", max_retries=0, timeout=60) as vendor:
                await vendor.messages.create(model=model, max_tokens=10, messages=messages)
            return 200, ""
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0, timeout=60) as client:
            if dialect == "chat":
                await client.chat.completions.create(model=model, messages=messages)
            else:
                await client.responses.create(model=model, input="Hi")
        return 200, ""
    except (openai.APIStatusError, anthropic.APIStatusError) as error:
        body: Any = error.body
        found = body.get("error", body) if isinstance(body, dict) else {}
        return error.status_code, str(found.get("message", ""))
