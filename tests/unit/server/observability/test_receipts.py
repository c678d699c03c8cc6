"""The receipts of the last requests: bounded, and bound to a key."""

from __future__ import annotations

import tracemalloc

from dragoman import direction, translate
from dragoman.dialects import Dialect
from dragoman_server.observability.receipts import Receipts
from dragoman_server.receipt import Receipt
from support.scopes import end

CHAT, MESSAGES, *_ = Dialect


def test_the_oldest_goes_first() -> None:
    receipts = Receipts(2)
    for number in range(4):
        receipts.file(Receipt(f"req_{number}", CHAT, 0))
    assert len(receipts) == 2
    assert [receipts.find(f"req_{number}", b"") is not None for number in range(4)] == [False, False, True, True]
    none = Receipts(0)
    none.file(Receipt("req_1", CHAT, 0))
    assert none.find("req_1", b"") is None


def test_a_store_of_typical_receipts_is_small() -> None:
    receipts = Receipts(200)
    tracemalloc.start()
    try:
        for number in range(400):
            body = b'{"model":"m","messages":[{"role":"user","content":"the secret plan"}],"max_tokens":5,"seed":1}'
            receipt = Receipt(
                f"req_{number}", CHAT, 7, b"o" * 32, "m", "up", translate(direction(CHAT, MESSAGES), body)
            )
            receipts.file(receipt)
            end(receipt, "completed", 200)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept / 200 < 4096


def test_another_keys_receipt_is_as_none() -> None:
    receipts = Receipts(10)
    receipts.file(Receipt("req_1", CHAT, 0, b"a" * 32))
    assert receipts.find("req_1", b"a" * 32) is not None
    assert receipts.find("req_1", b"b" * 32) is None
    assert receipts.find("req_1", b"") is None
    assert receipts.find("req_2", b"") is None
