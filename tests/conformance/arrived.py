"""The requests that reached the upstream, read from each dialect's own body into one form."""

from __future__ import annotations

from typing import Any

DATA = "data:image/png;base64,"


def tools(upstream: str, body: Any) -> list[tuple[str, str, Any]]:
    """(name, description, schema) of each tool. Responses must state that they are not strict."""
    match upstream:
        case "chat":
            plain = [tool["function"] for tool in body["tools"]]
            return [(tool["name"], tool["description"], tool["parameters"]) for tool in plain]
        case "messages":
            return [(tool["name"], tool["description"], tool["input_schema"]) for tool in body["tools"]]
        case "generate":
            [declared] = body["tools"]
            functions = declared["functionDeclarations"]
            return [(tool["name"], tool["description"], tool["parametersJsonSchema"]) for tool in functions]
        case _:
            assert [tool["strict"] for tool in body["tools"]] == [False] * len(body["tools"])
            return [(tool["name"], tool["description"], tool["parameters"]) for tool in body["tools"]]


def images(upstream: str, body: Any) -> list[str]:
    """The base64 of the pictures of the last user message."""
    found: list[str] = []
    if upstream == "generate":
        pictures = [part["inlineData"] for part in body["contents"][-1]["parts"] if "inlineData" in part]
        assert {picture["mimeType"] for picture in pictures} == {"image/png"}
        return [picture["data"] for picture in pictures]
    last = (body["input"] if upstream == "responses" else body["messages"])[-1]
    for part in last["content"]:
        match part["type"]:
            case "image_url":
                assert part["image_url"]["url"].startswith(DATA)
                found.append(part["image_url"]["url"].removeprefix(DATA))
            case "image":
                assert (part["source"]["type"], part["source"]["media_type"]) == ("base64", "image/png")
                found.append(part["source"]["data"])
            case "input_image":
                assert part["image_url"].startswith(DATA)
                found.append(part["image_url"].removeprefix(DATA))
    return found


def schema(upstream: str, body: Any) -> Any:
    """The requested schema; on the OpenAI dialects it is named and strict."""
    match upstream:
        case "chat":
            form = body["response_format"]["json_schema"]
            assert body["response_format"]["type"] == "json_schema"
        case "messages":
            assert set(body["output_config"]["format"]) == {"type", "schema"}
            return body["output_config"]["format"]["schema"]
        case "generate":
            assert body["generationConfig"]["responseMimeType"] == "application/json"
            return body["generationConfig"]["responseJsonSchema"]
        case _:
            form = body["text"]["format"]
            assert form["type"] == "json_schema"
    assert form["name"]
    assert form["strict"] is True
    return form["schema"]


def cap(upstream: str, body: Any) -> int | None:
    """The output cap."""
    if upstream == "generate":
        body = body.get("generationConfig", {})
    name = {
        "generate": "maxOutputTokens",
        "chat": "max_completion_tokens",
        "messages": "max_tokens",
        "responses": "max_output_tokens",
    }[upstream]
    value: int | None = body.get(name)
    return value


def effort(upstream: str, body: Any) -> str | None:
    """The reasoning effort; Messages is asked to think, or not to."""
    value: str | None
    match upstream:
        case "chat":
            value = body.get("reasoning_effort")
        case "messages" if body["thinking"]["type"] == "disabled":
            value = "none"
        case "messages":
            assert body["thinking"]["type"] == "adaptive"
            value = body["output_config"]["effort"]
        case "generate":
            value = body["generationConfig"]["thinkingConfig"]["thinkingLevel"].lower()
        case _:
            value = body["reasoning"]["effort"]
    return value


def stops(upstream: str, body: Any) -> list[str]:
    """The stop sequences."""
    if upstream == "generate":
        body = body["generationConfig"]
    value = (
        body.get(
            {"generate": "stopSequences", "chat": "stop", "messages": "stop_sequences", "responses": "stop"}[upstream]
        )
        or []
    )
    return [value] if isinstance(value, str) else list(value)


def results(upstream: str, body: Any) -> list[tuple[str, str]]:
    """(call id, text) of the tool results."""
    match upstream:
        case "chat":
            found = [m for m in body["messages"] if m["role"] == "tool"]
            return [(m["tool_call_id"], m["content"]) for m in found]
        case "messages":
            blocks = [b for m in body["messages"] if isinstance(m["content"], list) for b in m["content"]]
            return [(b["tool_use_id"], b["content"]) for b in blocks if b["type"] == "tool_result"]
        case "generate":
            parts = [part for content in body["contents"] for part in content["parts"]]
            responses = [part["functionResponse"] for part in parts if "functionResponse" in part]
            return [(each["id"], each["response"]["output"]) for each in responses]
        case _:
            outputs = [item for item in body["input"] if item.get("type") == "function_call_output"]
            return [(item["call_id"], item["output"]) for item in outputs]


def reasoning(upstream: str, body: Any) -> list[Any]:
    """The reasoning in the history, as the upstream's dialect has it."""
    match upstream:
        case "chat":
            return [m["reasoning_content"] for m in body["messages"] if m.get("reasoning_content")]
        case "messages":
            blocks = [b for m in body["messages"] if isinstance(m["content"], list) for b in m["content"]]
            return [b for b in blocks if b["type"] == "thinking"]
        case "generate":  # signatures, without the reasoning
            parts = [part for content in body["contents"] for part in content["parts"]]
            return [part["thoughtSignature"] for part in parts if "thoughtSignature" in part]
        case _:
            return [item for item in body["input"] if item.get("type") == "reasoning"]
