"""The configurations of docs/howto/vendors, as their readers copy them, with the connection led to another host."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from urllib.parse import urlsplit

from dragoman_server.config.load import parse_config
from dragoman_server.config.schema import Config
from support.paths import ROOT

PAGES = ROOT / "docs" / "howto" / "vendors"
MOST_LINES = 6
_BLOCK = re.compile(r"^```toml\n(.*?)^```", re.DOTALL | re.MULTILINE)
_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")


def blocks(page: str) -> list[str]:
    """The TOML blocks of a page."""
    return _BLOCK.findall((PAGES / f"{page}.md").read_text("utf-8"))


def configuration(page: str, dialect: str, key: str) -> Config:
    """The configuration of the page's first block with this dialect; each variable of the environment has the key.

    Raises ConfigError as `dragoman check` does.
    """
    text = next(text for text in blocks(page) if f'dialect = "{dialect}"' in text)
    return parse_config(tomllib.loads(text), dict.fromkeys(_VARIABLE.findall(text), key))


def led_to(config: Config, url: str) -> Config:
    """The configuration with each provider's connection led to `url`.

    Scheme, host and port change; the path, and the profile that the real host selected, stay.
    """
    target = urlsplit(url)
    providers = {
        name: replace(
            provider,
            base_url=urlsplit(provider.base_url)._replace(scheme=target.scheme, netloc=target.netloc).geturl(),
        )
        for name, provider in config.providers.items()
    }
    return replace(config, providers=providers)
