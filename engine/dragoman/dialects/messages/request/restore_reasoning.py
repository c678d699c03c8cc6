"""Restores enveloped reasoning in requests that are passed through to a Messages upstream (mapping §5.2, §1.7)."""

from __future__ import annotations

from dragoman.canonical.request import Json
from dragoman.dialects.messages.citations import without_envelopes
from dragoman.dialects.messages.stop_and_usage import DIALECT
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.reasoning.envelope import unwrap

_PROOF = {"thinking": "signature", "redacted_thinking": "data"}


def restore_reasoning(body: Json, profile: Profile, losses: Losses) -> bool:
    """Restore the enveloped thinking of the upstream's family; drop that of others and enveloped citations.

    Thinking without a signature, which a Chat model made, is dropped too for an upstream that verifies signatures. A
    message without any other content is dropped too, because the API rejects empty content. The messages of `body`
    are replaced, not changed. The body may be malformed: the upstream rejects it then.

    Args:
        body: the parsed request, changed at its top level.
        profile: the profile of the upstream.
        losses: where dropped blocks are recorded.

    Returns:
        True if anything was restored or dropped.
    """
    messages = body.get("messages")
    if type(messages) is not list:
        return False
    found = False
    restorer = _Restorer(profile, losses)
    kept: list[object] = []
    for number, message in enumerate(messages):
        content = message.get("content") if type(message) is dict else None
        if type(content) is list:
            blocks = restorer.restored(content, ("messages", number, "content"))
            if blocks is not None:
                found = True
                if not blocks:
                    continue
                message = {**message, "content": blocks}
        kept.append(message)
    if found:
        body["messages"] = kept
        _disable_unprovable_thinking(body, kept, losses)
    return found


def _disable_unprovable_thinking(body: Json, messages: list[object], losses: Losses) -> None:
    """Disable thinking with a budget if the running tool loop lost the thinking that it has to begin with.

    The same rule holds for translated requests (mapping §5.4).
    """
    thinking = body.get("thinking")
    if type(thinking) is not dict or thinking.get("type") != "enabled" or len(messages) < 2:
        return
    results, calls = _blocks(messages[-1], "user"), _blocks(messages[-2], "assistant")
    if not any(block.get("type") == "tool_result" for block in results):
        return
    if not calls or calls[0].get("type") in _PROOF:
        return
    losses.add(LossCode.THINKING_DISABLED, ("thinking",), "the running tool loop began without thinking")
    del body["thinking"]
    management = body.get("context_management")
    edits = management.get("edits") if type(management) is dict else None
    if type(edits) is list:
        # Edits that clear thinking need thinking to be enabled.
        kept = [
            edit for edit in edits if not (type(edit) is dict and str(edit.get("type")).startswith("clear_thinking"))
        ]
        if len(kept) < len(edits):
            losses.add(LossCode.CONTEXT_MANAGEMENT, ("context_management",), "thinking is off, so none is cleared")
            if kept:
                body["context_management"] = {**management, "edits": kept}  # type: ignore[dict-item]
            else:
                del body["context_management"]


def _blocks(message: object, role: str) -> list[Json]:
    content = message.get("content") if type(message) is dict and message.get("role") == role else None
    return [block for block in content if type(block) is dict] if type(content) is list else []


class _Restorer:
    """Restores the content of messages for one upstream."""

    def __init__(self, profile: Profile, losses: Losses) -> None:
        self._family = profile.family or DIALECT
        self._verified = profile.thinking_replay == "verify"
        self._losses = losses

    def restored(self, content: list[object], at: tuple[str | int, ...]) -> list[object] | None:
        """Return the blocks that may be sent, or None if all of them may."""
        blocks: list[object] = []
        found = False
        for index, block in enumerate(content):
            if type(block) is dict and block.get("type") == "text" and type(given := block.get("citations")) is list:
                own = without_envelopes(given)
                if len(own) < len(given):
                    found = True
                    self._losses.add(LossCode.CITATIONS, (*at, index))
                    block = {key: value for key, value in block.items() if key != "citations"} | (
                        {"citations": own} if own else {}
                    )
            proof = block.get(_PROOF.get(str(block.get("type")), "")) if type(block) is dict else None
            envelope = unwrap(proof) if type(proof) is str else None
            if envelope is None and not (proof == "" and self._verified):
                blocks.append(block)
                continue
            found = True
            if envelope is None:
                self._losses.add(LossCode.REASONING_UNSIGNED, (*at, index))
            elif envelope.dialect == DIALECT and envelope.family == self._family:
                blocks.append(envelope.block)
            else:
                self._losses.add(LossCode.REASONING_FOREIGN, (*at, index))
        return blocks if found else None
