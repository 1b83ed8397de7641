"""What the tests of sessions share with those of the command line."""

from tests.cli.conftest import gmg, no_engine_survives

__all__ = ["gmg", "no_engine_survives"]
