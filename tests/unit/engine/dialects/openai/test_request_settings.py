"""Settings that the requests of Chat and Responses have in common. The golden requests have every field."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import builtin_profile
from dragoman.canonical.request import Json, OutputFormat, Request
from dragoman.dialects.openai.request_settings import (
    add_tools,
    fit_effort,
    output_cap,
    read_format,
    read_sampling,
    write_sampling,
    write_service,
)
from dragoman.errors import ClientRequestError, Unsupported
from dragoman.losses import LossCode, Losses

PROFILE = builtin_profile("chat")
SCHEMA = {"name": "n", "schema": {"type": "object"}, "strict": True, "description": "d"}
FLAT, NESTED = {"type": "json_schema", **SCHEMA}, {"type": "json_schema", "json_schema": SCHEMA}


def made(origin: str = "chat", **settings: Any) -> Request:
    request = Request(origin, "m", [])
    for name, value in settings.items():
        setattr(request, name, value)
    return request


def rows(losses: Losses) -> list[tuple[LossCode, str]]:
    return [(code, path) for code, path, _ in losses.rows]


def test_the_first_cap_that_is_set_is_read() -> None:
    request = made()
    losses = Losses()
    read_sampling(request, {"a": None, "b": 5, "c": 7, "top_p": 1}, ("a", "b", "c"), losses)
    assert rows(losses) == [("field_overridden", "c")]
    assert (request.max_tokens, request.max_tokens_at) == (5, ("b",))
    assert (request.temperature, request.top_p) == (None, 1)
    with pytest.raises(ClientRequestError, match="c: must be at least 1"):
        read_sampling(made(), {"c": 0}, ("c",), losses)


@pytest.mark.parametrize(("form", "nested"), [(FLAT, False), (NESTED, True)])
def test_a_schema_is_flat_or_nested(form: Json, nested: bool) -> None:
    losses = Losses()
    found = read_format(form, ("f",), losses, nested=nested)
    assert found == OutputFormat("json_schema", ("f",), "n", {"type": "object"}, True, "d")
    assert rows(losses) == []


@pytest.mark.parametrize(("form", "nested"), [(NESTED, False), (FLAT, True)])
def test_the_place_of_the_other_dialect_is_refused(form: Json, nested: bool) -> None:
    with pytest.raises(ClientRequestError, match="is required"):
        read_format(form, ("f",), Losses(), nested=nested)


@pytest.mark.parametrize("nested", [False, True])
def test_other_formats(nested: bool) -> None:
    losses = Losses()
    assert read_format({"type": "text"}, ("f",), losses, nested=nested) is None
    assert read_format({"type": "json_object", "x": 1}, ("f",), losses, nested=nested) == OutputFormat(
        "json_object", ("f",)
    )
    assert rows(losses) == [(LossCode.UNKNOWN_FIELD, "f.x")]
    with pytest.raises(Unsupported, match=r"f\.type: unknown output format 'xml'"):
        read_format({"type": "xml"}, ("f",), losses, nested=nested)


@pytest.mark.parametrize(
    ("sampling", "chat", "sent", "lost"),
    [
        ("free", True, {"temperature": 2, "top_p": 0.5, "seed": 1}, ["temperature"]),
        ("free", False, {"temperature": 2, "top_p": 0.5}, ["temperature", "seed"]),
        ("default_only", True, {}, ["temperature", "top_p", "seed"]),
        ("none", False, {}, ["temperature", "top_p", "seed"]),
    ],
)
def test_sampling_follows_the_profile(sampling: str, chat: bool, sent: Json, lost: list[str]) -> None:
    body: Json = {}
    losses, profile = Losses(), PROFILE.replace({"sampling": sampling, "max_temperature": 2})
    write_sampling(body, made(temperature=3, top_p=0.5, sampling={"seed": 1}), profile, losses, chat=chat)
    assert body == sent
    assert [path for _, path in rows(losses)] == lost


def test_only_the_default_is_sent_where_it_alone_is_accepted() -> None:
    body: Json = {}
    profile = PROFILE.replace({"sampling": "default_only"})
    write_sampling(body, made(temperature=1, top_p=1.0), profile, losses := Losses(), chat=True)
    assert (body, rows(losses)) == ({"temperature": 1, "top_p": 1.0}, [])


def test_a_cap_is_lowered_and_never_zero() -> None:
    losses, profile = Losses(), PROFILE.replace({"max_output_tokens": 10})
    assert output_cap(made(), 9, profile, losses) == 9
    assert output_cap(made(), 11, profile, losses) == 10
    assert rows(losses) == [(LossCode.CAP_CLAMPED, "max_tokens")]
    with pytest.raises(Unsupported):
        output_cap(made(), 0, profile, losses)


def test_an_effort_is_rounded_with_a_loss() -> None:
    losses, profile = Losses(), PROFILE.replace({"efforts": ("low", "high")})
    assert fit_effort("low", ("e",), profile, losses) == "low"
    assert rows(losses) == []
    assert (fit_effort("max", ("e",), profile, losses), fit_effort("none", ("e",), profile, losses)) == ("high", "low")
    assert rows(losses) == [(LossCode.EFFORT_ROUNDED, "e"), (LossCode.EFFORT_FLOOR, "e")]


@pytest.mark.parametrize(
    ("origin", "path"), [("chat", "parallel_tool_calls"), ("messages", "tool_choice.disable_parallel_tool_use")]
)
def test_parallel_calls_that_cannot_be_forbidden_are_a_loss(origin: str, path: str) -> None:
    body: Json = {}
    profile = PROFILE.replace({"parallel_tool_calls": False})
    add_tools(body, [{}], "auto", made(origin, parallel=False), profile, losses := Losses())
    assert body == {"tools": [{}], "tool_choice": "auto"}
    assert rows(losses) == [(LossCode.PARALLEL_CALLS, path)]


@pytest.mark.parametrize(
    ("origin", "dialect", "store", "sent"),
    [
        ("chat", "chat", None, {}),
        ("chat", "chat", False, {"store": False}),
        ("responses", "responses", False, {"store": False}),
        ("responses", "chat", True, {}),
        ("chat", "responses", None, {"store": False}),
        ("chat", "responses", True, {"store": True}),
        ("messages", "responses", None, {"store": False}),
    ],
)
def test_store_has_the_default_of_the_clients_dialect(
    origin: str, dialect: str, store: bool | None, sent: Json
) -> None:
    body: Json = {}
    write_service(body, made(origin, store=store), dialect, PROFILE, Losses())
    assert body == sent


@pytest.mark.parametrize(
    ("origin", "dialect", "tier", "sent"),
    [
        ("responses", "responses", "ultrafast", "ultrafast"),
        ("responses", "chat", "ultrafast", None),
        ("chat", "responses", "ultrafast", None),
        ("messages", "chat", "standard_only", "default"),
        ("chat", "chat", "flex", "flex"),
    ],
)
def test_a_tier_without_a_counterpart_is_a_loss(origin: str, dialect: str, tier: str, sent: str | None) -> None:
    body: Json = {}
    write_service(body, made(origin, service_tier=tier), dialect, PROFILE, losses := Losses())
    assert body.get("service_tier") == sent
    assert rows(losses) == ([] if sent else [(LossCode.SERVICE_TIER, "service_tier")])


@pytest.mark.parametrize(("store", "kept"), [(None, False), (True, True)])
def test_metadata_may_need_store(store: bool | None, kept: bool) -> None:
    body: Json = {}
    profile = PROFILE.replace({"unstored_metadata": False, "user_field": "user"})
    write_service(body, made(store=store, metadata={"a": "b"}, end_user="u"), "chat", profile, losses := Losses())
    assert body["user"] == "u"
    assert ("metadata" in body) is kept
    assert rows(losses) == ([] if kept else [(LossCode.METADATA, "metadata")])
