"""What every other package may use: it knows nothing of graphs."""
