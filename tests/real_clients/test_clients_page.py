"""The page of real clients shows all of them, and the table shows what fails."""

from __future__ import annotations

from dataclasses import replace

from real_clients.contract import Client, Outcome, Session
from real_clients.page import HEADINGS, PAGE, kept, page, row
from real_clients.registry import CLIENTS
from real_clients.rounds import UPSTREAMS, WITHOUT_REASONING, Round, failed


def _client(name: str, kind: str = "sdk") -> Client:
    return Client(name, "chat", kind, "node", ("it@1.0.0",), _never)  # type: ignore[arg-type]


def _never(session: Session) -> Outcome:
    raise AssertionError(session)


def test_the_page_names_every_client_as_it_is_pinned() -> None:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.read_text("utf-8").splitlines()]
    shown = [cells for cells in rows if len(cells) == 3 + len(UPSTREAMS) and cells[0] not in ("client", "---")]
    over_gemini = {client.name: "✓<sup>1</sup>" if client.name in WITHOUT_REASONING else "✓" for client in CLIENTS}
    expected = [row(client, [*["✓"] * (len(UPSTREAMS) - 1), over_gemini[client.name]]) for client in CLIENTS]
    assert shown == expected, "run: python tests/real_clients/table.py --write"


def test_columns_that_are_not_played_again_are_kept() -> None:
    text = PAGE.read_text("utf-8")
    assert page(CLIENTS, kept(text, UPSTREAMS)) == text
    without = kept(text, UPSTREAMS[:-1])
    assert {upstream for _, upstream in without} == set(UPSTREAMS[:-1])


def test_no_two_clients_have_one_name() -> None:
    assert len({client.name for client in CLIENTS}) == len(CLIENTS)
    assert {client.kind for client in CLIENTS} == set(HEADINGS)


def test_every_package_is_pinned() -> None:
    for client in CLIENTS:
        mark = "==" if client.runtime == "python" else "@"
        for package in client.packages:
            assert package[1:].rpartition(mark)[2][0].isdigit(), package


def test_a_failure_and_its_reason_are_shown() -> None:
    fine = Round(Outcome(True, True, "word", ""), "", 2, {"cache_hint": 3})
    quiet = replace(fine, reasoning=False)
    seen = {("one", upstream): quiet if upstream == "generate" else fine for upstream in UPSTREAMS} | {
        ("two", "chat"): failed("it broke\n  badly")
    }
    shown = page([_client("one"), _client("two", "agent")], seen)
    assert "| one | `it@1.0.0` | `chat` | ✓ | ✓ | ✓ | ✓<sup>1</sup> |" in shown
    assert "| two | `it@1.0.0` | `chat` | ✗ |  |  |  |" in shown
    assert "- two · chat: it broke badly" in shown
    assert "| one | `cache_hint` | `cache_hint` | `cache_hint` | `cache_hint` |" in shown
    assert shown.index("## Agents") < shown.index("## SDKs")
