"""Tool names and ids that fit the target, reversibly."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ClientRequestError
from dragoman.tools.names import NameTable, all_valid, reply_id, sanitize_call_id, sanitize_tool_name
from support.strategies import call_ids, names, texts

FITS = re.compile(r"[a-zA-Z0-9_-]+")


@given(names)
def test_T42_a_name_that_fits_is_never_touched(name: str) -> None:
    assert sanitize_tool_name(name, 64) == sanitize_tool_name(name, 128) == name


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("a.b", "a_b_"),
        ("server/tool", "server_tool_"),
        ("naïve tool", "na_ve_tool_"),
        ("x" * 65, "x" * 55 + "_"),
        ("name\n", "name__"),
        ("", "_"),
        ("日本", "___"),
    ],
)
def test_T42_a_name_that_does_not_fit_is_sanitised_and_hashed(name: str, start: str) -> None:
    sent = sanitize_tool_name(name, 64)
    assert sent.startswith(start)
    assert re.fullmatch(r"[0-9a-f]{8}", sent[len(start) :])
    assert FITS.fullmatch(sent)
    assert sent == sanitize_tool_name(name, 64)


def test_golden_names_and_ids_do_not_change_between_versions() -> None:
    assert sanitize_tool_name("mcp.files/read", 64) == "mcp_files_read_6efd9b52"
    assert sanitize_call_id("call|1", 64) == "call_c26e9779d73a23c7a5729c9b"


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=200), st.sampled_from((64, 128)))
def test_law_whatever_is_sent_fits_and_is_stable(name: str, longest: int) -> None:
    sent = sanitize_tool_name(name, longest)
    assert FITS.fullmatch(sent)
    assert len(sent) <= longest
    assert sanitize_tool_name(sent, longest) == sent, "idempotent: a renamed name in old history stays itself"


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=100), st.sampled_from((9, 40, 64)))
def test_law_call_ids_fit_and_are_stable(call_id: str, longest: int) -> None:
    sent = sanitize_call_id(call_id, longest)
    assert FITS.fullmatch(sent)
    assert len(sent) <= longest
    assert sanitize_call_id(sent, longest) == sent


@given(call_ids)
def test_a_call_id_that_fits_is_never_touched(call_id: str) -> None:
    assert sanitize_call_id(call_id, 40) == call_id


@pytest.mark.parametrize("longest", [5, 40])
@pytest.mark.parametrize("call_id", ["", "a-b_9", "call-1", "a.b", "a b", "ä", "\n", "x" * 40, "x" * 41])
def test_all_ids_fit_if_each_does(call_id: str, longest: int) -> None:
    assert all_valid(["a", call_id, "b"], longest) is (sanitize_call_id(call_id, longest) == call_id)


@pytest.mark.parametrize(
    ("call_id", "sent"), [("D681PevKs", "D681PevKs"), ("call_12", "57219c23b"), ("a_3456789", ""), ("1234567890", "")]
)
def test_ids_of_nine_are_letters_and_digits(call_id: str, sent: str) -> None:
    fitted = sanitize_call_id(call_id, 9)
    assert re.fullmatch("[a-zA-Z0-9]{9}", fitted)
    assert fitted == (sent or fitted)
    assert all_valid([call_id, "D681PevKs"], 9) is (fitted == call_id)


def test_names_that_differ_only_in_what_is_sanitised_stay_apart() -> None:
    table = NameTable(64)
    sent = [table.fit(name) for name in ("a.b", "a/b", "a b", "a_b")]
    assert len(set(sent)) == 4
    assert sent[3] == "a_b"
    assert table.back == dict(zip(sent[:3], ("a.b", "a/b", "a b"), strict=True)), "only what differs is mapped back"


def test_the_same_name_twice_is_the_same_rename() -> None:
    table = NameTable(64)
    assert table.fit("a.b") == table.fit("a.b") == sanitize_tool_name("a.b", 64)


@pytest.mark.parametrize("renamed_first", [False, True])
def test_a_collision_names_the_clients_field(renamed_first: bool) -> None:
    """A client's own tool may be called just what another one becomes: guessing would call the wrong tool."""
    table = NameTable(64)
    pair = ["a.b", sanitize_tool_name("a.b", 64)]
    first, second = pair if renamed_first else reversed(pair)
    table.fit(first)
    with pytest.raises(ClientRequestError) as caught:
        table.fit(second, ("tools", 1, "function", "name"))
    assert caught.value.failure.param == "tools[1].function.name"
    assert caught.value.failure.status == 400


@given(st.lists(texts, unique=True, max_size=8))
def test_law_the_table_is_reversible(client_names: list[str]) -> None:
    table = NameTable(64)
    sent = [table.fit(name) for name in client_names]
    assert [table.back.get(name, name) for name in sent] == client_names


@pytest.mark.parametrize("fit", [sanitize_tool_name, sanitize_call_id])
def test_a_lone_surrogate_is_no_crash(fit: type) -> None:
    assert FITS.fullmatch(fit("\ud83d", 64))


@pytest.mark.parametrize(
    ("upstream", "prefix", "expected"),
    [
        ("chatcmpl-abc", "msg_", "msg_abc"),
        ("msg_01", "chatcmpl-", "chatcmpl-01"),
        ("resp_68", "msg_", "msg_68"),
        ("resp_68", "resp_", "resp_68"),
        ("gen-17-x", "msg_", "msg_gen-17-x"),
        ("", "resp_", "resp_none"),
        ("msg_", "chatcmpl-", "chatcmpl-none"),
        ("msg_resp_1", "chatcmpl-", "chatcmpl-resp_1"),
    ],
)
def test_reply_ids_keep_the_upstreams_body(upstream: str, prefix: str, expected: str) -> None:
    assert reply_id(upstream, prefix) == expected
