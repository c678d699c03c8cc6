"""Losses: the parts of a request or reply that could not be translated exactly (mapping §16).

Every field that is dropped or approximated is recorded with a code, its path, and what was done. In strict mode
(knob `on_loss = reject`) the first loss of a *request* is a 400 that names the field. Losses of a reply are only
recorded, as a reply that has begun cannot be rejected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple

from dragoman.errors import Path, Unsupported, dotted, is_longer
from dragoman.limits import DEFAULT_LIMITS
from dragoman.short_repr import short_repr


class LossCode(StrEnum):
    """The kinds of losses, each with its meaning. docs/reference/losses.md is generated from them."""

    meaning: str

    def __new__(cls, code: str, meaning: str = "") -> LossCode:
        """Make a code of its two texts."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    BLANK_CUT = "blank_cut", "white space that the upstream rejects was removed"
    BLOCK_ORDER = "block_order", "content next to a tool call or its result was moved"
    CACHE_HINT = "cache_hint", "an explicit cache mark was not sent"
    CALL_ARGUMENTS = "call_arguments", "a call's arguments that are no JSON object were sent as one text"
    CALL_CUT = "call_cut", "a call that was cut off has incomplete arguments and was left out"
    CALL_ID = "call_id", "a call without an id of its own was given one"
    CALL_META = "call_meta", "a call's extra data (caller, toolset, async, status) was not sent"
    CAP_ADDED = "cap_added", "the client set no output cap; the upstream requires one"
    CAP_CLAMPED = "cap_clamped", "the output cap was lowered to the model's limit"
    CAP_RAISED = "cap_raised", "the output cap was raised to the upstream's minimum"
    CHOICE_DOWNGRADED = "choice_downgraded", "a forced tool choice became auto"
    CITATIONS = "citations", "citations of a text were not sent"
    CITATIONS_REQUEST = "citations_request", "the request for citations was not sent"
    COMPACTION_SHAPE = "compaction_shape", "a compaction summary became plain text"
    CONTENT_REPLACED = (
        "content_replaced",
        "content of the history that the upstream does not take became a placeholder",
    )
    CONTEXT_MANAGEMENT = "context_management", "context management was not requested"
    CONTINUATION = "continuation", "a final assistant turn is history, or a quotation, for the upstream"
    CUSTOM_WRAPPED = (
        "custom_wrapped",
        "a free-text tool became a function with a text field; its grammar is only described",
    )
    DOCUMENT_SHAPE = "document_shape", "a document became plain text"
    EFFORT_FLOOR = "effort_floor", "reasoning cannot be switched off (or on) as requested; the nearest setting was sent"
    EFFORT_ROUNDED = "effort_rounded", "the effort level was rounded to one that the upstream has"
    FIELD_CONFIGURED = (
        "field_configured",
        "a field was left out or replaced, as the configuration of the provider says",
    )
    FIELD_OVERRIDDEN = "field_overridden", "a field was not sent, as another one with the same meaning decides"
    FINISH_FIXED = "finish_fixed", "the stop reason disagreed with the content and was corrected"
    HISTORY_SUMMARISED = "history_summarised", "old items of the conversation became a summary"
    HOSTED_HISTORY = "hosted_history", "a provider-run tool's call or result was left out of the history"
    HOSTED_TOOL = "hosted_tool", "a provider-run tool was not declared"
    IMAGE_DETAIL = "image_detail", "an image's detail hint was not sent"
    IMAGE_EVICTED = "image_evicted", "an old image became a placeholder"
    IS_ERROR = "is_error", "a tool result's error flag was not sent; its content was"
    ITEM_SHAPE = "item_shape", "an item of the history that the upstream does not have became text"
    JSON_MODE = "json_mode", "free JSON mode was not requested"
    LEAKED_FIELD = "leaked_field", "a field of another dialect than the client's was not sent"
    MAX_TOOL_CALLS = "max_tool_calls", "the cap on tool calls was not sent"
    METADATA = "metadata", "request metadata was not sent"
    MODERATION = "moderation", "moderation scores were not requested"
    NULL_ARGUMENT = "null_argument", "a null argument that the tool's schema does not accept was left out of a call"
    ORPHAN_DROPPED = "orphan_dropped", "a tool result without a call (or a call without result) was left out"
    ORPHAN_REPAIRED = "orphan_repaired", "a call without result was given an error result"
    PARALLEL_CALLS = "parallel_calls", "the request for one tool call at a time was not sent"
    PARTICIPANT_NAME = "participant_name", "a participant's name was not sent"
    PER_TURN_EFFORT = "per_turn_effort", "an effort level set inside the conversation was not sent"
    PHASE = "phase", "a message's phase was not sent"
    PREDICTION = "prediction", "predicted output was not sent"
    REASONING_ENCRYPTED = "reasoning_encrypted", "encrypted or redacted reasoning was left out"
    REASONING_FILLED = (
        "reasoning_filled",
        "calls without reasoning were sent with blank reasoning, as the upstream requires",
    )
    REASONING_EVICTED = "reasoning_evicted", "old reasoning was left out to fit the token budget"
    REASONING_FOREIGN = "reasoning_foreign", "reasoning that another provider made was left out"
    REASONING_MODE = "reasoning_mode", "a reasoning option was not sent"
    REASONING_SIGNATURE = "reasoning_signature", "a reasoning signature has no place in the client's dialect"
    REASONING_UNSIGNED = "reasoning_unsigned", "reasoning without a signature was left out"
    REFUSAL_CATEGORY = "refusal_category", "a refusal's category has no place in the client's dialect"
    REFUSAL_EXPLANATION = "refusal_explanation", "a refusal's explanation came after visible text and was left out"
    REPLY_REPAIRED = (
        "reply_repaired",
        "the upstream's reply broke its dialect's rules and was read the only possible way",
    )
    REQUEST_NOISE = "request_noise", "text that the client writes into each request for its own vendor was not sent"
    RESULT_CUT = "result_cut", "an old tool result was cut to its beginning and its end to fit the token budget"
    RESULT_MEDIA_MOVED = "result_media_moved", "media of a tool result moved into a user message after the results"
    RESULT_SHAPE = "result_shape", "a part of a tool result became text"
    SAMPLING_UNSUPPORTED = "sampling_unsupported", "a sampling parameter was not sent"
    SCHEMA_STRICTNESS = "schema_strictness", "the output schema is enforced more or less strictly than requested"
    SCHEMA_SANITISED = "schema_sanitised", "a schema was changed to one that the upstream accepts"
    SEARCH_RESULT_SHAPE = "search_result_shape", "a search result became text"
    SERVICE_TIER = "service_tier", "the service tier was not sent"
    STOP_DROPPED = "stop_dropped", "a stop sequence was not sent"
    STOP_UNKNOWN = "stop_unknown", "the upstream gave no known stop reason"
    SYSTEM_DEMOTED = "system_demoted", "an instruction became user text"
    SYSTEM_MOVED = "system_moved", "a mid-conversation instruction moved to the front"
    SYSTEM_REORDERED = "system_reordered", "an instruction moved after the next user turn"
    TASK_BUDGET = "task_budget", "the task budget was not sent"
    TEMPERATURE_CLAMPED = "temperature_clamped", "the temperature was lowered to the upstream's maximum"
    THINKING_DISABLED = "thinking_disabled", "thinking was switched off because a tool choice was forced"
    THINKING_INVALIDATED = "thinking_invalidated", "thinking after an edited turn was left out"
    THINKING_MODE = "thinking_mode", "the thinking mode was approximated"
    TOKEN_BUDGET = "token_budget", "the prompt exceeds its token budget and was sent nevertheless"
    TOOL_OPTION = "tool_option", "a tool's extra option was not sent"
    TOOL_SEARCH = "tool_search", "deferred tools were all loaded at once"
    TOOL_TIMELINE = "tool_timeline", "tools that are added and removed within the conversation became one list"
    TOOLS_FILTERED = "tools_filtered", "only the allowed subset of the tools was sent"
    TOP_K = "top_k", "top_k was not sent"
    TRUNCATION = "truncation", "automatic truncation was not requested"
    TURNS_MERGED = "turns_merged", "consecutive messages of one role became one"
    TYPED_TOOL = "typed_tool", "a tool that the client's vendor has no schema for became a function with one"
    UNKNOWN_EVENT = "unknown_event", "an unknown event, block or part of the upstream's reply was left out"
    UNKNOWN_FIELD = "unknown_field", "a field that the client's dialect does not define was not sent"
    USER_PADDED = "user_padded", "a user message was put before a conversation that begins with the assistant"
    USAGE_ESTIMATED = "usage_estimated", "the upstream gave no token counts; they are estimates or absent"
    VENDOR_BLOCK = "vendor_block", "a vendor's special block was left out"
    VENDOR_OPTION = "vendor_option", "a vendor's special option was not sent"
    VERBOSITY = "verbosity", "the requested verbosity was not sent"


