"""Streams that clients may resume after their connection broke.

Start with `streams.py`.
"""
