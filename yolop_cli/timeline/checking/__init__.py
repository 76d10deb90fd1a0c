"""Finds."""
