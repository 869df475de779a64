"""Precomputation by several ranks."""
