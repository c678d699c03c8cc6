"""The page of real clients shows all of them, and the table shows what fails."""

from __future__ import annotations

from real_clients.contract import Client, Outcome, Session
from real_clients.page import HEADINGS, PAGE, page, row
from real_clients.registry import CLIENTS
from real_clients.rounds import UPSTREAMS, Round, failed


def _client(name: str, kind: str = "sdk") -> Client:
    return Client(name, "chat", kind, "node", ("it@1.0.0",), _never)  # type: ignore[arg-type]


def _never(session: Session) -> Outcome:
    raise AssertionError(session)


def test_the_page_names_every_client_as_it_is_pinned() -> None:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.read_text("utf-8").splitlines()]
    shown = [cells for cells in rows if len(cells) == 3 + len(UPSTREAMS) and cells[0] not in ("client", "---")]
    expected = [row(client, ["✓"] * len(UPSTREAMS)) for client in CLIENTS]
    assert shown == expected, "run: python tests/real_clients/table.py --write"


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
    seen = {("one", upstream): fine for upstream in UPSTREAMS} | {("two", "chat"): failed("it broke\n  badly")}
    shown = page([_client("one"), _client("two", "agent")], seen)
    assert "| one | `it@1.0.0` | `chat` | ✓ | ✓ | ✓ |" in shown
    assert "| two | `it@1.0.0` | `chat` | ✗ |  |  |" in shown
    assert "- two · chat: it broke badly" in shown
    assert "| one | `cache_hint` | `cache_hint` | `cache_hint` |" in shown
    assert shown.index("## Agents") < shown.index("## SDKs")
