"""The table `[providers.NAME.credential]`: the source of a credential that expires and is renewed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dragoman.gateway import changed_fields
from dragoman_server.config.aws_host import AwsHost, aws_host
from dragoman_server.config.config_error import Problem
from dragoman_server.config.setting import Above, Filled, Words, setting, setting_problems
from dragoman_server.config.value_problems import is_installed

GOOGLE, AZURE, AWS = "google", "azure", "aws"
COMMAND, FILE = "command", "file"
_PACKAGES = {GOOGLE: ("google.auth", "requests"), AZURE: ("azure.identity",), AWS: ("botocore",)}
"""The modules that each kind needs."""
_SCOPES = {
    GOOGLE: "https://www.googleapis.com/auth/cloud-platform",
    AZURE: "https://cognitiveservices.azure.com/.default",
}
_ONLY = {
    "ttl": (COMMAND,),
    "scope": (GOOGLE, AZURE),
    "profile": (AWS,),
    "service": (AWS,),
    "region": (AWS,),
}
"""The settings that only some sources use."""
TTL = 300.0
"""Seconds for which a command's token is used if neither its output nor the configuration has a time."""


@dataclass(frozen=True)
class CredentialOptions:
    """A credential that the gateway fetches, and fetches again before it expires.

    One of `command`, `file` and `kind` is the source.
    """

    __repr__ = changed_fields

    command: tuple[str, ...] = setting((), getter="texts", shown=False)
    """A program and its arguments. It prints the token, or JSON with token and expires_at."""
    ttl: float | None = setting(None, Above("seconds"))
    """command: seconds for which the token is used, unless the output has expires_at (default 300)."""
    file: str = setting("", getter="file_path")
    """A file that holds the token. It is read again when it changes. Relative to the configuration's file."""
    kind: str | None = setting(None, Words((GOOGLE, AZURE, AWS), "kind"))
    """google: application default credentials; azure: Entra's default credential; aws: requests signed by SigV4."""
    scope: str | None = setting(None, Filled())
    """google, azure: the scope of the token (default: Google's cloud-platform, Azure's cognitiveservices)."""
    profile: str | None = setting(None, Filled())
    """aws: the profile in AWS' configuration files (default: that of AWS_PROFILE)."""
    service: str | None = setting(None, Filled())
    """aws: the service that requests are signed for (default: that of the host)."""
    region: str | None = setting(None, Filled())
    """aws: the region that requests are signed for (default: that of the host)."""

    @property
    def source(self) -> str:
        """The word for the source: `command`, `file`, or the kind."""
        return self.kind or (COMMAND if self.command else FILE)

    @property
    def scope_used(self) -> str:
        """The scope of a token of Google or Azure."""
        return self.scope or _SCOPES.get(self.source, "")

    def aws_host(self, base_url: str) -> AwsHost:
        """Return the service and the region that requests to `base_url` are signed for."""
        found = aws_host(base_url)
        return AwsHost(self.service or found.service, self.region or found.region)

    def problems(self, at: str, base_url: str) -> Iterator[Problem]:
        """Yield the problems of these settings of a provider; `at` is their path in the configuration."""
        yield from setting_problems(at, self)
        given = [name for name in (COMMAND, FILE, "kind") if getattr(self, name)]
        if len(given) != 1:
            found = f"has {' and '.join(given)}" if given else "has none"
            yield at, f"needs exactly one of command, file and kind; it {found}"
            return
        if self.command and not self.command[0]:
            yield f"{at}.command[0]", "is empty: name a program"
        for name, sources in _ONLY.items():
            if getattr(self, name) is not None and self.source not in sources:
                yield f"{at}.{name}", f"has no effect here: it is for {' and '.join(sources)}"
        if not all(is_installed(module) for module in _PACKAGES.get(self.source, ())):
            yield f"{at}.kind", f"needs packages that are not installed: install Dragoman with the extra {self.source}"
        if self.source == AWS:
            for name, value in self.aws_host(base_url)._asdict().items():
                if not value:
                    yield f"{at}.{name}", f"is required, as the host of base_url names no {name} of AWS"
