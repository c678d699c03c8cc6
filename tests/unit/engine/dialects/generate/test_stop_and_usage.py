from __future__ import annotations

import pytest

from dragoman.canonical.events import StopReason, Usage
from dragoman.dialects.generate.stop_and_usage import read_finish, read_message, read_usage, refusal_of, resolve_stop
from dragoman.errors import FailureKind, UpstreamProtocolError, UpstreamStatusError
from dragoman.losses import LossCode, Losses


@pytest.mark.parametrize(
    ("native", "reason"),
    [
        ("STOP", StopReason.END),
        ("MAX_TOKENS", StopReason.LENGTH),
        ("CONTINUATION", StopReason.PAUSED),
        ("TOO_MANY_TOOL_CALLS", StopReason.POLICY_CUT),
        *((word, StopReason.FILTERED) for word in ("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "SPII")),
        *((word, StopReason.FILTERED) for word in ("PROHIBITED_CONTENT", "MODEL_ARMOR", "IMAGE_SAFETY", "ESCALATION")),
        ("OTHER", None),
        ("NO_IMAGE", None),
    ],
)
def test_a_finish_reason(native: str, reason: StopReason | None) -> None:
    assert read_finish(native, None) is reason


@pytest.mark.parametrize(
    ("native", "kind", "status"),
    [
        ("MALFORMED_FUNCTION_CALL", FailureKind.API, 502),
        ("UNEXPECTED_TOOL_CALL", FailureKind.API, 502),
        ("MALFORMED_RESPONSE", FailureKind.API, 502),
        ("MISSING_THOUGHT_SIGNATURE", FailureKind.INVALID_REQUEST, 400),
        ("PUP_LIMITED_DISABLED", FailureKind.PERMISSION, 403),
    ],
)
def test_a_finish_reason_that_is_an_error(native: str, kind: FailureKind, status: int) -> None:
    with pytest.raises(UpstreamStatusError, match=r"print\(1\)") as raised:
        read_finish(native, "Malformed function call: print(1)")
    assert (raised.value.failure.kind, raised.value.failure.status) == (kind, status)
    assert native in raised.value.failure.message


@pytest.mark.parametrize(("calls", "reason"), [(False, StopReason.END), (True, StopReason.TOOL_CALLS)])
def test_calls_make_a_stop_one_for_calls(calls: bool, reason: StopReason) -> None:
    assert resolve_stop("STOP", calls=calls, shown=True, losses=Losses()).reason is reason


@pytest.mark.parametrize("native", ["OTHER", "NEW_ONE", "FINISH_REASON_UNSPECIFIED"])
def test_an_unknown_reason_ends_a_reply_that_has_content(native: str) -> None:
    losses = Losses()
    assert resolve_stop(native, calls=False, shown=True, losses=losses).reason is StopReason.END
    assert [loss.code for loss in losses] == [LossCode.STOP_UNKNOWN]


def test_an_unknown_reason_without_content() -> None:
    assert resolve_stop("OTHER", calls=False, shown=False, losses=Losses()).reason is StopReason.FILTERED
    with pytest.raises(UpstreamProtocolError, match="NO_IMAGE"):
        resolve_stop("NO_IMAGE", calls=False, shown=False, losses=Losses())


def test_an_empty_turn_is_complete() -> None:
    assert resolve_stop("STOP", calls=False, shown=False, losses=Losses()).reason is StopReason.END


def test_the_explanation_of_a_filter() -> None:
    assert refusal_of("SAFETY", None, prompt=True).explanation == "The upstream blocked the prompt (SAFETY)."
    assert refusal_of("SPII", None, prompt=False).explanation == "The upstream withheld the reply (SPII)."
    assert refusal_of("SAFETY", "No.", prompt=False).explanation == "No."
    assert len(read_message("x" * 9999)) == 500
    assert read_message(5) == ""


def test_the_counts() -> None:
    counts = {
        "promptTokenCount": 1000,
        "cachedContentTokenCount": 800,
        "candidatesTokenCount": 20,
        "thoughtsTokenCount": 30,
        "toolUsePromptTokenCount": 100,
        "totalTokenCount": 1150,
    }
    assert read_usage(counts) == Usage(1100, 800, None, 50, 30)
    assert read_usage({"promptTokenCount": 4, "candidatesTokenCount": 1}) == Usage(4, 0, None, 1, 0)  # no zeros
    assert read_usage({"promptTokenCount": 4}) == Usage(4, 0, None, 0, None)  # of a first chunk
    assert read_usage({"promptTokenCount": 4, "thoughtsTokenCount": 2}) == Usage(4, 0, None, 2, 2)
    assert read_usage({"candidatesTokenCount": 4}) == Usage(None, 0, None, 4, 0)


@pytest.mark.parametrize("counts", [None, [], {}, {"trafficType": "ON_DEMAND"}, {"promptTokenCount": "four"}])
def test_no_counts(counts: object) -> None:
    assert read_usage(counts) is None
