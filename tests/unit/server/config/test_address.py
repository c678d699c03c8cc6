"""The address of a gateway in its configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman_server.config.address import Address, load_address, reachable
from dragoman_server.config.config_error import ConfigError


def load(path: Path, text: str) -> Address:
    path.write_text(text)
    return load_address(path)


def test_an_address(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    assert load(file, "") == Address("127.0.0.1", 8080)
    assert load(file, '[server]\nhost = "10.0.0.1"\nport = 9000\nkeys = ["${UNSET}", "k"]\n') == ("10.0.0.1", 9000, "k")
    # Other mistakes of the file are those of the gateway that does not start with it.
    assert load(file, "[server]\nport = 9000\nprot = 1\n[server.limits]\nmax = 3\n").port == 9000


@pytest.mark.parametrize(
    "text", ["[server]\nport = -1\n", '[server]\nport = "a"\n', "[server]\nhost = 1\n", "server = 3\n"]
)
def test_an_address_that_is_none(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "a.toml", text)
    assert caught.value.file == str(tmp_path / "a.toml")


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("fe80::1", "http://[fe80::1]:80"),
        ("gateway.example", "http://gateway.example:80"),
    ],
)
def test_the_url_for_clients_of_this_machine(host: str, url: str) -> None:
    assert Address(host, 80).url == url
    assert reachable(url) == url
