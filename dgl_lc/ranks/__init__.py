"""Processes that make a call together, under ``torch.distributed``."""
