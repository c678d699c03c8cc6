"""Checks of requests: they reject what the real APIs reject, where a translator can make mistakes.

Each dialect's rules are in a module of their own. `check` raises `RequestRejected` with the message and the field path
that the real API would return; it can be passed to `make_simulator`.
"""

from __future__ import annotations

from collections.abc import Mapping

from dragoman_server.simulator.error_replies import RequestRejected
from dragoman_server.simulator.parse_request import Json
from oracles.requests import chat, generate, messages, responses


def check(
    dialect: str, body: object, headers: Mapping[str, str], *, counting: bool = False, verify: bool = False
) -> Json:
    """Return the body if the real API would accept it. Raises RequestRejected.

    `counting` is True for a token-counting request. `verify` also rejects thinking and
    encrypted reasoning that the simulator did not sign.
    """
    if not isinstance(body, dict):
        raise RequestRejected("We could not parse the JSON body of your request: expected an object.")
    if dialect == "messages":
        messages.check_request(body, headers, counting=counting, verify=verify)
    elif dialect == "chat":
        chat.check_request(body)
    elif dialect == "generate":
        generate.check_request(body, counting=counting, verify=verify)
    elif counting:
        responses.check_count(body)
    else:
        responses.check_request(body)
        if verify:
            responses.check_signatures(body)
    return body
