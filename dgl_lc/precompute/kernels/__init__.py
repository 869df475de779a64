"""The SpMM kernels, one file a subject."""
