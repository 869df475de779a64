"""Carrying out a plan on the CPU."""
