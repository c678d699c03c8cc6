"""The exchanges that are captured, and the limit on their number."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.dialects import Dialect
from dragoman_server.config.capture_options import CaptureOptions
from dragoman_server.config.config_error import ConfigError
from dragoman_server.observability.captures.captures import Captures
from dragoman_server.observability.metric_families import CAPTURES, Totals
from dragoman_server.receipt import Receipt
from support.scopes import end
from support.waiting import until


def captures(
    folder: Path, totals: Totals | None = None, chance: Callable[[], float] = lambda: 0.5, **options: Any
) -> Captures:
    settings = CaptureOptions(str(folder / "captures"), **options)
    return Captures(settings, totals or Totals(), lambda: 1_790_000_000.0, lambda: 7.0, chance, "gw-1")


def ended(request_id: str) -> Receipt:
    receipt = Receipt(request_id, Dialect.CHAT, 1_790_000_000, model="m")
    end(receipt, "rejected", 400)
    return receipt


@pytest.mark.parametrize(
    ("value", "admin", "by_key", "expected"),
    [
        ("1", True, False, "header"),
        ("yes", True, True, "header"),
        ("0", True, True, None),
        (" FALSE ", True, False, None),
        ("1", False, False, None),
        ("0", False, True, "key"),
        (None, False, True, "key"),
        (None, False, False, None),
    ],
)
def test_the_choice_without_a_share(
    tmp_path: Path, value: str | None, admin: bool, by_key: bool, expected: str | None
) -> None:
    assert captures(tmp_path).reason(value, admin=admin, by_key=by_key) == expected


def test_the_header_can_be_switched_off(tmp_path: Path) -> None:
    chosen = captures(tmp_path, header=False)
    assert chosen.reason("1", admin=True, by_key=False) is None
    assert chosen.reason("0", admin=True, by_key=True) == "key"


def test_a_share_is_chosen_by_chance(tmp_path: Path) -> None:
    rolls = iter([0.0, 0.24, 0.25, 0.99])
    chosen = captures(tmp_path, chance=lambda: next(rolls), share=0.25)
    assert [chosen.reason(None, admin=False, by_key=False) for _ in range(4)] == ["share", "share", None, None]
    assert captures(tmp_path, chance=lambda: 0.999, share=1.0).reason(None, admin=False, by_key=False) == "share"


async def test_too_many_at_once_are_dropped_and_counted(tmp_path: Path) -> None:
    totals = Totals()
    chosen = captures(tmp_path, totals, open=2)
    chosen.open()
    first = chosen.record("req_1", "share", ())
    second = chosen.record("req_2", "share", ())
    assert first is not None
    assert second is not None
    assert chosen.record("req_3", "share", ()) is None
    first.close(ended("req_1"))
    first.close(ended("req_1"))
    await until(lambda: totals.read(CAPTURES, "written")[0] == 1, 60)
    third = chosen.record("req_3", "share", ())
    assert third is not None
    third.close(ended("req_3"))
    second.close(ended("req_2"))
    await chosen.close()
    assert sorted(summary["id"] for summary in chosen.store.list()) == ["req_1", "req_2", "req_3"]
    assert [totals.read(CAPTURES, word)[0] for word in ("written", "dropped", "failed")] == [3, 1, 0]


async def test_a_rejected_request_is_captured(tmp_path: Path) -> None:
    chosen = captures(tmp_path)
    chosen.open()
    recording = chosen.record("req_1", "header", ("the-secret",))
    assert recording is not None
    recording.requested("POST", "/v1/messages?beta=true", [("X-Api-Key", "the-secret")])
    recording.received(b'{"model": "m", "x": "the-secret"')
    recording.replied(400, {"content-type": "application/json"}, b'{"error": {"message": "bad"}}')
    recording.close(ended("req_1"))
    await chosen.close()
    found = chosen.store.get("req_1")
    assert found is not None
    assert found.summary | {"seconds": 0} == {
        **{"object": "dragoman.capture", "version": 1, "id": "req_1", "created": 1_790_000_000, "client": "chat"},
        **{"upstream": None, "model": "m", "provider": None, "stream": None, "ended": "rejected", "status": 400},
        **{
            "host": "gw-1",
            "endpoint": None,
            "error": None,
            "route": "",
            "key": None,
            "reason": "header",
            "texts": False,
            "truncated": False,
        },
        **{"attempts": 0, "seconds": 0},
    }
    client = found.exchange["client"]
    assert client["request"]["headers"] == [["x-api-key", "***"]]
    assert client["request"]["text"] == '{"model": "m", "x": "xxxxxxxxxx"'
    assert client["reply"]["text"] == '{"error": {"message": "xxx"}}'
    assert found.exchange["attempts"] == []
    assert found.exchange["replay"] is None
    assert "the-secret" not in json.dumps([found.summary, found.exchange])


async def test_what_exceeds_the_limit_is_left_out_and_marked(tmp_path: Path) -> None:
    chosen = captures(tmp_path, exchange_bytes=1000)
    chosen.open()
    recording = chosen.record("req_1", "header", ())
    assert recording is not None
    recording.received(b"x" * 600)
    recording.replied(200, {})
    for _ in range(10):
        recording.wrote(b"y" * 300)
    recording.close(ended("req_1"))
    await chosen.close()
    found = chosen.store.get("req_1")
    assert found is not None
    assert found.summary["truncated"]
    request, reply = found.exchange["client"]["request"], found.exchange["client"]["reply"]
    assert (request["bytes"], len(request["text"]), request["truncated"]) == (600, 600, False)
    assert (reply["bytes"], len(reply["text"]), reply["truncated"]) == (3000, 400, True)
    assert [length for _, length in reply["writes"]] == [300, 100]


def test_a_directory_that_cannot_be_used_is_a_problem_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "captures").write_text("a file")
    with pytest.raises(ConfigError, match=r"capture\.directory.*cannot be used"):
        captures(tmp_path).open()
