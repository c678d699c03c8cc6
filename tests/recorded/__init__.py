"""Recorded traffic of public projects as a judge of the translators. The recordings never enter this repository."""
