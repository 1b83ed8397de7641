"""No engine outlives the test that started it."""

from tests.cli.conftest import no_engine_survives

__all__ = ["no_engine_survives"]
