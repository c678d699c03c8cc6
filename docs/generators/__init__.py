"""Generators of single reference pages, for `generate.py`. They import the project, never each other."""
