"""What every other package builds on; nothing here knows graphs."""
