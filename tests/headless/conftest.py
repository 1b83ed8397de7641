"""Fixtures of the command line's tests for those of the reporter."""

from tests.cli.conftest import no_engine_survives

__all__ = ["no_engine_survives"]
