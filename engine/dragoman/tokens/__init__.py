"""Estimates the tokens of a request: by a vocabulary if one is installed, else by its characters.

Each model has its own vocabulary and puts its own words around a prompt, so every count here is an estimate. Only an
upstream counts exactly.
"""
