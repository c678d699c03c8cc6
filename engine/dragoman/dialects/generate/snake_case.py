"""Replies whose keys are in snake_case (`finish_reason`), which some relays send; the API has them in camelCase.

The names in snake_case are those of Google's protocol buffers, which JSON printers keep with
`preserving_proto_field_names`, and those of the types in Google's Python SDK.
"""

from __future__ import annotations

import re
from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.losses import LossCode, Losses

_KEY: Final = re.compile(rb'"[A-Za-z0-9]+_[A-Za-z0-9_]*"\s*:')  # from one quote to the next: linear
_LETTER: Final = re.compile(r"(?<=[a-z0-9])_([a-z])")
_DATA: Final = frozenset(("args", "response"))
"""Members of calls and results, whose keys are those of a tool."""
_LEVELS: Final = 16
"""Levels of a reply that are looked at. Those that are read are within ten."""


# fmt: off
_READ: Final = frozenset((
    "promptFeedback", "usageMetadata", "modelVersion", "responseId", "createTime", "modelStatus", "blockReason",
    "blockReasonMessage", "safetyRatings", "finishReason", "finishMessage", "citationMetadata", "groundingMetadata",
    "urlContextMetadata", "logprobsResult", "avgLogprobs", "tokenCount", "thoughtSignature", "functionCall",
    "inlineData", "fileData", "mimeType", "executableCode", "codeExecutionResult", "functionResponse", "partialArgs",
    "jsonPath", "willContinue", "promptTokenCount", "cachedContentTokenCount", "candidatesTokenCount",
    "thoughtsTokenCount", "totalTokenCount", "toolUsePromptTokenCount", "serviceTier", "groundingChunks",
    "groundingSupports", "groundingChunkIndices", "webSearchQueries", "startIndex", "endIndex", "citationSources",
    "chosenCandidates", "topCandidates", "logProbability", "urlMetadata", "retrievedUrl",
))
# fmt: on
"""Names of more than one word that are read."""


def has_snake_case(data: bytes) -> bool:
    """True if JSON may have a key in snake_case: a cheap check, for each chunk."""
    return b"_" in data and _KEY.search(data) is not None


def in_camel_case(value: Json, losses: Losses) -> Json:
    """Return a reply with its keys in camelCase, on all levels.

    It is returned as it is, unless it has a name in snake_case that is read, on any level: relays mix both.
    """
    if not _is_mixed("", value, _LEVELS):
        return value
    losses.add_once(LossCode.REPLY_REPAIRED, "", "the keys of the reply were in snake_case")
    return {name: _converted(name, member, _LEVELS) for name, member in _renamed(value)}


def _is_mixed(name: str, value: Any, levels: int) -> bool:
    if type(value) is list:
        members = [("", each) for each in value]
    elif type(value) is not dict or name in _DATA:
        return False
    else:
        members = [*value.items()]
    for key, member in members:
        if "_" in key and _camel(key) in _READ:
            return True
        if levels and (type(member) is dict or type(member) is list) and _is_mixed(key, member, levels - 1):
            return True
    return False


def _renamed(value: Json) -> list[tuple[str, Any]]:
    """Return the members of an object under their names. Of two with one name, the one in camelCase is kept."""
    return [(name, member) for key, member in value.items() if (name := _camel(key)) == key or name not in value]


def _converted(name: str, value: Any, levels: int) -> Any:
    if name in _DATA or not levels:
        return value
    if type(value) is list:
        return [_converted("", each, levels - 1) for each in value]
    if type(value) is dict:
        return {inner: _converted(inner, member, levels - 1) for inner, member in _renamed(value)}
    return value


def _camel(key: str) -> str:
    return _LETTER.sub(lambda match: match[1].upper(), key)
