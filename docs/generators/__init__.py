"""Generators of single reference pages, for `generate.py`. They import the project and `docstrings`, not each other."""
