"""Running a model on small random graphs and recording what it computes."""
