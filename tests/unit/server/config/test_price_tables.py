"""`[prices] file`: prices of another file, for models without a price in the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman import Usage
from dragoman_server import ConfigError, parse_config
from dragoman_server.config.load import load_config

CONFIG = """
[providers.p]
dialect = "chat"
base_url = "http://127.0.0.1:1/v1"
[providers.p.prices.hand]
input = 7.0
[prices]
file = "more/prices.toml"
[prices."own*"]
input = 5.0
"""
FILE = """
[prices.own-1]
input = 1.0
[prices.other]
input = 2.0
[providers.p.prices.own-1]
input = 3.0
[providers.p.prices.hand]
input = 9.0
[providers.p.prices.other]
input = 4.0
[[providers.p.prices.other.steps]]
above = 9
input = 8.0
[providers.gone.prices.other]
input = 6.0
"""
MILLION = Usage(1_000_000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "more").mkdir()
    (tmp_path / "more/prices.toml").write_text(FILE)
    found = tmp_path / "dragoman.toml"
    found.write_text(CONFIG)
    return found


def test_prices_of_the_configuration_are_before_those_of_its_file(path: Path) -> None:
    table = load_config(path).price_table()
    costs = [
        table.cost(MILLION, model, provider) for model, provider in (("own-1", "p"), ("hand", "p"), ("own-2", None))
    ]
    assert costs == [5, 7, 5]
    # A step of the file, and the prices of another provider.
    assert [table.cost(MILLION, "other", provider) for provider in ("p", "q", None)] == [8, 2, 2]
    assert table.cost(MILLION, "novel") is None
    assert load_config(path, price_file=False).price_table().cost(MILLION, "other") is None


def test_a_configuration_with_a_file_alone_has_prices(path: Path) -> None:
    path.write_text(CONFIG.partition("[providers.p.prices")[0] + '[prices]\nfile = "more/prices.toml"\n')
    assert load_config(path).price_table()


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (None, "cannot be read: No such file or directory; `dragoman prices import` writes one"),
        ("[prices", "is not TOML: "),
        ("[prices.m]\ninput = -1", "prices.m.input: expected 0 or more per million tokens; got -1"),
        ("[prices.m]\ninput = '1'", 'prices.m.input: expected a number; got "1"'),
        (
            "[providers.p.prices.m.tiers.flex]\nfactor = -1",
            "providers.p.prices.m.tiers.flex.factor: expected 0 or more",
        ),
        ("[providers.p]\nbase_url = 'x'", "providers.p.base_url: unknown key"),
        ("[server]\nport = 1", "server: unknown key"),
    ],
)
def test_a_file_that_is_wrong_names_itself_and_the_key(path: Path, content: str | None, part: str) -> None:
    file = path.parent / "more/prices.toml"
    file.unlink()
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    ((where, message),) = caught.value.problems
    assert where == "prices.file"
    assert message.startswith(str(file))
    assert part in message


@pytest.mark.parametrize("value", [3, {"input": 1.0}])
def test_the_file_is_a_path(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"prices\.file: expected a string"):
        parse_config({"prices": {"file": value}}, {})
