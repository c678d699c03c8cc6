"""Checks of requests to Gemini's `generateContent` and `countTokens`, as Google documents them.

The fields are those of ai.google.dev/api/generate-content and ai.google.dev/api/caching; the rules of signatures are
those of `ai.google.dev/gemini-api/docs/thought-signatures` for the models of the line 3.
"""

from __future__ import annotations

import base64
import re
from itertools import pairwise
from typing import Any

from dragoman_server.simulator.error_replies import RequestRejected
from dragoman_server.simulator.parse_request import Json
from dragoman_server.simulator.render_generate import call_signature, text_signature
from oracles.requests.json_rules import words

SKIP = "skip_thought_signature_validator"
TOP = words(
    "cachedContent contents generationConfig labels safetySettings serviceTier store systemInstruction toolConfig tools"
)
_CONTENT = words("parts role")
_DATA = words(
    "codeExecutionResult executableCode fileData functionCall functionResponse inlineData text toolCall toolResponse"
)
_PART = _DATA | words("mediaResolution partMetadata thought thoughtSignature videoMetadata")
_OF_DATA = {
    "fileData": words("fileUri mimeType"),
    "functionCall": words("args id name"),
    "functionResponse": words("id name parts response"),
    "inlineData": words("data mimeType"),
}
_TOOL = words("codeExecution computerUse fileSearch functionDeclarations googleMaps googleSearch urlContext")
_FUNCTION = words("behavior description name parameters parametersJsonSchema response responseJsonSchema")
_CONFIG = words(
    "candidateCount frequencyPenalty imageConfig logprobs maxOutputTokens mediaResolution presencePenalty "
    "responseJsonSchema responseLogprobs responseMimeType responseModalities responseSchema seed speechConfig "
    "stopSequences temperature thinkingConfig topK topP"
)
_THINKING = words("includeThoughts thinkingBudget thinkingLevel")
_LEVELS = words("MINIMAL LOW MEDIUM HIGH XHIGH")
_RESOLUTIONS = words("MEDIA_RESOLUTION_LOW MEDIA_RESOLUTION_MEDIUM MEDIA_RESOLUTION_HIGH MEDIA_RESOLUTION_ULTRA_HIGH")
_CALLING = words("allowedFunctionNames mode")
_MODES = words("AUTO ANY NONE VALIDATED")
_TIERS = words("flex standard priority")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}\Z")
_STOPS = 5


def check_request(body: Json, *, counting: bool = False, verify: bool = False) -> None:
    """Raise RequestRejected if the real API would answer 400.

    `counting` is True for a request of `countTokens`. `verify` also rejects signatures that the simulator did not make.
    """
    if counting:
        _known(body, words("contents generateContentRequest"), "")
        if "generateContentRequest" in body:
            _require("contents" not in body, "contents and generateContentRequest are mutually exclusive")
            body = dict(body["generateContentRequest"])
            _require(str(body.pop("model", "")).startswith("models/"), "model: unexpected model name format")
    _known(body, TOP, "")
    contents = body.get("contents")
    _require(isinstance(contents, list) and bool(contents), "contents is not specified")
    if "systemInstruction" in body:
        _known(body["systemInstruction"], _CONTENT, "system_instruction")
        for part in body["systemInstruction"]["parts"]:
            _require(part.keys() == {"text"}, "system_instruction: only text is supported")
    names = _check_tools(body.get("tools") or [])
    _check_calling(body.get("toolConfig") or {}, names)
    _check_config(body.get("generationConfig") or {})
    _require(body.get("serviceTier", "standard") in _TIERS, "service_tier: unknown value")
    for number, content in enumerate(body["contents"]):
        _check_content(content, f"contents[{number}]")
    _check_order(body["contents"])
    _check_signatures(body["contents"], verify=verify)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise RequestRejected(message)


def _known(value: Any, known: frozenset[str], at: str) -> None:
    _require(isinstance(value, dict), f"Invalid value at '{at}'")
    for name in value.keys() - known:
        where = f" at '{at}'" if at else ""
        raise RequestRejected(f'Invalid JSON payload received. Unknown name "{name}"{where}: Cannot find field.')


def _check_tools(tools: list[Json]) -> set[str]:
    """Return the names of the functions."""
    names: list[str] = []
    for number, tool in enumerate(tools):
        _known(tool, _TOOL, f"tools[{number}]")
        for position, function in enumerate(tool.get("functionDeclarations", ())):
            at = f"tools[{number}].function_declarations[{position}]"
            _known(function, _FUNCTION, at)
            _require(bool(_NAME.match(function.get("name", ""))), f"{at}.name: Invalid function name")
            _require(not {"parameters", "parametersJsonSchema"} <= function.keys(), f"{at}: two schemas")
            names.append(function["name"])
    _require(len(names) == len(set(names)), "Duplicate function declaration found")
    return set(names)


def _check_calling(config: Json, names: set[str]) -> None:
    _known(config, words("functionCallingConfig retrievalConfig includeServerSideToolInvocations"), "tool_config")
    calling = config.get("functionCallingConfig") or {}
    _known(calling, _CALLING, "tool_config.function_calling_config")
    mode, allowed = calling.get("mode", "AUTO"), calling.get("allowedFunctionNames", [])
    _require(mode in _MODES, f"tool_config.function_calling_config.mode: unknown value {mode!r}")
    _require(not allowed or mode in ("ANY", "VALIDATED"), "allowed_function_names needs the mode ANY or VALIDATED")
    _require(names.issuperset(allowed), "allowed_function_names: a function is not declared")
    _require(mode != "ANY" or bool(names), "Function calling mode is ANY but no function declarations are provided")


