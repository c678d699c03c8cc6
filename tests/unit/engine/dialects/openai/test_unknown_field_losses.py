"""Fields that the API does not define are lost, unless they are empty."""

from __future__ import annotations

from dragoman.dialects.openai.unknown_field_losses import note_unknown
from dragoman.losses import LossCode, Losses


def test_each_unknown_field_with_a_value_is_a_loss() -> None:
    losses = Losses()
    note_unknown({"role": "user", "novelty": 0, "other": [1]}, frozenset(["role"]), ("messages", 2), losses)
    assert [(row.code, row.path) for row in losses.rows] == [
        (LossCode.UNKNOWN_FIELD, "messages[2].novelty"),
        (LossCode.UNKNOWN_FIELD, "messages[2].other"),
    ]


def test_empty_fields_of_a_replayed_reply_are_none() -> None:
    losses = Losses()
    note_unknown({"audio": None, "annotations": [], "refusal": "", "x": {}}, frozenset(), (), losses)
    assert not losses
