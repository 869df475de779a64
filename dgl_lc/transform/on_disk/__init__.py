"""Precomputing inputs step by step, with graph, features and steps on disk."""
