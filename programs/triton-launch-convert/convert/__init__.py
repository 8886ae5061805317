"""Readers of other launchers' configurations, one module for each family."""
