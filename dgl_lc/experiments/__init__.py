"""The paper's experiments: originals, their LC versions and peers compared."""
