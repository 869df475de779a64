"""Graphs, features and hop features in folders on disk."""
