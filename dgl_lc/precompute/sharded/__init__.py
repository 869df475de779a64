"""One precomputation on many ranks."""
