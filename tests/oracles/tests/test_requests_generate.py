"""The oracle of Gemini's requests rejects what Google rejects."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman_server.simulator.error_replies import RequestRejected
from dragoman_server.simulator.render_generate import call_signature
from oracles.requests import check

Json = dict[str, Any]
TOOLS = [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": {"type": "object"}}]}]


def user(*parts: Json) -> Json:
    return {"role": "user", "parts": [*parts]}


def model(*parts: Json) -> Json:
    return {"role": "model", "parts": [*parts]}


def call(name: str = "f", **fields: Any) -> Json:
    return {"functionCall": {"id": "c1", "name": name, "args": {}}, **fields}


def result(**fields: Any) -> Json:
    return {"functionResponse": {"id": "c1", "name": "f", "response": {"output": "ok"}, **fields}}


HI = user({"text": "Hi"})
SIGNED = {"thoughtSignature": call_signature("f", {})}
FOREIGN = {"thoughtSignature": "AAAA"}
SKIPPED = {"thoughtSignature": "skip_thought_signature_validator"}
ACCEPTED: list[Json] = [
    {"contents": [HI]},
    {"contents": [{"parts": [{"text": "Hi"}]}], "systemInstruction": {"parts": [{"text": "Be brief."}]}},
    {"contents": [HI, model(call(**SIGNED)), user(result())], "tools": TOOLS},
    {"contents": [HI, model(call(**SKIPPED)), user(result())], "tools": TOOLS},
    # Calls before the last words of the user are not checked.
    {"contents": [HI, model(call()), user(result()), model({"text": "Done"}), HI], "tools": TOOLS},
    {"contents": [HI, model(call(**SIGNED), call()), user(result(), result())], "tools": TOOLS},
    {
        "contents": [HI],
        "tools": TOOLS,
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
        "generationConfig": {
            "temperature": 1,
            "thinkingConfig": {"thinkingLevel": "HIGH", "includeThoughts": True},
            "responseMimeType": "application/json",
            "responseJsonSchema": {"type": "object"},
        },
    },
]
REJECTED: list[tuple[str, Json]] = [
    ('Unknown name "model"', {"model": "m", "contents": [HI]}),
    ('Unknown name "messages"', {"messages": [], "contents": [HI]}),
    ('"strict" at', {"contents": [HI], "tools": [{"functionDeclarations": [{"name": "f", "strict": True}]}]}),
    ("not specified", {"contents": []}),
    ("valid role", {"contents": [{"role": "assistant", "parts": [{"text": "x"}]}]}),
    ("alternate", {"contents": [HI, HI]}),
    ("role user", {"contents": [model({"text": "x"}), HI]}),
    ("oneof field", {"contents": [user({"text": "x", "inlineData": {}})]}),
    ("oneof field", {"contents": [user({"thought": True})]}),
    ("must not be empty", {"contents": [user()]}),
    ("number of function response", {"contents": [HI, model(call(**SIGNED))], "tools": TOOLS}),
    ("number of function response", {"contents": [HI, model(call(**SIGNED), call()), user(result())]}),
    ("number of function response", {"contents": [user(result())]}),
    ("order of the calls", {"contents": [HI, model(call(**SIGNED)), user(result(id="c2"))]}),
    ("order of the calls", {"contents": [HI, model(call(**SIGNED)), user(result(name="g"))]}),
    ("missing a `thought_signature`", {"contents": [HI, model(call()), user(result())]}),
    ("not valid", {"contents": [HI, model(call(**FOREIGN)), user(result())]}),
    ("Base64", {"contents": [HI, model(call(thoughtSignature="dgm1.x")), user(result())]}),
    ("Base64", {"contents": [user({"inlineData": {"mimeType": "image/png", "data": "?"}})]}),
    ("Invalid function name", {"contents": [HI], "tools": [{"functionDeclarations": [{"name": "1f"}]}]}),
    ("Duplicate", {"contents": [HI], "tools": [*TOOLS, *TOOLS]}),
    ("unknown value", {"contents": [HI], "toolConfig": {"functionCallingConfig": {"mode": "auto"}}}),
    ("not declared", {"contents": [HI], "toolConfig": {"functionCallingConfig": {
        "mode": "ANY", "allowedFunctionNames": ["f"]}}}),
    ("needs the mode", {"contents": [HI], "tools": TOOLS, "toolConfig": {"functionCallingConfig": {
        "mode": "AUTO", "allowedFunctionNames": ["f"]}}}),
    ("one of budget", {"contents": [HI], "generationConfig": {"thinkingConfig": {
        "thinkingBudget": 1, "thinkingLevel": "LOW"}}}),
    ("at most 5", {"contents": [HI], "generationConfig": {"stopSequences": ["x"] * 6}}),
    ("Penalty", {"contents": [HI], "generationConfig": {"presencePenalty": 0.5}}),
    ("response_mime_type", {"contents": [HI], "generationConfig": {"responseJsonSchema": {}}}),
    ("service_tier", {"contents": [HI], "serviceTier": "auto"}),
]  # fmt: skip


@pytest.mark.parametrize("body", ACCEPTED)
def test_it_accepts(body: Json) -> None:
    check("generate", body, {}, verify=True)


@pytest.mark.parametrize(("message", "body"), REJECTED)
def test_it_rejects(message: str, body: Json) -> None:
    with pytest.raises(RequestRejected, match=message):
        check("generate", body, {}, verify=True)


def test_a_request_to_count_has_the_whole_request() -> None:
    whole = {"model": "models/m", "contents": [HI], "tools": TOOLS}
    check("generate", {"generateContentRequest": whole}, {}, counting=True)
    check("generate", {"contents": [HI]}, {}, counting=True)
    for body in ({"contents": [HI], "tools": TOOLS}, {"generateContentRequest": {**whole, "model": "m"}}):
        with pytest.raises(RequestRejected):
            check("generate", body, {}, counting=True)
