"""Losses: the parts of a request or reply that could not be translated exactly (mapping §16).

Every field that is dropped or approximated is recorded with a code, its path, and what was done. In strict mode
(knob `on_loss = reject`) the first loss of a *request* is a 400 that names the field. Losses of a reply are only
recorded, as a reply that has begun cannot be rejected.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import NamedTuple

from dragoman.errors import Path, Unsupported, dotted
from dragoman.limits import DEFAULT_LIMITS


class LossCode(StrEnum):
    """The kinds of losses. `LOSS_MEANINGS` describes them; docs/reference/losses.md is generated from it."""

    BLANK_CUT = "blank_cut"
    BLOCK_ORDER = "block_order"
    CACHE_HINT = "cache_hint"
    CALL_CUT = "call_cut"
    CALL_ID = "call_id"
    CALL_META = "call_meta"
    CAP_CLAMPED = "cap_clamped"
    CAP_RAISED = "cap_raised"
    CHOICE_DOWNGRADED = "choice_downgraded"
    CITATIONS = "citations"
    CITATIONS_REQUEST = "citations_request"
    COMPACTION_SHAPE = "compaction_shape"
    CONTEXT_MANAGEMENT = "context_management"
    CONTINUATION = "continuation"
    CUSTOM_WRAPPED = "custom_wrapped"
    DOCUMENT_SHAPE = "document_shape"
    EFFORT_FLOOR = "effort_floor"
    EFFORT_ROUNDED = "effort_rounded"
    FINISH_FIXED = "finish_fixed"
    HOSTED_HISTORY = "hosted_history"
    HOSTED_TOOL = "hosted_tool"
    IMAGE_DETAIL = "image_detail"
    IMAGE_EVICTED = "image_evicted"
    IS_ERROR = "is_error"
    JSON_MODE = "json_mode"
    LEAKED_FIELD = "leaked_field"
    MAX_TOOL_CALLS = "max_tool_calls"
    METADATA = "metadata"
    MODERATION = "moderation"
    NULL_ARGUMENT = "null_argument"
    ORPHAN_DROPPED = "orphan_dropped"
    ORPHAN_REPAIRED = "orphan_repaired"
    PARALLEL_CALLS = "parallel_calls"
    PARTICIPANT_NAME = "participant_name"
    PER_TURN_EFFORT = "per_turn_effort"
    PHASE = "phase"
    PREDICTION = "prediction"
    REASONING_ENCRYPTED = "reasoning_encrypted"
    REASONING_FILLED = "reasoning_filled"
    REASONING_EVICTED = "reasoning_evicted"
    REASONING_FOREIGN = "reasoning_foreign"
    REASONING_MODE = "reasoning_mode"
    REASONING_SIGNATURE = "reasoning_signature"
    REASONING_UNSIGNED = "reasoning_unsigned"
    REFUSAL_CATEGORY = "refusal_category"
    REFUSAL_EXPLANATION = "refusal_explanation"
    REPLY_REPAIRED = "reply_repaired"
    REQUEST_NOISE = "request_noise"
    RESULT_CUT = "result_cut"
    RESULT_MEDIA_MOVED = "result_media_moved"
    RESULT_SHAPE = "result_shape"
    SAMPLING_UNSUPPORTED = "sampling_unsupported"
    SCHEMA_STRICTNESS = "schema_strictness"
    SCHEMA_SANITISED = "schema_sanitised"
    SEARCH_RESULT_SHAPE = "search_result_shape"
    SERVICE_TIER = "service_tier"
    STOP_DROPPED = "stop_dropped"
    STOP_UNKNOWN = "stop_unknown"
    SYSTEM_DEMOTED = "system_demoted"
    SYSTEM_MOVED = "system_moved"
    SYSTEM_REORDERED = "system_reordered"
    TASK_BUDGET = "task_budget"
    TEMPERATURE_CLAMPED = "temperature_clamped"
    THINKING_DISABLED = "thinking_disabled"
    THINKING_INVALIDATED = "thinking_invalidated"
    THINKING_MODE = "thinking_mode"
    TOKEN_BUDGET = "token_budget"
    TOOL_OPTION = "tool_option"
    TOOL_SEARCH = "tool_search"
    TOOL_TIMELINE = "tool_timeline"
    TOOLS_FILTERED = "tools_filtered"
    TOP_K = "top_k"
    TRUNCATION = "truncation"
    TURNS_MERGED = "turns_merged"
    UNKNOWN_EVENT = "unknown_event"
    UNKNOWN_FIELD = "unknown_field"
    USER_PADDED = "user_padded"
    USAGE_ESTIMATED = "usage_estimated"
    VENDOR_BLOCK = "vendor_block"
    VENDOR_OPTION = "vendor_option"
    VERBOSITY = "verbosity"


LOSS_MEANINGS: dict[LossCode, str] = {
    LossCode.BLANK_CUT: "white space that the upstream rejects was removed",
    LossCode.BLOCK_ORDER: "content next to a tool call or its result was moved",
    LossCode.CACHE_HINT: "an explicit cache mark was not sent",
    LossCode.CALL_CUT: "a call that was cut off has incomplete arguments and was left out",
    LossCode.CALL_ID: "a call without an id of its own was given one",
    LossCode.CALL_META: "a call's extra data (caller, toolset, async, status) was not sent",
    LossCode.CAP_CLAMPED: "the output cap was lowered to the model's limit",
    LossCode.CAP_RAISED: "the output cap was raised to the upstream's minimum",
    LossCode.CHOICE_DOWNGRADED: "a forced tool choice became auto",
    LossCode.CITATIONS: "citations of a text were not sent",
    LossCode.CITATIONS_REQUEST: "the request for citations was not sent",
    LossCode.COMPACTION_SHAPE: "a compaction summary became plain text",
    LossCode.CONTEXT_MANAGEMENT: "context management was not requested",
    LossCode.CONTINUATION: "a final assistant turn is not continued by the upstream",
    LossCode.CUSTOM_WRAPPED: "a free-text tool became a function with one text field; its grammar is only described",
    LossCode.DOCUMENT_SHAPE: "a document became plain text",
    LossCode.EFFORT_FLOOR: "reasoning cannot be switched off (or on) as requested; the nearest setting was sent",
    LossCode.EFFORT_ROUNDED: "the effort level was rounded to one that the upstream has",
    LossCode.FINISH_FIXED: "the stop reason disagreed with the content and was corrected",
    LossCode.HOSTED_HISTORY: "a provider-run tool's call or result was left out of the history",
    LossCode.HOSTED_TOOL: "a provider-run tool was not declared",
    LossCode.IMAGE_DETAIL: "an image's detail hint was not sent",
    LossCode.IMAGE_EVICTED: "an old image became a placeholder",
    LossCode.IS_ERROR: "a tool result's error flag was not sent; its content was",
    LossCode.JSON_MODE: "free JSON mode was not requested",
    LossCode.LEAKED_FIELD: "a field of another dialect than the client's was not sent",
    LossCode.MAX_TOOL_CALLS: "the cap on tool calls was not sent",
    LossCode.METADATA: "request metadata was not sent",
    LossCode.MODERATION: "moderation scores were not requested",
    LossCode.NULL_ARGUMENT: "a null argument that the tool's schema does not accept was left out of a call",
    LossCode.ORPHAN_DROPPED: "a tool result without a call (or a call without result) was left out",
    LossCode.ORPHAN_REPAIRED: "a call without result was given an error result",
    LossCode.PARALLEL_CALLS: "the request for one tool call at a time was not sent",
    LossCode.PARTICIPANT_NAME: "a participant's name was not sent",
    LossCode.PER_TURN_EFFORT: "an effort level set inside the conversation was not sent",
    LossCode.PHASE: "a message's phase was not sent",
    LossCode.PREDICTION: "predicted output was not sent",
    LossCode.REASONING_ENCRYPTED: "encrypted or redacted reasoning was left out",
    LossCode.REASONING_FILLED: "calls without reasoning were sent with blank reasoning, which the upstream requires",
    LossCode.REASONING_EVICTED: "old reasoning was left out to fit the token budget",
    LossCode.REASONING_FOREIGN: "reasoning that another provider made was left out",
    LossCode.REASONING_MODE: "a reasoning option was not sent",
    LossCode.REASONING_SIGNATURE: "a reasoning signature has no place in the client's dialect",
    LossCode.REASONING_UNSIGNED: "reasoning without a signature was left out",
    LossCode.REFUSAL_CATEGORY: "a refusal's category has no place in the client's dialect",
    LossCode.REFUSAL_EXPLANATION: "a refusal's explanation came after visible text and was left out",
    LossCode.REPLY_REPAIRED: "the upstream's reply broke its dialect's rules and was read in the only possible way",
    LossCode.REQUEST_NOISE: "text that the client writes into each request for its own vendor was not sent",
    LossCode.RESULT_CUT: "an old tool result was cut to its beginning and its end to fit the token budget",
    LossCode.RESULT_MEDIA_MOVED: "media of a tool result moved into a user message after the results",
    LossCode.RESULT_SHAPE: "a part of a tool result became text",
    LossCode.SAMPLING_UNSUPPORTED: "a sampling parameter was not sent",
    LossCode.SCHEMA_STRICTNESS: "the output schema is enforced more or less strictly than requested",
    LossCode.SCHEMA_SANITISED: "a schema was changed to one that the upstream accepts",
    LossCode.SEARCH_RESULT_SHAPE: "a search result became text",
    LossCode.SERVICE_TIER: "the service tier was not sent",
    LossCode.STOP_DROPPED: "a stop sequence was not sent",
    LossCode.STOP_UNKNOWN: "the upstream gave no known stop reason",
    LossCode.SYSTEM_DEMOTED: "an instruction became user text",
    LossCode.SYSTEM_MOVED: "a mid-conversation instruction moved to the front",
    LossCode.SYSTEM_REORDERED: "an instruction moved behind the next user turn",
    LossCode.TASK_BUDGET: "the task budget was not sent",
    LossCode.TEMPERATURE_CLAMPED: "the temperature was lowered to the upstream's maximum",
    LossCode.THINKING_DISABLED: "thinking was switched off because a tool choice was forced",
    LossCode.THINKING_INVALIDATED: "thinking after an edited turn was left out",
    LossCode.THINKING_MODE: "the thinking mode was approximated",
    LossCode.TOKEN_BUDGET: "the prompt exceeds its token budget and was sent nevertheless",
    LossCode.TOOL_OPTION: "a tool's extra option was not sent",
    LossCode.TOOL_SEARCH: "deferred tools were all loaded at once",
    LossCode.TOOL_TIMELINE: "tools that are added and removed within the conversation became one list",
    LossCode.TOOLS_FILTERED: "only the allowed subset of the tools was sent",
    LossCode.TOP_K: "top_k was not sent",
    LossCode.TRUNCATION: "automatic truncation was not requested",
    LossCode.TURNS_MERGED: "consecutive messages of one role became one",
    LossCode.UNKNOWN_EVENT: "an unknown event, block or part of the upstream's reply was left out",
    LossCode.UNKNOWN_FIELD: "a field that the client's dialect does not define was not sent",
    LossCode.USER_PADDED: "a user message was put before a conversation that begins with the assistant",
    LossCode.USAGE_ESTIMATED: "the upstream gave no token counts; they are estimates or absent",
    LossCode.VENDOR_BLOCK: "a vendor's special block was left out",
    LossCode.VENDOR_OPTION: "a vendor's special option was not sent",
    LossCode.VERBOSITY: "the requested verbosity was not sent",
}


class Loss(NamedTuple):
    """One loss. `path` is the client's field for a request, the upstream's for a reply; `done` states what was done."""

    code: LossCode
    path: str
    done: str


class Losses:
    """The losses of one request and its reply: at most `keep` rows, and an exact count by code.

    With `strict`, `add` raises instead. Rows are formatted and counted when they are read: the history of a long agent
    session adds hundreds, which are rarely read.
    """

    __slots__ = ("_beyond", "_once", "_rows", "keep", "strict")

    def __init__(self, *, strict: bool = False, keep: int = DEFAULT_LIMITS.losses) -> None:
        self.strict = strict
        self.keep = keep
        self._rows: list[tuple[LossCode, Path | str, str]] = []
        self._beyond: dict[LossCode, int] = {}
        """The number of rows by code that were not kept."""
        self._once: set[tuple[LossCode, str]] | None = None

    @property
    def counts(self) -> dict[LossCode, int]:
        """The number of losses by code, in the order in which each code was first added."""
        counts = Counter(code for code, _, _ in self._rows)
        counts.update(self._beyond)
        return dict(counts)

    @property
    def rows(self) -> list[Loss]:
        """The rows kept, in the order they were added."""
        return [Loss(code, dotted(path), done) for code, path, done in self._rows]

    def add(self, code: LossCode, path: Path | str, done: str = "dropped") -> None:
        """Records a loss. `path` is the field, `done` states what was done with it.

        Raises Unsupported in strict mode, which rejects the request.
        """
        if self.strict:
            raise Unsupported(
                path, f"cannot be sent to this upstream ({code}: {LOSS_MEANINGS[code]}), and losses are rejected"
            )
        if len(self._rows) < self.keep:
            self._rows.append((code, path, done))
        else:
            self._beyond[code] = self._beyond.get(code, 0) + 1

    def add_once(self, code: LossCode, path: Path | str, done: str) -> None:
        """Records a loss that may repeat within a stream: only if no row with this code and `done` was added before."""
        if self._once is None:
            self._once = set()
        if (code, done) not in self._once:
            self._once.add((code, done))
            self.add(code, path, done)

    def stop_rejecting(self) -> None:
        """Ends strict mode, as the request is translated."""
        self.strict = False

    def header(self) -> str:
        """Returns codes and counts for a header such as `x-dragoman-loss`: `cache_hint=3, top_k=1`."""
        return ", ".join(f"{code}={count}" for code, count in sorted(self.counts.items()))

    def __len__(self) -> int:
        return len(self._rows) + sum(self._beyond.values()) if self._beyond else len(self._rows)
