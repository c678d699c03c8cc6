from __future__ import annotations

from dragoman.canonical.events import Usage
from dragoman.dialects.generate.reply_fields import (
    note_service,
    note_tools,
    note_usage,
    record_unknown_candidate,
    record_unknown_fields,
)
from dragoman.losses import Losses
from support.generate import chunk, new_context


def test_the_service_of_a_reply() -> None:
    context = new_context()
    grounding = {"webSearchQueries": ["a", "b"]}
    pages = {"urlMetadata": [{"retrievedUrl": "u"}]}
    reply = chunk(["x"], "STOP", usage=(1, 2), groundingMetadata=grounding, urlContextMetadata=pages)
    reply["usageMetadata"]["serviceTier"] = "FLEX"
    assert note_service(reply, context) == Usage(1, 0, None, 2, 0)
    service = context.service
    assert service is not None
    assert (service.tier, service.searches, service.calls) == ("flex", 2, {"url_context": 1})


def test_a_reply_without_statements() -> None:
    context = new_context()
    assert note_service([], context) is None
    assert note_service({"candidates": []}, context) is None
    note_usage(None, context)
    note_tools({"groundingMetadata": {}, "urlContextMetadata": None}, context)
    assert context.service is None


def test_unknown_fields_are_recorded() -> None:
    losses = Losses()
    record_unknown_fields({"candidates": [], "responseId": "x", "newField": 1}, losses)
    record_unknown_candidate({"index": 0, "other": 1, "continuationToken": "T"}, losses)
    assert [loss.path for loss in losses] == ["newField", "candidates[0].other", "candidates[0].continuationToken"]
