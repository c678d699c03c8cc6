"""The controls, the edits that remove them, and the tests that must fail then.

The tests are named in `docs/explanation/threat-model.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final


class EditFails(Exception):
    """A text to be replaced does not occur exactly once."""


@dataclass(frozen=True, slots=True)
class Edit:
    """The replacement of a text that occurs once in a file."""

    file: str
    old: str
    new: str

    def apply(self, root: Path) -> str:
        """Return the text of the file in the checkout `root` with the replacement. Raises EditFails."""
        text = (root / self.file).read_text("utf-8")
        if (count := text.count(self.old)) != 1:
            raise EditFails(f"{self.file} has {count} times: {self.old!r}")
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Control:
    """A control, the edit that removes it, and the test that fails without it."""

    name: str
    edit: Edit
    test: str


_AUTH: Final = "server/dragoman_server/proxy/auth.py"
_ORIGINS: Final = "server/dragoman_server/proxy/web_origins.py"
CONTROLS: Final = (
    Control(
        "a key of the configuration is compared",
        Edit(_AUTH, "        if found:\n            return digest\n", "        return digest\n"),
        "tests/e2e/test_every_endpoint_needs_a_key.py::test_every_endpoint_needs_a_key",
    ),
    Control(
        "the secret of a named key is compared",
        Edit(
            "server/dragoman_server/accounts/keys/secret.py",
            "return compare_digest(_digest(self.salt, key), self.digest)",
            "return True",
        ),
        "tests/e2e/test_every_endpoint_needs_a_key.py::test_every_endpoint_needs_a_key",
    ),
    Control(
        "what is for admins needs an admin's key",
        Edit(_AUTH, "        if self.key is not None and not self.key.admin:\n", "        if False:\n"),
        "tests/e2e/test_named_keys.py::test_metrics_are_for_admins",
    ),
    Control(
        "a stored response belongs to the key that made it",
        Edit(_AUTH, '    return f"key:{name}"\n', '    return "key:"\n'),
        "tests/e2e/test_stored_responses.py::test_another_key_sees_nothing_of_it",
    ),
    Control(
        "a receipt belongs to the key that made it",
        Edit("server/dragoman_server/observability/receipts.py", "return receipt if mine else None", "return receipt"),
        "tests/e2e/test_named_keys.py::test_only_the_key_that_made_a_request_reads_its_receipt",
    ),
    Control(
        "a web page of another origin is rejected",
        Edit(
            _ORIGINS,
            '                raise _foreign_page(f"web pages of {origin[:100]!a}")\n',
            "                pass\n",
        ),
        "tests/e2e/test_websites.py::test_a_page_of_another_site_is_refused_and_nothing_is_spent",
    ),
    Control(
        "only known host names are served",
        Edit(_ORIGINS, "                raise _foreign_host(host)\n", "                pass\n"),
        "tests/e2e/test_websites.py::test_a_name_that_a_page_has_pointed_here_is_refused",
    ),
    Control(
        "a body is read up to its limit, also while it is decompressed",
        Edit(
            "server/dragoman_server/proxy/request_body.py",
            "                    if size > limit:\n                        raise _too_long(limit)\n",
            "",
        ),
        "tests/hostile/test_refused_compressed_bodies.py"
        "::test_a_body_that_expands_beyond_the_limit_is_refused_at_the_limit",
    ),
    Control(
        "a model's name stays one part of the upstream's path",
        Edit("engine/dragoman/dialects/facts.py", 'quote(model, safe="@", errors="replace")', "model"),
        "tests/e2e/test_doors.py::test_a_model_name_cannot_leave_its_place_in_the_url",
    ),
    Control(
        "a repeated key of an object is rejected",
        Edit(
            "engine/dragoman/dialects/passthrough_request.py",
            "    if (key := repeated_key(body, payload)) is not None:\n",
            "    if (key := repeated_key(body, payload)) is not None and False:\n",
        ),
        "tests/e2e/test_repeated_keys.py::test_a_repeated_key_is_refused_and_nothing_is_sent",
    ),
    Control(
        "configured keys are masked in all texts of upstreams",
        Edit(
            "engine/dragoman/dialects/errors/redact.py",
            "            text = text.replace(secret, MASK)\n",
            "            pass\n",
        ),
        "tests/e2e/test_no_secret_leaves.py::test_a_canary_that_the_upstream_echoes_is_nowhere",
    ),
    Control(
        "a frame of a WebSocket client must be masked",
        Edit(
            "engine/dragoman/aio/downstream/masked_frames.py",
            "            if size - start >= 2 and not data[start + 1] & 0x80:\n",
            "            if False:\n",
        ),
        "tests/hostile/test_websocket_frames.py::test_an_unmasked_frame_closes_the_connection",
    ),
    Control(
        "budgets count what open requests reserve",
        Edit(
            "server/dragoman_server/accounts/limits/decision.py",
            "        reserved = state.held.get((name, period), 0)\n        if spent",
            "        reserved = 0\n        if spent",
        ),
        "tests/e2e/test_reserved_budgets.py::test_parallel_requests_do_not_exceed_a_budget_of_cost",
    ),
    Control(
        "the head of an upstream's reply has a limit",
        Edit(
            "engine/dragoman/aio/upstream/http11/response_input.py",
            "            if self._bytes_left < 0 and not parser.status:\n",
            "            if False:\n",
        ),
        "tests/transport/test_transport_broken.py::test_an_endless_head_is_given_up",
    ),
    Control(
        "a connection on which bytes are left is not used again",
        Edit(
            "engine/dragoman/aio/upstream/http11/response_input.py",
            '            if self.phase == "IDLE":\n                self.abort()\n',
            "            pass\n",
        ),
        "tests/transport/test_transport_pool.py::test_unexpected_bytes_end_an_idle_connection",
    ),
    Control(
        "each client has a place in a provider's queue",
        Edit(
            "server/dragoman_server/routing/slots.py",
            "            longest = self._longest(owner)\n            if longest is None:\n",
            "            longest = None\n            if longest is None:\n",
        ),
        "tests/hostile/test_queue_of_one_client.py::test_a_full_queue_has_room_for_another_client",
    ),
)
"""The controls that are removed."""
