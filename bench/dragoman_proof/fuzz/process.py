"""The process that fuzzes one target: `python -m dragoman_proof.fuzz.process TARGET FINDS [flags of libFuzzer]`.

Only modules of Dragoman are instrumented, those too that are imported while it runs. libFuzzer ends the process.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from random import Random
from typing import Any

import atheris

from dragoman_proof.fuzz.finds import Finds
from dragoman_proof.fuzz.target import load

_BYTES_OF_TEN = 3
"""In so many of ten mutations bytes are changed at random, without regard to their structure."""


def main(program: str, name: str, folder: str, *flags: str) -> None:
    """Fuzz until the time is over. `program` is what libFuzzer starts again when it merges corpora."""
    logging.disable(logging.CRITICAL)
    with atheris.instrument_imports(include=["dragoman", "dragoman_server"]):
        target = load(name)
        finds = Finds(Path(folder), name)

        def check(data: bytes) -> None:
            try:
                target.check(data)
            except Exception as error:
                finds.add(data, error)

        options: dict[str, Any] = {}
        if (mutate := target.mutate) is not None:
            others = target.seeds

            def changed(data: bytes, most: int, seed: int) -> bytes:
                random = Random(seed)
                other = random.choice(others)
                new = None if random.randrange(10) < _BYTES_OF_TEN else mutate(data, other, random)
                return atheris.Mutate(data, most) if new is None else new[:most]

            def crossed(one: bytes, other: bytes, most: int, seed: int) -> bytes:
                return (mutate(one, other, Random(seed)) or one)[:most]

            options = {"custom_mutator": changed, "custom_crossover": crossed}
        atheris.Setup([program, *flags], check, **options)
        atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
