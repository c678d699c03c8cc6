"""What the real APIs refuse, where a translator can go wrong. Each dialect's rules are in a module of their own.

`check` raises `Refused` with the message and field path that the real API would name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dragoman_server.simulator import validate_chat, validate_messages, validate_responses
from dragoman_server.simulator.error_replies import RequestRejected
from dragoman_server.simulator.parse_request import Json

_CHECKS: dict[str, Callable[[Json], None]] = {
    "chat": validate_chat.check_request,
    "responses": validate_responses.check_request,
}


def check(dialect: str, body: object, headers: Mapping[str, str], *, verify: bool = False) -> Json:
    """The body, if the real API would take it.

    `verify` also refuses thinking and encrypted reasoning that the simulator did not sign itself.
    Raises `Refused`.
    """
    if not isinstance(body, dict):
        raise RequestRejected("We could not parse the JSON body of your request: expected an object.")
    if dialect == "messages":
        validate_messages.check_request(body, headers, verify=verify)
    else:
        _CHECKS[dialect](body)
        if verify and dialect == "responses":
            validate_responses.check_signatures(body)
    return body


def check_count(dialect: str, body: object, headers: Mapping[str, str]) -> Json:
    """The body of a counting request: one of Messages or Responses without what concerns the answer."""
    if not isinstance(body, dict):
        raise RequestRejected("Input should be an object")
    if dialect == "messages":
        validate_messages.check_request(body, headers, counting=True)
    else:
        validate_responses.check_count(body)
    return body


def check_key(dialect: str, headers: Mapping[str, str]) -> None:
    """Any key is good, but there must be one: Bearer, or `x-api-key` on Messages."""
    scheme, _, key = headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and key.strip():
        return
    if dialect == "messages":
        if headers.get("x-api-key", "").strip():
            return
        raise RequestRejected("x-api-key header is required", status=401)
    raise RequestRejected("You didn't provide an API key in the Authorization header.", status=401)
