"""Drawing a model and its LC version as an SVG picture."""