def _check_config(config: Json) -> None:
    _known(config, _CONFIG, "generation_config")
    thinking = config.get("thinkingConfig") or {}
    _known(thinking, _THINKING, "generation_config.thinking_config")
    _require(not {"thinkingBudget", "thinkingLevel"} <= thinking.keys(), "You can only set one of budget and level")
    _require(thinking.get("thinkingLevel", "LOW") in _LEVELS, "thinking_level: unknown value")
    _require(len(config.get("stopSequences", ())) <= _STOPS, f"stop_sequences: at most {_STOPS}")
    _require(0 <= config.get("temperature", 0) <= 2, "temperature must be in the range [0, 2]")
    _require(0 <= config.get("topP", 0) <= 1, "top_p must be in the range [0, 1]")
    _require(config.get("maxOutputTokens", 1) > 0, "max_output_tokens must be positive")
    for penalty in ("presencePenalty", "frequencyPenalty"):
        _require(not config.get(penalty), "Penalty is not enabled for this model")
    schemas = {"responseJsonSchema", "responseSchema"} & config.keys()
    as_json = config.get("responseMimeType") == "application/json"
    _require(not schemas or as_json, "response_schema needs the response_mime_type application/json")
    _require(len(schemas) < 2, "response_schema and response_json_schema are mutually exclusive")


def _check_content(content: Json, at: str) -> None:
    _known(content, _CONTENT, at)
    _require(content.get("role", "user") in ("user", "model"), f"{at}: Please use a valid role: user, model.")
    parts = content.get("parts")
    _require(isinstance(parts, list) and bool(parts), f"{at}.parts: must not be empty")
    for number, part in enumerate(content["parts"]):
        place = f"{at}.parts[{number}]"
        _known(part, _PART, place)
        kinds = _DATA & part.keys()
        _require(len(kinds) == 1, f"{place}.data: required oneof field 'data' must have one initialized field")
        [kind] = kinds
        if kind in _OF_DATA:
            _known(part[kind], _OF_DATA[kind], f"{place}.{kind}")
        model = content.get("role") == "model"
        _require(kind != "functionCall" or model, f"{place}: a function call needs the role model")
        _require(kind != "functionResponse" or not model, f"{place}: a function response needs the role user")
        if kind in ("functionCall", "functionResponse"):
            _require(bool(_NAME.match(part[kind].get("name", ""))), f"{place}.{kind}.name: Name cannot be empty.")
        if kind == "inlineData":
            _base64(part[kind]["data"], f"{place}.inline_data.data")
        if "mediaResolution" in part:
            _require(part["mediaResolution"].get("level") in _RESOLUTIONS, f"{place}.media_resolution.level")
        if "thoughtSignature" in part:
            _base64(part["thoughtSignature"], f"{place}.thought_signature")


def _base64(value: Any, at: str) -> None:
    try:
        standard = value.rstrip("=").replace("-", "+").replace("_", "/")
        base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except (AttributeError, ValueError):
        raise RequestRejected(f"Invalid value at '{at}' (TYPE_BYTES), Base64 decoding failed") from None


def _calls(content: Json) -> list[Json]:
    return [part["functionCall"] for part in content["parts"] if "functionCall" in part]


def _results(content: Json) -> list[Json]:
    return [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]


def _check_order(contents: list[Json]) -> None:
    """Roles alternate, and each call has one result, in the order of the calls, in the content after it."""
    _require(contents[0].get("role", "user") == "user", "Please ensure that the first content has the role user.")
    for before, content in pairwise(contents):
        alternate = before.get("role", "user") != content.get("role", "user")
        _require(alternate, "Please ensure that multiturn requests alternate between user and model.")
    for before, content in pairwise(({"parts": []}, *contents, {"parts": []})):
        calls, results = _calls(before), _results(content)
        _require(
            len(calls) == len(results),
            "Please ensure that the number of function response parts is equal to the number of function call parts "
            "of the function call turn.",
        )
        for call, result in zip(calls, results, strict=True):
            same = call["name"] == result["name"] and call.get("id") == result.get("id")
            _require(same, "Please ensure that function responses have the names, ids and order of the calls.")


def _check_signatures(contents: list[Json], *, verify: bool) -> None:
    """The first call of each step of the current turn, which begins with the last words of the user, is signed."""
    begin = max((n for n, each in enumerate(contents) if each.get("role") != "model" and not _results(each)), default=0)
    for number, content in enumerate(contents):
        signed = [part for part in content["parts"] if "functionCall" in part]
        for position, part in enumerate(signed):
            call, signature = part["functionCall"], part.get("thoughtSignature")
            missing = signature is None and position == 0 and number > begin
            _require(
                not missing,
                f"Function call `{call['name']}` in the {number}. content block is missing a `thought_signature`.",
            )
            own = call_signature(call["name"], call.get("args", {}))
            _require(not verify or signature in (None, SKIP, own), "Thought signature is not valid")
        texts = [part for part in content["parts"] if "text" in part and not part.get("thought")]
        own = text_signature("".join(part["text"] for part in texts))
        for part in texts:
            _require(not verify or part.get("thoughtSignature") in (None, own), "Thought signature is not valid")
