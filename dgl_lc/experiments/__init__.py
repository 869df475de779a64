"""Models side by side: the originals, their LC versions, and peers."""
