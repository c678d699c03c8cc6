"""Diagnostics of prompt caches: the common prefix of a request and the previous one of its conversation.

Only digests are kept, for the last conversations of each key. It takes as long as parsing the body, so it is off unless
`server.prefix_diagnostics` sets a number of conversations.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from dragoman import Translation
from dragoman.gateway import PromptAgreement, PromptDigest
from dragoman.wire import Json

SESSION_HEADERS = ("x-claude-code-session-id", "session-id", "x-session-id", "x-session-affinity")
"""Headers in which agents send the id of a session."""
SIDES = 4
"""Most requests that are kept of one conversation. Agents request titles and run sub-agents within the same session,
so a request is compared with the one that shares the longest prefix with it."""


class PromptCacheDiagnostics:
    """The last prompts of `keep` conversations. The least recently used conversation is dropped first."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._known: dict[bytes, list[tuple[str, PromptDigest]]] = {}

    def __bool__(self) -> bool:
        return self._keep > 0

    def resize(self, keep: int) -> None:
        """Set the number of conversations to keep."""
        self._keep = keep
        for key in list(self._known)[: max(0, len(self._known) - keep)]:
            del self._known[key]

    def compare(
        self,
        prompt: PromptDigest,
        translation: Translation,
        payload: Json,
        headers: Mapping[str, str],
        owner: bytes,
        request_id: str,
    ) -> Json:
        """Keep the prompt of a translated request, and return the result for its receipt. `payload` is the client's."""
        key = self._key(translation, payload, headers, owner)
        earlier_prompts = self._known.pop(key, [])
        best: tuple[str, PromptAgreement] | None = None
        for earlier_id, earlier in earlier_prompts:
            found = earlier.agreement(prompt)
            if best is None or (found.turns, found.share) >= (best[1].turns, best[1].share):
                best = earlier_id, found
        if not earlier_prompts and len(self._known) >= self._keep:
            del self._known[next(iter(self._known))]
        self._known[key] = [*earlier_prompts[1 - SIDES :], (request_id, prompt)]
        result: Json = {"conversation": key.hex(), "previous": None}
        if best is not None:
            previous, found = best
            result.update(
                previous=previous,
                common_messages=found.turns,
                common_share=round(found.share, 4),
                broken_by=found.broken_by,
            )
        return result

    def _key(self, translation: Translation, payload: Json, headers: Mapping[str, str], owner: bytes) -> bytes:
        digest = blake2b(owner, digest_size=8, key=b"dragoman conversation")
        digest.update(str(translation.direction).encode())
        for name in SESSION_HEADERS:
            if session := headers.get(name):
                digest.update(f"\0{name}\0{session}".encode(errors="replace"))
                return digest.digest()
        value: object = payload
        for name in translation.direction.client.conversation:
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, str) and value:
            digest.update(f"\0{value}".encode(errors="replace"))
        return digest.digest()
