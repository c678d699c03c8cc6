"""Faults of the environment: `python -m dragoman_proof chaos [SCENARIO …]`.

Each scenario starts `dragoman serve` as a process before an upstream of its own, does something to its machine, and
compares what clients, `/ready`, the log and the files show with what the documentation promises. The tests in
`tests/bench/test_chaos_*.py` run the same functions. `docs/reference/environment.md` lists the promises.
"""
