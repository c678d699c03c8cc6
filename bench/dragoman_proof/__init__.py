"""Proofs of what a gateway survives, each one command: `python -m dragoman_proof --help`.

The wheel does not hold them. They need a checkout, as they play the streams recorded under `tests/golden/transcripts`.
"""
