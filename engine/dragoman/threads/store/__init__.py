"""Stores of conversations."""
