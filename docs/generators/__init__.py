"""Generators of single reference pages, for `generate.py`.

They import the project, `docstrings` and `table`, not each other.
"""
