"""A graph's edges by destination, its filters, and the rows they need."""
