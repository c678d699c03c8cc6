"""The forms in which vendors refuse a request, as they were reported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vendors.sdk_types import Misfit

Json = dict[str, Any]


def _openai(found: list[Misfit]) -> Json:
    first = found[0]
    message = f"property '{first.path}' is unsupported: {first.reason}"
    return {"error": {"message": message, "type": "invalid_request_error", "param": first.path, "code": None}}


def _cerebras(found: list[Misfit]) -> Json:
    message = f"body.{found[0].path}: {found[0].reason}"
    return {
        "message": message,
        "type": "invalid_request_error",
        "param": "validation_error",
        "code": "wrong_api_format",
    }


def _mistral(found: list[Misfit]) -> Json:
    detail = [
        {"type": "extra_forbidden", "loc": ["body", *each.path.split(".")], "msg": each.reason, "input": None}
        for each in found
    ]
    return {"object": "error", "message": {"detail": detail}, "type": "invalid_request_error", "code": None}


def _anthropic(found: list[Misfit]) -> Json:
    message = f"{found[0].path}: {found[0].reason}"
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}


def _cohere(found: list[Misfit]) -> Json:
    return {"message": f"unknown field: parameter '{found[0].path}' is not a valid field."}


def _nvidia(found: list[Misfit]) -> Json:
    names = ", ".join(f"`{each.path}`" for each in found)
    return {"message": f"Validation: Unsupported parameter(s): {names}", "type": "Bad Request", "code": 400}


def _xai(found: list[Misfit]) -> Json:
    return {"code": "Client specified an invalid argument", "error": f"Argument not supported: {found[0].path}"}


FORMS: dict[str, tuple[int, Callable[[list[Misfit]], Json]]] = {
    "openai": (400, _openai),
    "cerebras": (400, _cerebras),
    "mistral": (422, _mistral),
    "anthropic": (400, _anthropic),
    "cohere": (422, _cohere),
    "nvidia": (400, _nvidia),
    "xai": (400, _xai),
}
"""The status of a request that is refused, and the body."""
