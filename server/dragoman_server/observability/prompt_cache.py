"""Why a prompt cache missed: how far a request repeats the previous one of its conversation, and what broke it.

Kept are digests, for the key that made the requests only, and for the last conversations only. It takes as long again
as parsing the body, so it is off unless `server.prefix_diagnostics` says for how many conversations.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from dragoman.canonical.prompt_prefix import Agreement, PromptDigest, agreement, prompt_digest
from dragoman.canonical.request import Json
from dragoman.translate import Translation

SESSION_HEADERS = ("x-claude-code-session-id", "session-id", "x-session-id", "x-session-affinity")
"""By which agents tell their sessions apart."""
SIDES = 4
"""Requests remembered of one conversation: agents ask for titles and start sub-agents beside their main turns, under
the same key. A request is compared with the one that it agrees with most."""


class Prefixes:
    """The last prompts of the last `keep` conversations; the one that was silent longest goes first."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._known: dict[bytes, list[tuple[str, PromptDigest]]] = {}

    def __bool__(self) -> bool:
        return self._keep > 0

    def resize(self, keep: int) -> None:
        """Remember `keep` conversations from now on."""
        self._keep = keep
        for key in list(self._known)[: max(0, len(self._known) - keep)]:
            del self._known[key]

    def compare(
        self, translation: Translation, payload: Json, headers: Mapping[str, str], owner: bytes, request_id: str
    ) -> Json:
        """What the receipt tells of a translated request, which is then remembered. `payload` is the client's."""
        codec = translation.direction.upstream
        key = self._key(translation, payload, headers, owner)
        prompt = prompt_digest(codec, translation.body)
        asked = self._known.pop(key, [])
        best: tuple[str, Agreement] | None = None
        for earlier_id, earlier in asked:
            found = agreement(codec, earlier, prompt)
            if best is None or (found.turns, found.share) >= (best[1].turns, best[1].share):
                best = earlier_id, found
        if not asked and len(self._known) >= self._keep:
            del self._known[next(iter(self._known))]
        self._known[key] = [*asked[1 - SIDES :], (request_id, prompt)]
        told: Json = {"conversation": key.hex(), "previous": None}
        if best is not None:
            previous, found = best
            told.update(
                previous=previous,
                common_messages=found.turns,
                common_share=round(found.share, 4),
                broken_by=found.broken_by,
            )
        return told

    def _key(self, translation: Translation, payload: Json, headers: Mapping[str, str], owner: bytes) -> bytes:
        digest = blake2b(owner, digest_size=8, key=b"dragoman conversation")
        digest.update(str(translation.direction).encode())
        for name in SESSION_HEADERS:
            if session := headers.get(name):
                digest.update(f"\0{name}\0{session}".encode(errors="replace"))
                return digest.digest()
        said: object = payload
        for name in translation.direction.client.conversation:
            said = said.get(name) if isinstance(said, dict) else None
        if isinstance(said, str) and said:
            digest.update(f"\0{said}".encode(errors="replace"))
        return digest.digest()
