"""What the tests of the reporter share with those of the command line."""

from tests.cli.conftest import no_engine_survives

__all__ = ["no_engine_survives"]
