"""No engine outlives the test that started it."""

from tests.cli.conftest import no_engine_survives as no_engine_survives