class Loss(NamedTuple):
    """One loss. `path` is the client's field for a request, the upstream's for a reply; `done` states what was done."""

    code: LossCode
    path: str
    done: str

    def __str__(self) -> str:
        return f"{self.code} at {self.path}: {self.done}" if self.path else f"{self.code}: {self.done}"

    def __repr__(self) -> str:
        return short_repr(self, self.code)


class Losses:
    """The losses of one request and its reply: at most `keep` rows, and an exact count by code.

    `for loss in losses` yields the rows, `str(losses)` has a line for each, and `len(losses)` counts all losses, also
    those whose rows were not kept. Without a loss it is false.

    With `strict`, `add` raises instead. Rows are formatted and counted when they are read: the history of a long agent
    session adds hundreds, which are rarely read.
    """

    __slots__ = ("_beyond", "_once", "_rows", "keep", "may_be_rounded", "strict")

    def __init__(self, keep: int = DEFAULT_LIMITS.losses, *, strict: bool = False) -> None:
        self.strict = strict
        self.keep = keep
        self.may_be_rounded = False
        """True if the arguments of a call have a float: the parser may have rounded a longer number."""
        self._rows: list[tuple[LossCode, Path | str, str]] = []
        self._beyond: dict[LossCode, int] | None = None
        """The number of rows by code that were not kept; None if all were."""
        self._once: set[tuple[LossCode, str]] | None = None

    def restart(self) -> None:
        """Forget all losses, before the same request is read again."""
        self._rows.clear()
        self._beyond = self._once = None

    @property
    def counts(self) -> dict[LossCode, int]:
        """The number of losses by code, in the order in which each code was first added."""
        counts = Counter(code for code, _, _ in self._rows)
        counts.update(self._beyond or {})
        return dict(counts)

    @property
    def rows(self) -> list[Loss]:
        """The rows kept, in the order they were added."""
        return [Loss(code, dotted(path), done) for code, path, done in self._rows]

    def add(self, code: LossCode, path: Path | str, done: str = "dropped") -> None:
        """Record a loss. `path` is the field, `done` states what was done with it.

        Raises Unsupported in strict mode, which rejects the request.
        """
        if self.strict:
            raise Unsupported(
                path, f"cannot be sent to this upstream ({code}: {code.meaning}), and losses are rejected"
            )
        if len(self._rows) < self.keep:
            self._rows.append((code, path, done))
            return
        if self._beyond is None:
            self._beyond = {}
        self._beyond[code] = self._beyond.get(code, 0) + 1

    def note(self, code: LossCode, path: Path | str, done: str) -> None:
        """Record what Dragoman chose where the client chose nothing. Strict mode does not reject it."""
        strict, self.strict = self.strict, False
        self.add(code, path, done)
        self.strict = strict

    def add_once(self, code: LossCode, path: Path | str, done: str) -> None:
        """Record a loss that may repeat within a stream: only if no row with this code and `done` was added before."""
        if self._once is None:
            self._once = set()
        if (code, done) not in self._once:
            self._once.add((code, done))
            self.add(code, path, done)

    def add_unknown(self, path: Path | str, done: str = "dropped") -> None:
        """Record a field of a reply that has no place in the client's: once for each path, and at most `keep`."""
        if self._once is None:
            self._once = set()
        mark = LossCode.UNKNOWN_FIELD, dotted(path)
        if mark not in self._once and len(self._once) < self.keep:
            self._once.add(mark)
            self.add(LossCode.UNKNOWN_FIELD, path, done)

    def rewind(self, rows: int) -> None:
        """Drop all but the first rows, as what the others are about is not sent after all."""
        del self._rows[rows:]
        if rows < self.keep:
            self._beyond = None

    def forget(self, at: Path) -> None:
        """Drop the last rows as far as they are those of the part at `at` of the request, which is read again."""
        size = len(at)
        while self._rows and self._rows[-1][1][:size] == at:
            code, _, done = self._rows.pop()
            if self._once is not None:
                self._once.discard((code, done))

    def shorten(self, longest: int, clean: Callable[[str], str]) -> None:
        """Cut each long text to the first `longest` characters of what `clean` returns for it, before rows are kept."""
        for number, (code, path, done) in enumerate(self._rows):
            if len(done) > longest or is_longer(path, longest):
                self._rows[number] = code, clean(dotted(path))[:longest], clean(done)[:longest]

    def stop_rejecting(self) -> None:
        """End strict mode, as the request is translated."""
        self.strict = False

    def header(self) -> str:
        """Return codes and counts for a header such as `x-dragoman-loss`: `cache_hint=3, top_k=1`."""
        return ", ".join(f"{code}={count}" for code, count in sorted(self.counts.items()))

    def __repr__(self) -> str:
        return short_repr(self, len(self), self.header())

    def __iter__(self) -> Iterator[Loss]:
        return iter(self.rows)

    def __str__(self) -> str:
        lines = [str(loss) for loss in self]
        if self._beyond:
            counts = ", ".join(f"{code}={count}" for code, count in sorted(self._beyond.items()))
            lines.append(f"and {sum(self._beyond.values())} more: {counts}")
        return "\n".join(lines) or "no losses"

    def __len__(self) -> int:
        return len(self._rows) + sum(self._beyond.values()) if self._beyond else len(self._rows)
