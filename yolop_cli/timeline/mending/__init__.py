"""Repairs."""
