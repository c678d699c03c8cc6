"""The streams that are validated: the first ones of each direction and provider, and then a share."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from dragoman import direction, translate
from dragoman.errors import Failure, FailureKind
from dragoman.gateway import ReplyOptions
from dragoman.stages.validation_sample import FIRST, ValidationSample
from dragoman.translation import Translation
from support.verdicts import golden

BODY = b'{"model":"m","messages":[{"role":"user","content":"Hi"}],"stream":true}'


def never() -> float:
    pytest.fail("chance decides")


def test_the_first_of_each_direction_and_provider_are_chosen_without_chance() -> None:
    sample = ValidationSample(0.02, never)
    places = [("chat", "messages", "a"), ("chat", "messages", "b"), ("messages", "chat", "a"), ("chat", "chat", "a")]
    for place in places * FIRST:
        assert sample.take(*place)
    assert FIRST == 20


def test_chance_chooses_the_share_of_the_others() -> None:
    rolls = iter([0.0, 0.24, 0.25, 0.99])
    sample = ValidationSample(0.25, lambda: next(rolls))
    assert all(sample.take("chat", "messages", "a") for _ in range(FIRST))
    assert [sample.take("chat", "messages", "a") for _ in range(4)] == [True, True, False, False]
    assert next(rolls, None) is None


@pytest.mark.parametrize(("share", "expected"), [(0.0, 0), (1.0, 1000)])
def test_none_and_all(share: float, expected: int) -> None:
    sample = ValidationSample(share, Random(1).random)
    assert sum(sample.take("chat", "messages", "a") for _ in range(1000)) == expected


class _Counted:
    calls = 0

    def __call__(self) -> bool:
        self.calls += 1
        return True


def streamed(validate: bool | Callable[[], bool]) -> Translation:
    return translate(direction("chat", "messages"), BODY, options=ReplyOptions(validate=validate))


def test_the_names_of_the_stages_choose_nothing() -> None:
    counted = _Counted()
    assert streamed(counted).stage_names()[-1] == "OutputValidator"
    assert streamed(False).stage_names()[-1] == "ChatWriter"
    assert counted.calls == 0


def test_a_translation_keeps_what_was_chosen() -> None:
    answers = iter([False, True])
    translation = streamed(lambda: next(answers))
    for _ in range(2):
        machine = translation.stream_machine()
        machine.feed(golden("messages_from_chat/text"))
    assert not translation.context.validated
    assert next(answers) is True


def test_a_failure_before_the_stream_takes_no_place() -> None:
    counted = _Counted()
    translation = streamed(counted)
    assert b"down" in translation.error_stream(Failure(FailureKind.API, "down", 503))
    assert translation.context.validated
    assert translation.violation is None
    assert counted.calls == 0


def test_what_is_sent_does_not_depend_on_it() -> None:
    data = golden("messages_from_chat/two_tools")
    sent = []
    for validate in (True, False, lambda: True, lambda: False):
        translation = streamed(validate)
        machine = translation.stream_machine()
        sent.append(machine.feed(data) + machine.finish())
        assert translation.context.validated is translation.context.validates()
    assert len(set(sent)) == 1
