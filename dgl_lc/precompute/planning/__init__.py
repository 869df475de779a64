"""Plans: how the work is cut, and what that costs."""
