"""The ledger: exact counts, a bounded list, and the strict mode that turns a loss into a 400."""

from __future__ import annotations

import pytest

from dragoman.errors import Unsupported
from dragoman.losses import Loss, LossCode, Losses


def test_every_code_has_a_name_and_a_meaning_of_its_own() -> None:
    assert list(LossCode.__members__.values()) == list(LossCode), "two codes have one name"
    assert len({code.meaning for code in LossCode}) == len(LossCode)
    for code in LossCode:
        assert code.meaning.strip() == code.meaning != "", code
        assert not code.meaning.endswith("."), code


def test_codes_can_stand_in_a_header() -> None:
    for code in LossCode:
        assert code.value.isascii()
        assert code.value.replace("_", "").isalnum()
        assert code.value == code.value.lower()


def test_a_row_names_the_clients_field() -> None:
    losses = Losses()
    losses.add(LossCode.TOP_K, ("top_k",))
    losses.add(LossCode.CACHE_HINT, ("messages", 3, "content", 0, "cache_control"), "left out")
    losses.add(LossCode.CACHE_HINT, "system")
    assert losses.rows == [
        Loss(LossCode.TOP_K, "top_k", "dropped"),
        Loss(LossCode.CACHE_HINT, "messages[3].content[0].cache_control", "left out"),
        Loss(LossCode.CACHE_HINT, "system", "dropped"),
    ]
    assert len(losses) == 3


def test_long_texts_are_cleaned_and_cut_before_they_are_kept() -> None:
    losses = Losses()
    losses.add(LossCode.METADATA, ("metadata", "k" * 9), "short")
    losses.add(LossCode.METADATA, ("metadata", "short", 12345678901), "d" * 9)
    losses.add(LossCode.METADATA, "p" * 9, "short")
    losses.add(LossCode.METADATA, ("metadata", "short"), "12345678")
    losses.shorten(8, lambda text: text.replace("metadata", "m"))
    assert [(row.path, row.done) for row in losses] == [
        ("m.kkkkkk", "short"),
        ("m.short[", "dddddddd"),
        ("pppppppp", "short"),
        ("metadata.short", "12345678"),
    ]


def test_losses_print_and_iterate() -> None:
    losses = Losses(keep=2)
    assert (bool(losses), list(losses), str(losses)) == (False, [], "no losses")
    losses.add(LossCode.TOP_K, ("top_k",))
    losses.add(LossCode.CACHE_HINT, "", "left out")
    assert list(losses) == losses.rows
    assert str(losses) == "top_k at top_k: dropped\ncache_hint: left out"
    for _ in range(3):
        losses.add(LossCode.TOP_K, ("tools", 0))
    losses.add(LossCode.METADATA, ("metadata",))
    assert str(losses).splitlines()[2:] == ["and 4 more: metadata=1, top_k=3"]
    assert (bool(losses), len(losses), len(list(losses))) == (True, 6, 2)


def test_the_summary_is_sorted_and_counts() -> None:
    losses = Losses()
    assert losses.header() == ""
    assert len(losses) == 0
    for code in (LossCode.TOP_K, LossCode.CACHE_HINT, LossCode.CACHE_HINT):
        losses.add(code, ())
    assert losses.header() == "cache_hint=2, top_k=1"


def test_rows_are_bounded_and_counts_are_exact() -> None:
    losses = Losses(keep=2)
    for at in range(1000):
        losses.add(LossCode.CACHE_HINT, ("messages", at))
    assert [row.path for row in losses.rows] == ["messages[0]", "messages[1]"]
    assert len(losses) == losses.counts[LossCode.CACHE_HINT] == 1000
    assert losses.header() == "cache_hint=1000"


def test_strict_refuses_with_the_field_and_the_code() -> None:
    losses = Losses(strict=True)
    with pytest.raises(Unsupported) as caught:
        losses.add(LossCode.TOP_K, ("top_k",))
    failure = caught.value.failure
    assert (failure.status, failure.param) == (400, "top_k")
    assert "top_k" in failure.message
    assert LossCode.TOP_K.meaning in failure.message
    assert losses.rows == []
    assert len(losses) == 0


def test_a_reply_that_has_begun_is_no_longer_refused() -> None:
    losses = Losses(strict=True)
    losses.stop_rejecting()
    losses.add(LossCode.CITATIONS, ())
    assert losses.header() == "citations=1"
