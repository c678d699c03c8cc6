"""Coverage-guided fuzzing of what reads bytes from outside: `python -m dragoman_proof fuzz TARGET`.

A target is a function of bytes that raises if a promise is broken. `process.py` runs one under atheris, in a process of
its own; `run.py` starts that and reads its figures. The inputs that are kept in `corpus/` are replayed by an ordinary
test, which needs no atheris.
"""
